"""The benchmark: its contestants compute one function, its arithmetic is right, its output is complete. No timings."""

import dataclasses
import functools
import itertools
import os
import subprocess
import sys

import jax
import numpy as np
import pytest
from attnlab_course.bench import __main__ as command
from attnlab_course.bench import calls, compare, peers, question, small
from attnlab_course.bench import contestants as who
from attnlab_course.bench.calls import make_inputs, prepare
from attnlab_course.bench.contestants import Contestant, choose_contestants
from attnlab_course.bench.question import Question
from attnlab_course.bench.setting import Setting
from attnlab_course.instruments import timing

from attnlab import METHODS, measure
from tests.support import ROOT, needs, oracle
from tests.support.libraries import back

TINY = Setting(n=11, batch=2, heads=4, kv_heads=4, d=3)
SETTINGS = {
    "plain": {},
    "causal": {"causal": True},
    "window": {"window": (3, 1)},
    "one-sided window": {"window": (2, -1), "kv_heads": 2},
    "causal window of grouped heads": {"causal": True, "window": (4, 9), "kv_heads": 1},
    "fewer queries than keys": {"n": 5, "m": 12, "causal": True, "kv_heads": 2},
    "one query in a window": {"n": 1, "m": 13, "window": (4, 0)},
    "more queries than keys": {"m": 7},
}
GRADIENTS = ("fewer queries than keys", "causal window of grouped heads", "causal")


def everyone(setting):
    found, _ = choose_contestants(setting)
    return [contestant for contestant in found if contestant.method != "products"]


def expected(setting):
    """out, or (out, dq, dk, dv), by the oracle."""
    query, key, value, *rest = make_inputs(Contestant("numpy", "tiled"), setting)
    options = {"causal": setting.causal, "window": setting.window, "mask": rest.pop()}
    out = oracle.attention(query, key, value, **options).out
    grads = oracle.gradients(query, key, value, rest[0], **options)[:3] if setting.gradient else ()
    return out, *grads


CALLS = [*[(x, False) for x in SETTINGS], *[(x, True) for x in GRADIENTS]]


def in_turn(name, gradient, whole):
    """A setting, and who takes part. JAX compiles each contestant: a third of them have their turn, or else all."""
    setting, turn = dataclasses.replace(TINY, gradient=gradient, **SETTINGS[name]), CALLS.index((name, gradient))
    found = everyone(setting)
    of_jax = [contestant for contestant in found if contestant.library == "jax"]
    return setting, [x for x in found if whole or x not in of_jax or (of_jax.index(x) + turn) % 3 == 0]


def test_every_contestant_has_its_turn():
    for gradient in (False, True):
        calls = [call for call in CALLS if call[1] == gradient]
        few, all_of_them = ({x.name for call in calls for x in in_turn(*call, whole)[1]} for whole in (False, True))
        assert few == all_of_them >= {"torch sdpa", "jax nn", "numpy tiled", "jax chunked"}


@pytest.mark.thin(4)
@pytest.mark.parametrize(("name", "gradient"), CALLS)
def test_every_contestant_computes_the_same(name, gradient, request):
    setting, contestants = in_turn(name, gradient, whole=not request.config.option.markexpr)
    right = expected(setting)
    for contestant in contestants:
        found = prepare(contestant, setting)()
        found = [back(x) for x in (found if gradient else [found])]
        found = [x.swapaxes(1, 2) for x in found] if contestant.method in calls.LENGTH_FIRST else found
        assert len(found) == len(right)
        for x, y in zip(found, right):
            np.testing.assert_allclose(x, y, rtol=0, atol=3e-6, err_msg=contestant.name)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", peers.NEEDS)
def test_a_runtime_of_graphs_computes_the_same(name, causal):
    needs(*peers.NEEDS[name])
    setting = dataclasses.replace(TINY, causal=causal)
    assert name in peers.list_installed()
    found = prepare(Contestant("numpy", name), setting)()
    found = found.swapaxes(1, 2) if name in calls.LENGTH_FIRST else found
    np.testing.assert_allclose(found, expected(setting)[0], rtol=0, atol=3e-6)


