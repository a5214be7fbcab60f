"""What a learner calls: answer, use, hint, progress, in plain text, in Jupyter and under nbgrader.

What the checker finds is tested in course/test_checkers.py, what it survives in test_check_robustness.py.
"""

import sys
import types
from dataclasses import replace

import pytest
from attnlab_course import check
from attnlab_course.checker.exercise import but
from attnlab_course.checker.verdict import Verdict

EXERCISE = check.find("average")
RIGHT = EXERCISE.reference


def stub(*args):
    raise NotImplementedError


def forgets(weights, values):
    return weights @ values


@pytest.fixture(autouse=True)
def _forget_what_was_checked():
    check._verdicts.clear()
    check._hints.clear()


@pytest.mark.parametrize("answer", [stub, lambda *args: ...])
def test_not_attempted_is_one_calm_line(answer, capsys):
    check.answer(answer, "average")
    assert capsys.readouterr().out == "average: not attempted yet.\n"


def test_what_needs_a_missing_package_is_not_checked(capsys, monkeypatch):
    monkeypatch.setattr(check, "find", lambda name: replace(EXERCISE, needs="no_such_package"))
    check.answer(forgets, "average")
    assert capsys.readouterr().out == "average: not checked, because no_such_package is not installed.\n"


def test_wrong_answer_has_a_diagnosis_and_the_evidence(capsys):
    check.answer(forgets, "average")
    out = capsys.readouterr().out
    assert out.startswith("average: not right yet.\n  ")
    assert "Seen on: ONES" in out
    assert "expected [1.]" in out
    assert "got      [3.]" in out
    assert out.endswith(f'check.hint("average") has {len(check.find("average").hints)} hints.\n')


def test_in_jupyter_it_is_html_with_the_text_beside(monkeypatch):
    shown = []
    shell = type("ZMQInteractiveShell", (), {})()
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    display = types.SimpleNamespace(display=lambda data, raw: shown.append(data))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    check.answer(forgets, "average")
    check.progress()
    verdict, table = shown
    assert verdict["text/plain"].startswith("average: not right yet.")
    assert "<b>average: not right yet.</b>" in verdict["text/html"]
    assert "a &lt; b" in Verdict("wrong", "f: not right yet.", "a < b", ()).html()
    pair = "f", "", ("  expected [ 1., -2.5e-05, nan]\n  got      [ 1., 2.5e-05, inf]",)
    assert "got      [ 1., <mark>2.5e-05</mark>, <mark>inf</mark>]" in Verdict("wrong", *pair).html()
    assert "<td" in table["text/html"]
    assert "wrong" in table["text/plain"]


def test_use_falls_back_to_the_course(capsys):
    assert check.use(RIGHT) is RIGHT
    assert check.use(stub, "average") is RIGHT
    assert check.use(forgets, "average") is RIGHT
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "average: using yours."
    assert said[1:] == [
        "average: using the one of the course, as yours is not attempted.",
        "average: using the one of the course, as yours is wrong.",
    ]


def test_nbgrader_needs_an_assertion(monkeypatch, capsys):
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    check.answer(RIGHT)
    with pytest.raises(AssertionError, match="not attempted"):
        check.answer(stub, "average")
    with pytest.raises(AssertionError, match="not right yet") as caught:
        check.answer(forgets, "average")
    assert len(caught.traceback) == 1  # nothing of ours in the feedback
    assert capsys.readouterr().err == ""


def test_hints_are_graded_and_end(capsys):
    hints = check.find("average").hints
    for _ in range(len(hints) + 1):
        check.hint("average")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"Hint 1 of {len(hints)}: {hints[0]}"
    assert lines[-4:-2] == lines[-2:]
    assert lines[-2] == f"Hint {len(hints)} of {len(hints)}: {hints[-1]}"
    assert lines[-1].endswith("solutions of each lesson are in notebooks/solutions.")


def test_progress_shows_the_lessons_begun_here(capsys):
    check.answer(RIGHT)
    capsys.readouterr()
    check.progress()
    assert capsys.readouterr().out.split() == ["00", "average", "★", "right"]
    check.progress("01")
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert {row[1] for row in rows} == set(check.lessons()["01"])
    assert all(row[3:] == ["not", "checked"] for row in rows)
    with pytest.raises(ValueError, match="there is no lesson '99'"):
        check.progress("99")
    for call in (check.hint, check.use, check.answer):
        with pytest.raises((TypeError, ValueError)) as caught:
            call("nothing")
        assert len(caught.traceback) == 1  # the learner's own line


def test_names_and_errors(capsys):
    check.answer(stub, "attention_row")
    assert capsys.readouterr().out == "attention_row: not attempted yet.\n"
    with pytest.raises(ValueError, match=r"the nearest names are attention_row, attention_cost, attention_layer$"):
        check.answer(lambda: 0, "attention_rwo")
    with pytest.raises(ValueError, match=r'say which it answers, as in check.answer\(f, "average"\)'):
        check.answer(sorted)
    with pytest.raises(TypeError, match=r'as in check.answer\(f, "average"\)'):
        check.answer(lambda weights, values: 0)


def test_an_edit_of_what_does_not_occur_is_an_error():
    with pytest.raises(ValueError, match=r"'3 \*' does not occur in average"):
        but("3 *", "0.5 *").apply(RIGHT)
