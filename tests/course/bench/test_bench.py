"""The benchmark: its contestants compute one function, its arithmetic is right, its output is complete. No timings."""

import csv
import dataclasses
import itertools
import os
import subprocess
import sys

import jax
import numpy as np
import pytest
from attnlab_course import bench
from attnlab_course.bench import __main__ as command
from attnlab_course.bench import calls, compare, extra_memory, overhead, small, table, targets
from attnlab_course.bench import contestants as who
from attnlab_course.bench.calls import inputs, prepare
from attnlab_course.bench.contestants import Contestant, contestants
from attnlab_course.bench.setting import Setting
from attnlab_course.instruments import timing

from attnlab import METHODS, measure
from tests.support import ROOT, oracle
from tests.support.libraries import back

TINY = Setting(n=11, batch=2, heads=4, kv_heads=4, d=3, block_q=4, block_k=3)
SETTINGS = {
    "plain": {},
    "causal": {"causal": True},
    "window": {"window": (3, 1)},
    "one-sided window": {"window": (2, -1), "kv_heads": 2},
    "causal window of grouped heads": {"causal": True, "window": (4, 9), "kv_heads": 1},
    "fewer queries than keys": {"n": 5, "m": 12, "causal": True, "kv_heads": 2},
    "one query in a window": {"n": 1, "m": 13, "window": (4, 0)},
    "more queries than keys": {"m": 7, "padding": True},
    "padding": {"padding": True},
    "causal padding": {"padding": True, "causal": True},
}
GRADIENTS = ("fewer queries than keys", "causal window of grouped heads", "causal padding")


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(timing, "SETTLE", 0)
    monkeypatch.setattr(timing, "SHORT", 0)
    monkeypatch.setitem(calls.PRODUCT, "cpu", 32)


def everyone(setting):
    found, _ = contestants(setting)
    return [contestant for contestant in found if contestant.method != "products"]


def expected(setting):
    """out, or (out, dq, dk, dv), by the oracle."""
    query, key, value, *rest = inputs(Contestant("numpy", "tiled"), setting)
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


@pytest.mark.thin(2)
@pytest.mark.parametrize(("name", "gradient"), CALLS)
def test_every_contestant_computes_the_same(name, gradient, request):
    setting, contestants = in_turn(name, gradient, whole=not request.config.option.markexpr)
    right = expected(setting)
    for contestant in contestants:
        found = prepare(contestant, setting)()
        found = [back(x) for x in (found if gradient else [found])]
        found = [x.swapaxes(1, 2) for x in found] if contestant.method == "nn" else found
        assert len(found) == len(right)
        for x, y in zip(found, right):
            np.testing.assert_allclose(x, y, rtol=0, atol=3e-6, err_msg=contestant.name)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision(dtype):
    setting = dataclasses.replace(TINY, dtype=dtype)
    right = expected(dataclasses.replace(setting, dtype="float32"))[0]
    for contestant in [Contestant(x, "tiled") for x in who.ORDER] + [who.UNIT]:
        assert dtype in str(inputs(contestant, setting)[0].dtype)
        np.testing.assert_allclose(back(prepare(contestant, setting)()), right, atol=0.03)
    assert len(everyone(setting)) == 20