def test_what_runtimes_of_graphs_cannot_do_is_told(monkeypatch):
    monkeypatch.setattr(peers, "list_installed", lambda: list(peers.NEEDS))
    assert set(peers.NEEDS) <= {x.method for x in everyone(TINY)}
    others = {"dtype": "float16"}, {"kv_heads": 2}, {"window": (3, 1)}, {"gradient": True}, {"m": 7, "causal": True}
    for other in others:
        setting = dataclasses.replace(TINY, **other)
        assert not set(peers.NEEDS) & {x.method for x in everyone(setting)}
        assert "float32" in choose_contestants(setting)[1]["numpy openvino"]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision(dtype):
    setting = dataclasses.replace(TINY, dtype=dtype)
    right = expected(dataclasses.replace(setting, dtype="float32"))[0]
    for contestant in [Contestant(x, "tiled") for x in who.ORDER] + [who.UNIT]:
        assert dtype in str(make_inputs(contestant, setting)[0].dtype)
        np.testing.assert_allclose(back(prepare(contestant, setting)()), right, atol=0.03)
    assert len(everyone(setting)) == 20


@pytest.mark.parametrize("name", SETTINGS)
def test_visible_pairs_are_counted(name):
    setting = dataclasses.replace(TINY, **SETTINGS[name])
    n, m = setting.n, setting.keys
    pairs = itertools.product(range(n), range(m))
    assert setting.visible == sum(oracle.in_band(i, j, n, m, setting.causal, setting.window) for i, j in pairs)


def test_flops():
    plain = Setting(n=100, batch=3, heads=8, kv_heads=2, d=64)
    assert plain.flops == 4 * 100**2 * 64 * 24
    assert dataclasses.replace(plain, gradient=True).flops == 3.5 * plain.flops
    assert dataclasses.replace(plain, window=(9, 0)).flops == 4 * (100 * 10 - 45) * 64 * 24
    assert calls.count_flops(Contestant("jax", "products"), plain) == 2 * 32**3


def test_who_takes_part():
    found, notes = choose_contestants(Setting(n=1025))
    names = [contestant.name for contestant in found]
    assert names[0] == "torch products"
    assert len(set(names)) == len(names) == 3 * 5 + 2 + len(peers.list_installed())
    assert set(notes) == {f"{library} {method}" for library in who.ORDER for method in ("lazy", "online")}
    found, notes = choose_contestants(Setting(n=1025), ["jax"], ["online"])
    assert [x.name for x in found] == ["torch sdpa", "jax products", "jax online"]
    assert not notes
    found, notes = choose_contestants(Setting(gradient=True), ["numpy"])
    assert [x.name for x in found] == ["torch sdpa", "numpy products", "numpy tiled"]
    assert notes["numpy chunked"] == "no gradient in NumPy"


def test_who_does_not_fit(monkeypatch):
    monkeypatch.setattr(who.hardware, "memory_size", lambda: 8 * 4 * 8 * 1024**2)
    assert "naive" in who.list_methods("numpy", "cpu")
    assert who.explain_absence("naive", Setting(n=1024)) is None
    assert "all scores are" in who.explain_absence("naive", Setting(n=1025))
    assert who.explain_absence("tiled", Setting(n=1025)) is None


def test_a_library_that_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(who.importlib.util, "find_spec", lambda name: name != "jax")
    found, notes = choose_contestants(TINY)
    assert notes["jax"] == "not installed"
    assert {contestant.library for contestant in found} == {"torch", "numpy"}


class Clock:
    """Time that passes only when a call says so."""

    def __init__(self):
        self.now, self.log = 0.0, []

    def perf_counter(self):
        return self.now

    def call(self, name, *seconds):
        """A call that takes so long, each time the next of ``seconds``, in a circle."""
        turn = itertools.cycle(seconds)

        def run():
            self.log.append(name)
            self.now += next(turn)

        return run


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(timing, "time", clock)
    return clock


@pytest.fixture
def now(clock):
    return {"now": clock.perf_counter}


def test_rounds_are_interleaved_and_the_first_is_not_counted(clock, now):
    given = {"a": clock.call("a", 100.0, 1.0, 2.0, 9.0), "b": clock.call("b", 5.0)}
    assert timing.interleave(given, 3, **now) == {"a": [1.0, 2.0, 9.0], "b": [5.0] * 3}
    assert clock.log == ["a", "b"] * 4


