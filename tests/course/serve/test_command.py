"""``python -m attnlab_course.serve``: what it tells, of which prompts, and the sums that it draws."""

import io
import itertools
import os
import re
import runpy
import subprocess
import sys
import types

import pytest
from attnlab_course import model
from attnlab_course.serve import __main__ as command
from attnlab_course.serve.engine import Engine

from tests.course.model.small import small

SIZES = ["--max-tokens", "6", "--blocks", "12", "--block-size", "4", "--budget", "9", "--temperature", "0"]


@pytest.fixture(autouse=True)
def _small_model(monkeypatch):
    """Random weights give bytes of every kind, those that are no UTF-8 too."""
    monkeypatch.setattr(command, "load", lambda name, library: small(library))


@pytest.fixture
def serve(tmp_path, capsys):
    """A function that serves the prompts of a file: (out, err)."""

    def served(prompts, *options):
        path = tmp_path / "prompts"
        path.write_bytes(prompts if isinstance(prompts, bytes) else prompts.encode())
        command.main([str(path), *SIZES, *options])
        return capsys.readouterr()

    return served


def pipe(text):
    """Standard input from another program."""
    return io.TextIOWrapper(io.BytesIO(text))


class Terminal(io.StringIO):
    """Standard input that people type into."""

    def isatty(self):
        return True


def expected(prompt, count=6):
    prompt = prompt.encode() if isinstance(prompt, str) else prompt
    return (prompt + small("numpy").generate(prompt, count)).decode("utf-8", "replace")


def test_the_lines_of_a_file_are_served_together(serve):
    out, err = serve(f"ab\r\nc\x0cd\n\n{'x' * 60}\nαβ\n".encode() + "ä\n".encode("latin-1"))
    served = {1: "ab", 2: "c\x0cd", 5: "αβ", 6: "ä".encode("latin-1")}  # bytes, UTF-8 or not; only ends of lines part
    for i, prompt in served.items():
        assert f"[{i}.0] {expected(prompt)}\n" in out
    assert len(out) == sum(len(f"[{i}.0] {expected(prompt)}\n") for i, prompt in served.items())
    assert "line 3 is empty and is left out" in err
    assert f"refused line 4, {b'x' * 40!r}: a prompt of 61 tokens" in err
    assert "24 new tokens" in err


def test_a_text_is_printed_when_its_request_is_done(serve, monkeypatch):
    """Twelve requests of three blocks each, of which the pool holds twelve: the first are done long before the last."""
    happened, step = [], Engine.step
    monkeypatch.setattr(Engine, "step", lambda engine: happened.append("step") or step(engine))
    monkeypatch.setattr(command, "print_texts", lambda line, request: happened.append(line))
    serve("abc\n" * 12)
    assert [x for x in happened if x != "step"] == [*range(1, 13)]
    assert "step" in happened[happened.index(1) : happened.index(12)]