def test_blocks_reach_tiled_alone():
    for method in METHODS:
        options = calls.attention(Contestant("numpy", method), TINY).keywords
        assert ({"block_q": 4, "block_k": 3}.items() <= options.items()) == (method == "tiled")


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
    assert dataclasses.replace(plain, causal=True).flops == 4 * (100 * 101 // 2) * 64 * 24
    assert dataclasses.replace(plain, window=(9, 0)).flops == 4 * (100 * 10 - 45) * 64 * 24
    assert dataclasses.replace(plain, n=1, m=100, causal=True).flops == 4 * 100 * 64 * 24
    assert calls.flops(Contestant("jax", "products"), plain) == 2 * 32**3


def test_who_takes_part():
    found, notes = contestants(Setting(n=1025))
    names = [contestant.name for contestant in found]
    assert names[0] == "torch products"
    assert len(set(names)) == len(names) == 3 * 5 + 2
    assert set(notes) == {f"{library} {method}" for library in who.ORDER for method in ("lazy", "online")}
    found, notes = contestants(Setting(n=1025), ["jax"], ["online"])
    assert [x.name for x in found] == ["torch sdpa", "jax products", "jax online"]
    assert not notes
    found, notes = contestants(Setting(gradient=True), ["numpy"])
    assert [x.name for x in found] == ["torch sdpa", "numpy products", "numpy tiled"]
    assert notes["numpy chunked"] == "no gradient in NumPy"


def test_who_does_not_fit(monkeypatch):
    monkeypatch.setattr(who.hardware, "memory_size", lambda: 8 * 4 * 8 * 1024**2)
    assert "naive" in who.methods_of("numpy", "cpu")
    assert who.too_slow_or_large("naive", Setting(n=1024)) is None
    assert "all scores are" in who.too_slow_or_large("naive", Setting(n=1025))
    assert who.too_slow_or_large("tiled", Setting(n=1025)) is None


def test_a_library_that_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(who.importlib.util, "find_spec", lambda name: name != "jax")
    found, notes = contestants(TINY)
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


def test_rounds_are_interleaved_and_the_first_is_not_counted(clock):
    given = {"a": clock.call("a", 100.0, 1.0, 2.0, 9.0), "b": clock.call("b", 5.0)}
    assert bench.measure(given, 3) == {"a": 2.0, "b": 5.0}
    assert clock.log == ["a", "b"] * 4


@pytest.mark.parametrize(("each", "rounds"), [(10.0, 3), (1.0, 6), (0.001, 31)])
def test_rounds_fill_the_time(clock, each, rounds):
    taken, failed = timing.interleave({"a x": clock.call("a", each), "b x": clock.call("b", each)}, None, 12, False)
    assert [len(values) for values in taken.values()] == [rounds, rounds]
    assert not failed


def test_a_library_settles_and_short_calls_are_repeated(clock, monkeypatch):
    monkeypatch.setattr(timing, "SETTLE", 3)
    monkeypatch.setattr(timing, "SHORT", 2)
    other = clock.call("bx", 1.0, 1.0, 1.0, 1.0, 4.0)
    given = {"a x": clock.call("ax", 1.0), "a y": clock.call("ay", 9.0), "b x": other}
    taken, _ = timing.interleave(given, 1)
    assert taken == {"a x": [1.0], "a y": [9.0], "b x": [4.0]}
    assert clock.log == ["ax", "ay", "bx", *["ax"] * 3, *["ax"] * 2, "ay", *["bx"] * 3, "bx"]


def test_what_fails_is_left_out_and_named(clock):
    def fail():
        raise NotImplementedError("no such kernel\nand more")

    taken, failed = timing.interleave({"a x": fail, "b x": clock.call("b", 1.0)}, 2)
    assert taken == {"b x": [1.0, 1.0]}
    assert failed == {"a x": "no such kernel"}
    with pytest.raises(RuntimeError, match="no such kernel"):
        bench.measure({"a x": fail}, 1)


def test_ready_returns_what_it_waits_for():
    for x in (np.ones(3), inputs(Contestant("jax", "tiled"), TINY)[0], inputs(who.UNIT, TINY)[0]):
        assert bench.ready(x) is x


def test_noise_is_judged_by_spread_and_drift():
    quiet = [1.0, 1.02, 0.99, 1.01, 1.0, 1.0]
    wide = [1.0, 1.3, 0.8, 1.0, 1.3, 0.8]
    rising = [1.0, 1.0, 1.0, 1.2, 1.2, 1.2]
    assert timing.noise({"a": quiet, "b": wide}, ["a"]) is None
    text = timing.noise({"a": quiet, "b": wide, "c": rising}, ["a", "b", "c"])
    assert "too noisy" in text
    assert "b scattered by 38%" in text
    assert "c drifted by +20%" in text
    assert "a " not in text.split(":")[1]
    assert timing.noise({"b": wide}, ["b"], limit=0.5) is None
    assert timing.spread([2.0]) == timing.drift([1.0, 2.0]) == 0


def some_rows(gradient=False):
    """Rows of two lengths, of made-up samples."""
    found = []
    for n in (256, 512):
        setting = Setting(n=n, gradient=gradient, window=(9, 0))
        who_ran = [Contestant("torch", "products"), who.UNIT, Contestant("torch", "tiled"), Contestant("jax", "tiled")]
        seconds = {"torch products": [1e-3, 1e-3], "torch sdpa": [0.1, 0.3], "torch tiled": [0.1], "jax tiled": [0.4]}
        found += table.make_rows(setting, who_ran, seconds, {"jax tiled": 3 * 2**20})
    return found


def test_rows():
    product, unit, tiled, other = some_rows()[:4]
    assert (product.ratio, product.fraction, product.rate) == (None, None, 2 * 32**3 / 1e-3)
    assert (unit.ratio, unit.rounds, unit.spread) == (1, 2, pytest.approx(0.5))
    assert (tiled.ratio, other.ratio, other.extra) == (0.5, 2, 3 * 2**20)
    assert tiled.rate == Setting(n=256, window=(9, 0)).flops / 0.1
    assert tiled.fraction == tiled.rate / product.rate
    assert other.fraction is None  # JAX's products were not timed


def cells(line):
    """The cells of a line in Markdown."""
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_table_is_aligned():
    """And in Markdown: a rule below the head, the first column to the left, numbers to the right."""
    title, head, rule, *lines = table.format_rows(some_rows()[:4])
    assert title == "forward, N = M = 256, 8 heads of size 64, float32, window (9, 0)"
    assert [cells(line)[0] for line in lines] == ["torch products", "torch sdpa", "torch tiled", "jax tiled"]
    assert cells(lines[-1])[1:] == ["400.00 ms", "", "2.00", "0.0", "", "3 MiB"]
    assert {len(line) for line in (head, rule, *lines)} == {len(head)}
    assert [line.index(" ms") for line in lines] == [head.index("time") + 1] * 4
    assert [set(cell) for cell in cells(rule)] == [{"-"}] + [{"-", ":"}] * 6


def test_remarks_put_the_same_reason_together():
    assert list(table.remarks({"a": "slow", "b": "large", "c": "slow"})) == ["a, c: slow", "b: large"]


def test_csv(tmp_path):
    table.write_csv(some_rows(), tmp_path / "x.csv")
    lines = (tmp_path / "x.csv").read_text().splitlines()
    comments = [line for line in lines if line.startswith("#")]
    assert "torch" in comments[-1]
    assert os.uname().nodename not in " ".join(comments)
    records = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    assert len(records) == 8
    assert records[3] == records[3] | {
        "library": "jax", "method": "tiled", "n": "256", "window": "9 0", "pass": "forward", "seconds": "0.4",
        "ratio_to_sdpa": "2.0000", "fraction_of_products": "", "extra_bytes": "3145728",
    }  # fmt: skip


def options(*words):
    return command.parser().parse_args(words)


def test_options_become_settings():
    found = list(command.settings(options()))
    assert found == [Setting(), Setting(gradient=True)]
    assert {(x.n, x.m) for x in command.settings(options("--n", "1", "--m", "64"))} == {(1, 64)}
    words = "--n 8 16 --d 64 128 --dtype float16 --causal both --only forward --heads 4 --kv-heads 2 --window 3 -1"
    found = list(command.settings(options(*words.split())))
    assert len(found) == len(set(found)) == 8
    assert {x.window for x in found} == {(3, -1)}
    assert {(x.heads, x.kv_heads, x.dtype, x.gradient) for x in found} == {(4, 2, "float16", False)}
    assert {x.causal for x in command.settings(options("--causal"))} == {True}


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


def test_extra_memory_of_each_library():
    setting = Setting(n=512, heads=1, kv_heads=1, d=8)
    found = [Contestant(x, "naive") for x in who.ORDER] + [Contestant(x, "tiled") for x in who.ORDER]
    tasks = [(contestant, dataclasses.replace(setting, window=(600, 600))) for contestant in found]
    sizes = extra_memory.extra_memory([*tasks, (who.UNIT, dataclasses.replace(setting, gradient=True))])
    assert all(4 * 512**2 <= size <= 4 * 4 * 512**2 for size in sizes[:3])
    assert all(size > 0 for size in sizes[3:])
    with pytest.raises(RuntimeError, match="process failed"):
        extra_memory.extra_memory([(Contestant("numpy", "nothing"), setting)])


@pytest.mark.parametrize("method", ["naive", "chunked"])
def test_a_plan_of_memory_is_that_of_the_program_which_runs(method, monkeypatch):
    """JAX's memory is read from a program that was compiled quickly."""
    monkeypatch.setenv("XLA_FLAGS", measure.HONEST_XLA)  # as if it had been there in time
    function = jax.grad(lambda x: METHODS[method](x, x, x).sum())
    shape, whole = jax.ShapeDtypeStruct((1, 128, 8), "float32"), dict(zip(measure.QUICKLY, (3, False)))
    plan = jax.jit(function).lower(shape).compile(compiler_options=whole).memory_analysis()
    assert measure.jax_bytes(function, shape) == plan.temp_size_in_bytes > 0


def test_the_whole_command(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setattr(compare, "extra_memory", lambda tasks: [2**20 * len(tasks)] * len(tasks))
    files = ["--csv", str(tmp_path / "x.csv")]
    command.main(["--n", "8", "16", "--d", "4", "--rounds", "2", "--methods", "tiled", "safe", *files])
    text = capsys.readouterr().out
    assert text.count("forward+backward, N = M") == 2
    assert text.count("numpy tiled") == 4
    assert "numpy safe: no gradient in NumPy" in text
    assert "7 MiB" in text
    assert len((tmp_path / "x.csv").read_text().splitlines()) == 4 + 2 * 10 + 2 * 9


def test_targets_name_calls_that_there_are():
    for gradient in (False, True):
        there = targets.timed_calls(16, gradient)
        wanted = {name for t in targets.TARGETS for name in (t.what, t.unit) if t.gradient == gradient and not t.at}
        assert set(there) == wanted | {f"{library} products" for library in who.ORDER}
        libraries = [name.split(" ")[0] for name in there]
        assert libraries == sorted(libraries, key=who.ORDER.index)
    assert not any("window" in name for name in targets.timed_calls(16, False))


def test_targets_are_judged_by_ratio():
    names = {name for t in targets.TARGETS for name in (t.what, t.unit)}
    times = dict.fromkeys(names | {f"{library} products" for library in who.ORDER}, 1.0)
    times |= {"jax tiled": 0.55, "torch tiled": 1.11, "jax tiled, causal": 0.4}
    times |= {f"{x} tiled, window of 512 keys": 0.04 for x in who.ORDER}
    found = {verdict.what: verdict for verdict in targets.judge(times, 16384, False)}
    assert found["jax tiled ÷ torch sdpa"] == targets.TargetResult("jax tiled ÷ torch sdpa", "≤ 0.55", "0.550", True)
    assert not found["torch tiled ÷ torch sdpa"].met
    assert found["jax tiled, causal ÷ jax tiled"].reached == "0.727"
    assert found["jax tiled, window of 512 keys ÷ jax tiled"].met
    assert not found["numpy tiled, causal ÷ numpy tiled"].met
    work = Setting(16384).flops / (2 * 32**3)
    assert found["goal: torch tiled, of its products"].reached == f"{work / 1.11:.1%}"
    assert len(found) == 3 + 5 * 3 + 3
    assert len(targets.judge(times, 4096, False)) == 3 + 4 * 3 + 3
    assert [v.met for v in targets.judge(times, 4096, True)] == [True, False]


def test_memory_may_grow_by_lse_alone():
    heads, unit = 8, 2**20
    level = {4096: unit, 16384: unit}
    assert targets.equal_memory("x", level, False).met
    assert targets.equal_memory("x", {4096: unit, 16384: unit + 4 * heads * 12288}, False).met
    assert not targets.equal_memory("x", {4096: unit, 16384: unit + 2 * 4 * heads * 12288}, False).met
    assert targets.equal_memory("x", {4096: unit, 16384: unit + 2 * 4 * heads * 12288}, True).met
    assert not targets.equal_memory("x", {4096: unit, 16384: 4 * unit}, True).met


def test_targets_run(capsys, monkeypatch):
    asked = []
    monkeypatch.setattr(targets, "extra_memory", lambda tasks: asked.extend(tasks) or [1] * len(tasks))
    targets.print_verdicts([32], 1, 1)
    text = capsys.readouterr().out
    assert text.count("÷") == 3 + 4 * 3 + 2
    judged = [cells(line)[-1] for line in text.splitlines() if "÷" in line or "goal" in line]
    assert set(judged) <= {"met", "MISSED"}
    assert [x.n for c, x in asked if c.library == "jax" and not x.gradient] == [16, 32, 2**20]
    assert "equal" in text


def test_small_calls_compute_the_same():
    """What an overhead is taken of, and the arithmetic that is taken off."""
    for setting in overhead.SETTINGS:
        found = {name: back(call()) for name, call in overhead.small_calls(who.ORDER, setting).items()}
        assert len(found) == 7
        right = expected(setting)[0]
        assert right.shape == (1, 8, setting.n, 64)
        for name, out in found.items():
            np.testing.assert_allclose(out, right, rtol=0, atol=3e-6, err_msg=name)


def test_overheads_are_differences_and_ratios():
    taken = {"torch sdpa": [1e-5, 2e-5, 4e-5], "jax tiled": [1e-4, 2e-4, 3e-4], "jax arithmetic": [5e-5, 6e-5, 7e-5]}
    median, fastest = overhead.overheads(["jax"], taken)
    assert median == ["jax tiled, median", "200.0", "60.0", "140.0", "20.0", "10.00"]
    assert fastest == ["jax tiled, fastest", "100.0", "50.0", "50.0", "10.0", "10.00"]
    alone, _ = overhead.overheads(["jax"], {name: taken[name] for name in list(taken)[1:]})
    assert alone[-3:] == ["140.0", "", ""]


def test_overheads_run(capsys, monkeypatch):
    monkeypatch.setattr(overhead, "available", lambda device, libraries: (["torch", "numpy"], {}))
    command.main(["--overhead", "--rounds", "1"])
    text = capsys.readouterr().out
    assert text.count("numpy tiled, median") == text.count("torch tiled, fastest") == 2
    assert "jax" not in text


def test_the_benchmark_does_not_load_matplotlib():
    code = "import sys; from attnlab_course.bench import compare, overhead, targets; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]


def test_the_lengths_are_named():
    assert str(Setting(n=8)).startswith("forward, N = M = 8, ")
    assert str(Setting(n=1, m=8)).startswith("forward, N = 1, M = 8, ")
    settings = [Setting(n=1, m=m) for m in (128, 256)]
    rows = [row for x in settings for row in table.make_rows(x, [who.UNIT], {"torch sdpa": [1.0]}, {})]
    assert [table.csv_record(row)["m"] for row in rows] == [128, 256]


def test_small_settings_are_those_that_both_serve():
    """Ours and the library's own give the same, so that a ratio is one of speed alone."""
    for setting in small.SETTINGS:
        setting = dataclasses.replace(setting, n=min(setting.n, 16), batch=1)
        for library in ("torch", "jax"):
            ours, own = (calls.prepare(contestant, setting)() for contestant in small.pair(library))
            for one, other in zip(*(x if setting.gradient else [x] for x in (ours, own))):
                one, other = (back(x).astype(np.float32) for x in (one, other))
                other = other if one.shape == other.shape else other.swapaxes(1, 2)
                np.testing.assert_allclose(one, other, atol={"float32": 1e-4, "bfloat16": 0.1}[setting.dtype])


def test_a_small_table(capsys, monkeypatch):
    """In Markdown, as a page holds it."""
    step = Setting(1, 16, heads=4, kv_heads=2, d=8, dtype="bfloat16")
    monkeypatch.setattr(small, "SETTINGS", [Setting(8, d=8), step])
    monkeypatch.setattr(small, "noise", lambda taken, names: None)
    command.main(["--small", "--rounds", "1"])
    machine, empty, head, rule, *rows, end = capsys.readouterr().out.split("\n")
    assert "torch" in machine
    assert (empty, end) == ("", "")
    assert cells(head) == ["", "torch tiled", "torch sdpa", "ratio", "jax tiled", "jax nn", "ratio"]
    assert {line.count("|") for line in (head, rule, *rows)} == {8}
    assert [line.split(",")[0] for line in rows] == ["| 8 tokens", "| 1 query"]
    monkeypatch.setattr(small, "noise", lambda taken, names: "loud")
    command.main(["--small", "--rounds", "1"])
    assert capsys.readouterr().out.endswith("\n\nIn 2 of 2 rows a time scattered or drifted by more than 10%.\n")


STORED = ROOT / "notebooks/attnlab_course/published/measured/small_calls.md"


def test_the_stored_table_shows_what_the_page_says():
    """Recipes: short calls are PyTorch's, a decoding step is in bfloat16, and ours in float32; JAX is behind."""
    cells = [[cell.strip() for cell in line.split("|")[1:]] for line in STORED.read_text().splitlines() if "|" in line]
    torch, jax = ({row[0]: float(row[at]) for row in cells[2:]} for at in (3, 6))
    assert len(torch) == len(small.SETTINGS)
    assert all(ratio > 1 for what, ratio in torch.items() if what.startswith("128 tokens"))
    assert torch["1 query, 4,096 keys, 32 heads on 8, batch 1, float32"] < 1
    assert torch["1 query, 4,096 keys, 32 heads on 8, batch 1, bfloat16"] > 1
    assert max(jax.values()) < 1


def test_a_small_row():
    row = small.row(Setting(1, 4096, heads=32, kv_heads=8), ["torch"], {"torch tiled": 2e-3, "torch sdpa": 1e-3})
    assert row == ["1 query, 4,096 keys, 32 heads on 8, batch 1, float32", "2", "1", "2.00"]