@pytest.mark.parametrize(("each", "seconds", "rounds"), [([10.0], 12, 3), ([1.0], 12, 7), ([0.001], 12, 10),
                                                          ([1.0, 5.0], 100, 17)])
def test_rounds_go_on_until_they_settle_or_it_is_late(clock, now, each, seconds, rounds):
    given = {"a x": clock.call("a", *each), "b x": clock.call("b", *each)}
    assert [len(values) for values in timing.interleave(given, None, seconds, **now).values()] == [rounds, rounds]


def test_a_library_settles_and_short_calls_are_repeated(clock, now, monkeypatch):
    monkeypatch.setattr(timing, "SAMPLE", 2)
    other = clock.call("bx", 4.0, 4.0, 1.0, 4.0, 1.0)
    given = {"a x": clock.call("ax", 1.0), "a y": clock.call("ay", 9.0), "b x": other}
    assert timing.interleave(given, 1, settle=3, **now) == {"a x": [1.0], "a y": [9.0], "b x": [2.5]}
    assert clock.log == ["ax", "ay", "bx", *["ax"] * 3, *["ax"] * 3, "ay", "bx", *["bx"] * 3]


def test_what_fails_is_left_out_and_named(clock, now):
    def fail():
        raise NotImplementedError("no such kernel\nand more")

    failed = {}
    assert timing.interleave({"a x": fail, "b x": clock.call("b", 1.0)}, 2, failed=failed, **now) == {"b x": [1.0, 1.0]}
    assert failed == {"a x": "no such kernel"}
    with pytest.raises(NotImplementedError, match="no such kernel"):
        timing.interleave({"a x": fail}, 1)


def test_times_settle_or_scatter():
    """The middle half within a tenth: of the rounds, or from ten rounds on of the medians of three each."""
    assert timing.has_settled([1.0, 1.02, 0.99, 1.01])
    assert not timing.has_settled([1.0, 1.3, 0.8, 1.0, 1.3, 0.8])
    assert timing.has_settled([1.0, 1.0, 9.0] * 4)
    assert not timing.has_settled([1.0] * 6 + [1.3] * 6)
    assert timing.has_settled([2.0])


def test_rows(monkeypatch):
    monkeypatch.setattr(compare, "extra_memory", lambda tasks: [3 * 2**20] * len(tasks))
    setting = Setting(n=256, window=(9, 0))
    times = {"torch products": 1e-3, "torch sdpa": 0.2, "torch tiled": 0.05, "jax tiled": 0.4}
    product, unit, tiled, other = compare.make_rows(setting, times, memory=True)
    assert product == ["torch products", "1", "–", f"{2 * 32**3 / 1e-3 / 1e9:.1f}", "–", "–"]
    assert unit[:3] == ["torch sdpa", "200", "1.00"]
    share = setting.flops / 0.05 / (2 * 32**3 / 1e-3)
    assert tiled == ["torch tiled", "50", "0.25", f"{setting.flops / 0.05 / 1e9:.1f}", f"{share:.2f}", "3 MiB"]
    assert (other[2], other[4]) == ("2.00", "–")  # JAX's products were not timed
    assert [row[-1] for row in compare.make_rows(setting, times, memory=False)] == ["–"] * 4
    assert [question.format_ms(x) for x in (None, 1.23456e-5, 0.0123456, 1.23456)] == ["–", "0.0123", "12.3", "1,235"]


def cells(line):
    """The cells of a line in Markdown."""
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_an_answer_says_what_failed_and_what_scattered(clock, now, capsys, monkeypatch):
    monkeypatch.setattr(question, "interleave", functools.partial(timing.interleave, **now))

    def fail():
        raise MemoryError("no room")

    given = {"a x": clock.call("x", 1.0, 1.0, 2.0, 4.0), "a y": clock.call("y", 1.0), "a z": fail}
    def make_rows(setting, times):
        return [[f"{setting} {name}", question.format_ms(time)] for name, time in times.items()]

    asked = Question("What?", ["", "ms"], ["one"], lambda _: given, make_rows, {"a w": "slow", "b w": "slow"})
    question.print_answer(asked, 3, 1)
    title, _, *table, _, slow, _, failed, _, restless, end, _ = capsys.readouterr().out.split("\n")
    assert (title, slow, failed, end) == ("What?", "a w, b w: slow", "a z: failed: no room", "")
    assert [cells(line) for line in table] == [
        ["", "ms"], ["-" * 7, "-" * 4 + ":"], ["one a x", "2,000"], ["one a y", "1,000"],
    ]  # fmt: skip
    assert len({len(line) for line in table}) == 1  # aligned
    assert restless.startswith("a x: scattered")


