"""``python -m attnlab.serve``: what it tells, of which prompts, and the sums that it draws."""

import io
import re
import subprocess
import sys

import pytest

from attnlab import model
from attnlab.serve import __main__ as command
from attnlab.serve.engine import Engine
from attnlab.serve.summary import summary
from tests.model.small import small

SIZES = ["--max-tokens", "6", "--blocks", "12", "--block-size", "4", "--budget", "9"]


@pytest.fixture(autouse=True)
def _small_model(monkeypatch):
    """Random weights give bytes of every kind, those that are no UTF-8 too."""
    monkeypatch.setattr(command, "load", lambda name, library: small(library))


class Terminal(io.StringIO):
    """Standard input that people type into."""

    def isatty(self):
        return True


def expected(prompt, count=6):
    return (prompt.encode() + small("numpy").generate(prompt, count)).decode("utf-8", "replace")


def test_the_lines_of_a_file_are_served_together(tmp_path, capsys):
    path = tmp_path / "prompts"
    path.write_text(f"ab\nc\n{'x' * 60}\nαβ\n", encoding="utf-8")
    command.main([str(path), *SIZES])
    out, err = capsys.readouterr()
    assert out == "".join(f"[{i}.0] {expected(prompt)}\n" for i, prompt in enumerate(["ab", "c", "αβ"]))
    assert f"refused {'x' * 40!r}: a prompt of 61 tokens" in err
    assert "18/18" in err
    assert "18 new tokens" in err


def test_what_is_typed_is_answered_at_once(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", Terminal("ab\nab\n"))
    command.main(SIZES)
    out, err = capsys.readouterr()
    assert [*re.findall(r"prompt> \[\d\.0\] (.*?)\n(?=prompt)", out, re.DOTALL)] == [expected("ab")] * 2
    assert out.endswith("prompt> ")
    assert err.count("6 new tokens in") == 2


def test_what_is_piped_is_a_file(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO("ab\n"))
    command.main([*SIZES, "--samples", "2", "--library", "torch"])
    assert capsys.readouterr().out == f"[0.0] {expected('ab')}\n[0.1] {expected('ab')}\n"


def test_beams_are_told_when_the_best_is_known(monkeypatch, capsys):
    told = []
    monkeypatch.setattr(sys, "stdin", Terminal("ab\n"))
    monkeypatch.setattr(command, "print_now", lambda text, end: told.append(text))
    command.main([*SIZES, "--beams", "2"])
    engine = Engine(small("numpy"), 99, 4, 99)
    request = engine.submit("ab", 6, beams=2)
    engine.run()
    texts = ["ab" + text.decode("utf-8", "replace") for text in request.texts]
    assert told == [f"[0.0] {texts[0]}\n[0.1] {texts[1]}\n"]


REFUSED = {
    "no file": (["nowhere/prompts"], b"", "cannot read nowhere/prompts"),
    "not UTF-8": (["{path}"], "ä".encode("latin-1"), "is not UTF-8: byte 0 is 228"),
    "no blocks": (["{path}", "--blocks", "0"], b"ab", "blocks is 0"),
    "no budget": (["{path}", "--budget", "0"], b"ab", "budget is 0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_command_that_cannot_be_done(name, tmp_path, capsys):
    """In one line, with the exit status of a wrong command; never a traceback."""
    options, text, message = REFUSED[name]
    path = tmp_path / "prompts"
    path.write_bytes(text)
    with pytest.raises(SystemExit) as error:
        command.main([*SIZES, *(option.format(path=path) for option in options)])
    assert error.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "x" * 60])
def test_where_nothing_is_served_the_status_says_so(text, tmp_path, capsys):
    path = tmp_path / "prompts"
    path.write_text(text)
    with pytest.raises(SystemExit, match="nothing was served"):
        command.main([str(path), *SIZES])
    assert ("refused" in capsys.readouterr().err) == bool(text)


def test_only_ends_of_lines_part_prompts(tmp_path, capsys):
    """A form feed is a character of a prompt; a file of Windows has the same prompts."""
    path = tmp_path / "prompts"
    path.write_bytes(b"a\x0cb\r\nc")
    command.main([str(path), *SIZES])
    assert capsys.readouterr().out == f"[0.0] {expected(chr(97) + chr(12) + chr(98))}\n[1.0] {expected('c')}\n"


def test_an_interrupt_ends_an_answer_and_a_command(monkeypatch, capsys, tmp_path):
    """At the prompt the next question is asked; with a file the command ends, without a traceback."""
    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(Engine, "step", interrupted)
    monkeypatch.setattr(sys, "stdin", Terminal("ab\nab\n"))
    command.main(SIZES)
    assert capsys.readouterr().out.count("prompt> ") == 3
    path = tmp_path / "prompts"
    path.write_text("ab")
    with pytest.raises(SystemExit, match="interrupted"):
        command.main([str(path), *SIZES])


def test_an_output_that_nobody_reads_is_no_error():
    """As under ``head``: silence, and success."""
    code = "from attnlab.serve.__main__ import main; main(['--max-tokens', '40'])"
    done = subprocess.run(f"printf 'a\\nb\\nc\\n' | {sys.executable} -c \"{code}\" | true", shell=True, timeout=300,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert "Error" not in done.stderr


def test_without_tqdm(monkeypatch, capsys, tmp_path):
    """--help is there; serving says what is missing."""
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with pytest.raises(SystemExit):
        command.main(["--help"])
    assert "--max-tokens" in capsys.readouterr().out
    path = tmp_path / "prompts"
    path.write_text("ab")
    with pytest.raises(SystemExit, match=r"pip install 'attnlab\[serve\]'"):
        command.main([str(path), *SIZES])


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
    found = summary(engine, requests)
    for text in ("6 new tokens", "5 steps", "12 tokens fed, 0 found in the cache, 0 preemptions", "at most 3 of 8"):
        assert text in found
    assert re.search(r"first token  median .* \(steps: 1\), 95 % within .* \(steps: 3\)", found)
    assert re.search(r"between tokens  median .* \(steps: 1\), 95 % within .* \(steps: 1\)", found)
    assert f"{33 / 44:.0%} in use" in found
    assert f"{42 / 44:.1f} times as many" in found
    assert engine.runner.nbytes == 2 * 2 * (8 * 2 * 4 * 4) * 8  # layers, keys and values, pages, bytes