def test_what_is_piped_is_a_file(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", pipe(b"ab\n"))
    command.main([*SIZES, "--samples", "2", "--library", "torch"])
    assert capsys.readouterr().out == f"[1.0] {expected('ab')}\n[1.1] {expected('ab')}\n"
    engine = Engine(small("numpy"), 99, 4, 99)
    request = engine.submit("ab", 6, beams=2)
    engine.run()
    monkeypatch.setattr(sys, "stdin", pipe(b"ab"))
    command.main([*SIZES[:-2], "--beams", "2"])  # which need no temperature
    texts = [f"[1.{i}] ab{text.decode('utf-8', 'replace')}\n" for i, text in enumerate(request.texts)]
    assert capsys.readouterr().out == "".join(texts)
    monkeypatch.setattr(command, "load", model.load)
    monkeypatch.setattr(sys, "stdin", pipe(b"def f(x):"))
    command.main([])  # greedily, the model writes blanks; drawn, it writes Python
    assert len(re.findall(r"[a-z]{2,}", capsys.readouterr().out.removeprefix("[1.0] def f(x):"))) >= 4


def test_what_is_typed_is_answered(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", Terminal("ab\n\nab\n"))
    command.main(SIZES)
    out, err = capsys.readouterr()
    assert [*re.findall(r"prompt> \[\d\.0\] (.*?)\n(?=prompt)", out, re.DOTALL)] == [expected("ab")] * 2
    assert out.endswith("prompt> \n")
    assert "line 2 is empty" in err
    assert err.count("6 new tokens in") == 2


REFUSED = {
    "no file": (["nowhere/prompts"], "cannot read nowhere/prompts"),
    "no blocks": (["--blocks", "0"], "argument --blocks: blocks is 0"),
    "no room in a block": (["--block-size", "0"], "argument --block-size: block_size is 0"),
    "a pool that no machine holds": (["--blocks", "100000000000"], "argument --blocks: blocks is 100000000000; their"),
    "no budget": (["--budget", "0"], "argument --budget: budget is 0"),
    "no tokens": (["--max-tokens", "0"], "argument --max-tokens: max_tokens is 0"),
    "no temperature": (["--temperature", "nan"], "argument --temperature: temperature is nan"),
    "a seed below 0": (["--seed", "-1"], "argument --seed: seed is -1"),
    "more than all": (["--top-p", "2"], "argument --top-p: top_p is 2.0; it must be in (0, 1]"),
    "lines that never arrive": (["--rate", "0"], "argument --rate: rate is 0.0; it must be above 0"),
    "beams that draw": (["--beams", "2", "--temperature", "1"], "argument --beams: beams is 2; a beam search goes"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_command_that_cannot_be_done(name, serve, capsys):
    """Once, in one line, with the exit status of a wrong command, before a prompt is read; never a traceback."""
    options, message = REFUSED[name]
    with pytest.raises(SystemExit) as error:
        command.main([*SIZES, *options]) if name == "no file" else serve("ab\ncd\n", *options)
    assert error.value.code == 2
    assert capsys.readouterr().err.count(message) == 1


@pytest.mark.parametrize(
    ("text", "said"), [("", "no prompt to serve"), ("\n\n", "line 2 is empty"), ("x" * 60, "refused")]
)
def test_where_nothing_is_served_the_status_says_so(text, said, serve, capsys):
    with pytest.raises(SystemExit) as error:
        serve(text)
    err = capsys.readouterr().err
    assert error.value.code == 2
    assert said in err
    assert "nothing was served" in err


@pytest.mark.parametrize(("steps", "done"), [(0, 0), (5, 0), (6, 1)])
def test_an_interrupt_ends_with_what_is_there(steps, done, monkeypatch, capsys, serve):
    """A file's texts so far, and the summary, status 130; at the prompt the next question, in an empty pool."""
    step = Engine.step

    def interrupted(self):
        if self.steps == steps:
            raise KeyboardInterrupt
        return step(self)

    monkeypatch.setattr(command, "warm_up", lambda engine: None)
    monkeypatch.setattr(Engine, "step", interrupted)
    with pytest.raises(SystemExit) as error:
        serve("ab\n" + 10 * "c")
    out, err = capsys.readouterr()
    assert error.value.code == 130
    assert f"interrupted: {done} of 2 requests are done" in err
    assert ("new tokens in" if steps else "no token was made") in err
    new = len(small("numpy").generate("ab", min(steps, 6)))
    assert f"[1.0] {expected('ab', new)}\n" in out
    assert "[2.0] cccccccccc" in out
    monkeypatch.setattr(sys, "stdin", Terminal("ab\nab\n"))
    command.main(SIZES)
    assert capsys.readouterr().out.count("prompt> ") == 3


def test_an_output_that_nobody_reads_is_no_error():
    """As under ``head``: silence, and success."""
    code = "from attnlab_course.serve.__main__ import main; main(['--max-tokens', '40'])"
    done = subprocess.run(f"printf 'a\\nb\\nc\\n' | {sys.executable} -c \"{code}\" | true", shell=True, timeout=300,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert "Error" not in done.stderr


@pytest.mark.parametrize("draft", command.DRAFTS)
def test_a_draft_changes_no_text(draft, serve):
    told = [serve("abcabc\nxyz", *options) for options in ([], ["--draft", draft, "--guesses", "2"])]
    assert told[0].out == told[1].out
    assert "guesses" not in told[0].err
    assert re.search(r"\d+ of \d+ guesses accepted \(\d+%\); \d\.\d\d tokens per call of a sequence", told[1].err)


def test_the_summary_counts():
    """Two prompts of 4 tokens, budget 4: of the second, 3 are fed while the first decodes, and then the last."""
    engine = Engine(small("numpy"), blocks=8, block_size=4, budget=4)
    requests = [engine.submit(model.tokens(text), 3) for text in ("abc", "xyz")]
    engine.run()
    trace = engine.trace
    assert [one.tokens for one in trace] == [4, 1 + 3, 1 + 1, 1, 1]
    assert [(one.blocks, one.filled, one.reserved) for one in trace] == [
        (1, 4, 6), (2 + 1, 5 + 3, 12), (2 + 1, 6 + 4, 12), (2, 5, 6), (2, 6, 6),
    ]  # fmt: skip
    found = command.sum_up(engine, requests)
    assert "6 new tokens in" in found
    assert "5 steps; " in found
    assert re.search(r"the first token after \S+ ms, then one every \S+ ms \(medians\); at most 3 of 8 blocks", found)
    assert found.endswith("; 0 preemptions")
    assert engine.runner.nbytes == 2 * 2 * (8 * 2 * 4 * 4) * 8  # layers, keys and values, pages, bytes


def test_lines_arrive_while_others_are_served(tmp_path, monkeypatch, capsys):
    """Ten a second on average: a clock that goes on by 30 ms whenever somebody looks leaves a few steps between two."""
    ticks = itertools.count()
    clock = types.SimpleNamespace(monotonic=lambda: 0.03 * next(ticks), sleep=lambda seconds: None)
    monkeypatch.setattr(command, "time", clock)
    path = tmp_path / "prompts"
    path.write_text("αβ\n" * 8)
    command.main([str(path), *SIZES, "--rate", "10"])
    out, err = capsys.readouterr()
    assert all(f"[{i}.0] {expected('αβ')}\n" in out for i in range(1, 9))
    told = re.findall(r"(\S+) s: line (\d+) arrives, (\d+) are being served", err)
    assert [int(line) for _, line, _ in told] == [*range(1, 9)]
    assert (seconds := [float(second) for second, *_ in told]) == sorted(seconds)
    assert {int(served) for *_, served in told} > {0}
    assert "48 new tokens in" in err


def test_what_is_done_once_is_on_no_clock(tmp_path, monkeypatch, capsys):
    """The first step takes a minute, and nobody's first token waits for it."""
    step, seconds = Engine.step, [0.0]
    clock = types.SimpleNamespace(perf_counter=lambda: seconds[0])

    def slow_once(self):
        seconds[0] += 0.001 if seconds[0] else 60
        return step(self)

    monkeypatch.setattr("attnlab_course.serve.engine.time", clock)
    monkeypatch.setattr(Engine, "step", slow_once)
    path = tmp_path / "prompts"
    path.write_text("abc")
    command.main([str(path), *SIZES])
    assert "the first token after 1.0 ms" in capsys.readouterr().err


@pytest.mark.parametrize(("chosen", "restarts"), [({}, 1), ({"OMP_NUM_THREADS": "2"}, 0)])
def test_one_thread_computes_unless_the_caller_says_otherwise(chosen, restarts, monkeypatch, tmp_path, capsys):
    started = []
    for name in command.ONE_THREAD:
        monkeypatch.delenv(name, raising=False)
    for name, value in chosen.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "execve", lambda program, arguments, variables: started.append(variables))
    monkeypatch.setattr(sys, "argv", ["serve", "--blocks", "0"])
    with pytest.raises(SystemExit):
        runpy.run_path(command.__file__, run_name="__main__")
    assert len(started) == restarts
    assert all(variables.items() >= command.ONE_THREAD.items() for variables in started)