def options(*words):
    return command.parser().parse_args(words)


def test_options_become_settings():
    found = list(compare.list_settings(options()))
    assert found == [Setting(), Setting(gradient=True)]
    assert {(x.n, x.m) for x in compare.list_settings(options("--n", "1", "--m", "64"))} == {(1, 64)}
    words = "--n 8 16 --d 64 128 --dtype float16 --causal both --only forward --heads 4 --kv-heads 2 --window 3 -1"
    found = list(compare.list_settings(options(*words.split())))
    assert len(found) == len(set(found)) == 8
    assert {x.window for x in found} == {(3, -1)}
    assert {(x.heads, x.kv_heads, x.dtype, x.gradient) for x in found} == {(4, 2, "float16", False)}
    assert {x.causal for x in compare.list_settings(options("--causal"))} == {True}


@pytest.mark.parametrize("words", ["--methods fast", "--only backward", "--device tpu", "--window 3", "--kv-heads 3"])
def test_what_is_unknown_is_refused(words, capsys):
    with pytest.raises(SystemExit):
        command.main(words.split())
    assert "error: " in capsys.readouterr().err


def test_threads_start_the_process_again_once(monkeypatch):
    started = []
    monkeypatch.setattr(command.os, "sched_setaffinity", lambda _, cores: started.append(len(cores)), raising=False)
    monkeypatch.setattr(command.os, "sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    monkeypatch.setattr(subprocess, "call", lambda _, env: started.append(env["OPENBLAS_NUM_THREADS"]) or 7)
    for name in ("JAX_PLATFORMS", *command.THREADS):
        monkeypatch.setenv(name, "")
    with pytest.raises(SystemExit, match="7"):
        command.environment(options("--threads", "2"))
    assert started == [2, "2"]
    for name in command.THREADS:
        monkeypatch.setenv(name, "2")
    command.environment(options("--threads", "2"))
    assert started == [2, "2", 2]
    assert os.environ["JAX_PLATFORMS"] == "cpu"


@pytest.mark.full
def test_extra_memory_of_each_library():
    setting = Setting(n=512, heads=1, kv_heads=1, d=8)
    found = [Contestant(x, "naive") for x in who.ORDER] + [Contestant(x, "tiled") for x in who.ORDER]
    tasks = [(contestant, dataclasses.replace(setting, window=(600, 600))) for contestant in found]
    sizes = compare.extra_memory([*tasks, (who.UNIT, dataclasses.replace(setting, gradient=True))])
    assert all(4 * 512**2 <= size <= 4 * 4 * 512**2 for size in sizes[:3])
    assert all(size > 0 for size in sizes[3:])
    with pytest.raises(RuntimeError, match="process failed"):
        compare.extra_memory([(Contestant("numpy", "nothing"), setting)])


@pytest.mark.parametrize("method", ["naive", "chunked"])
def test_a_plan_of_memory_is_that_of_the_program_which_runs(method, monkeypatch):
    """JAX's memory is read from a program that was compiled quickly."""
    monkeypatch.setenv("XLA_FLAGS", measure.HONEST_XLA)  # as if it had been there in time
    function = jax.grad(lambda x: METHODS[method](x, x, x).sum())
    shape, whole = jax.ShapeDtypeStruct((1, 128, 8), "float32"), dict(zip(measure.QUICKLY, (3, False, True)))
    plan = jax.jit(function).lower(shape).compile(compiler_options=whole).memory_analysis()
    assert measure.jax_bytes(function, shape) == plan.temp_size_in_bytes > 0


@pytest.mark.daily
def test_the_whole_command(capsys, monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setattr(compare, "extra_memory", lambda tasks: [2**20 * len(tasks)] * len(tasks))
    command.main(["--n", "8", "16", "--d", "4", "--rounds", "2", "--methods", "tiled", "safe"])
    text = capsys.readouterr().out
    assert text.count("forward+backward, N = M") == 2
    assert text.count("| numpy tiled") == 4
    assert "numpy safe: no gradient in NumPy" in text
    assert "7 MiB" in text
    assert text.startswith(question.describe_machine("cpu"))
    assert os.uname().nodename not in text


def test_the_benchmark_does_not_load_matplotlib():
    code = "import sys; from attnlab_course.bench import compare, small; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]


@pytest.mark.thin(7)
@pytest.mark.parametrize("setting", small.FUSED, ids=str)
@pytest.mark.parametrize("library", ["torch", "jax"])
def test_small_calls_compute_the_same(library, setting):
    """Ours and the library's own, so that a ratio is one of speed alone."""
    setting = dataclasses.replace(setting, n=min(setting.n, 16), batch=1)
    ours, own = (prepare(Contestant(library, method), setting)() for method in ("tiled", *who.OWN[library]))
    for one, other in zip(*(x if setting.gradient else [x] for x in (ours, own))):
        one, other = (back(x).astype(np.float32) for x in (one, other))
        other = other if one.shape == other.shape else other.swapaxes(1, 2)
        np.testing.assert_allclose(one, other, atol={"float32": 1e-4, "bfloat16": 0.1}[setting.dtype])


def test_the_formula_computes_the_same():
    for setting in small.BARE:
        right = expected(setting)[0]
        for library in who.ORDER:
            found = back(prepare(Contestant(library, "formula"), setting)())
            np.testing.assert_allclose(found, right, rtol=0, atol=3e-6, err_msg=library)


def test_small_tables(capsys, monkeypatch):
    """In Markdown, as a page holds them."""
    monkeypatch.setattr(small, "FUSED", [Setting(8, d=8), Setting(1, 16, heads=4, kv_heads=2, d=8, dtype="bfloat16")])
    command.main(["--small", "--rounds", "1"])
    machine, fused, head, bare, other, _ = capsys.readouterr().out.split("\n\n")[:6]
    assert "torch" in machine
    assert "fused" in fused
    head, rule, *rows = head.split("\n")
    own = ["torch sdpa", "ratio", "torch grouped", "ratio"]
    assert cells(head) == ["", "torch tiled", *own, "jax tiled", "jax nn", "ratio"]
    assert {line.count("|") for line in (head, rule, *rows)} == {10}
    assert [cells(line)[0] for line in rows] == [str(setting) for setting in small.FUSED]
    assert "formula" in bare
    assert cells(other.split("\n")[0])[-3:] == ["numpy tiled", "numpy formula", "ratio"]


STORED = ROOT / "notebooks/attnlab_course/bench/small_calls.md"


def test_the_stored_table_shows_what_the_page_says():
    """Recipes: short calls are PyTorch's, so is a decoding step on a view; JAX's are behind, or level."""
    lines = [line.split("|")[1:-1] for line in STORED.read_text().splitlines() if "|" in line]
    rows = {what.strip(): cells for what, *cells in lines}
    for setting in small.FUSED:
        _, _, sdpa, _, grouped, _, _, jax = rows[str(setting)]
        assert float(sdpa if setting.n > 1 else grouped) > 1
        assert float(jax) < (1.1 if setting.n == 128 and setting.gradient else 1)
    assert float(sdpa) < 0.5  # of the last one, in bfloat16: enable_gqa copies the keys


def test_a_small_row():
    asked = small.compare_with("x", {"torch": ["sdpa", "grouped"]}, [])
    times = {"torch tiled": 2e-3, "torch sdpa": 1e-3, "torch grouped": 4e-3}
    (row,) = asked.make_rows(Setting(1, 4096, heads=32, kv_heads=8), times)
    assert row == ["forward, N = 1, M = 4096, 32 heads on 8 of size 64, float32", "2", "1", "2.00", "4", "0.50"]
    assert asked.head == ["", "torch tiled", "torch sdpa", "ratio", "torch grouped", "ratio"]
