"""The inputs of an exercise refuse every slip of its reference, but for those that stand in a table of decisions.

That is the criterion for inputs: a new one is written for a slip that passes, and for nothing else. ``make test`` tries
the slips of the table and one in TENTH of the others, of every second exercise; ``make test-all`` all. For one exercise

    python -m pytest -n 0 -m "" tests/course/checker/test_slips.py -k NAME
"""

import ast
from dataclasses import replace
from zlib import crc32

import numpy as np
import pytest
from attnlab_course import check
from attnlab_course.checker import diagnosis
from attnlab_course.checker.changes import changes, left_out
from attnlab_course.checker.compare import difference
from attnlab_course.checker.engine import examine, judge
from attnlab_course.checker.outcome import outcome
from attnlab_course.checker.slips import slips

from tests.course.checker.equal_slips import EQUAL
from tests.support import needs

TENTH = 10
SECONDS = 1.0  # for a slip on an input; the slowest reference takes a tenth of it
PATIENT = 10.0  # for one of the table, which is right; a collection of garbage in a large process can take a second


def key(slip):
    """What is written into the table."""
    return slip.old, slip.new


def passes(exercise, slip, cases, wanted, seconds):
    """Whether an answer with this slip is right, costs included; None if the machine was too busy to tell."""
    for case, want in zip(cases, wanted):
        found = outcome(exercise, slip.function, case, seconds, exercise.library)
        want = replace(want, arrays=dict(want.arrays))
        if found.starved:
            return None
        if judge(exercise, found, case) if exercise.judge else difference(found, want, case, exercise):
            return False
    return {"right": True, "wrong": False}.get(examine(exercise, slip.function).state)


def chosen(found, equal, request):
    """The slips to try: all, or those of the table and some others, always the same."""
    every = not request.config.option.markexpr
    return [s for s in found if every or key(s) in equal or crc32(f"{s.old}{s.new}".encode()) % TENTH == 0]


MESSAGE = """{count} slips of {name} are right on all of its inputs. The first, in the line
    {line}
has
    {new}
where the reference has
    {old}
Is that another function? Then add an input to the exercise's cases on which it is wrong (or a cost that it exceeds).
Is it the same function in all that the exercise promises? Then write it into tests/course/checker/equal_slips.py, under the
reason. All of them:
{all}"""


def exercises():
    """The names of all; the slips of a kernel take minutes in Triton's interpreter."""
    slow = [name for name in check.names() if check.find(name).needs == "triton"]
    return [pytest.param(name, marks=pytest.mark.full if name in slow else ()) for name in check.names()]


@pytest.mark.thin(2)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a slip is stopped in a callback
@pytest.mark.parametrize("name", exercises())
def test_every_slip_is_refused_or_decided(name, request):
    exercise = check.find(name)
    needs(*exercise.needs.split())
    equal = {(old, new) for rows in EQUAL.values() for of, old, *news in rows if of == name for new in news}
    cases = exercise.cases()
    wanted = [outcome(exercise, exercise.reference, case) for case in cases]
    found = [slip for slip in slips(exercise.reference) if slip.function]
    tried = [
        (slip, passes(exercise, slip, cases, wanted, PATIENT if key(slip) in equal else SECONDS))
        for slip in chosen(found, equal, request)
    ]
    holes = [slip for slip, right in tried if right and key(slip) not in equal]
    if holes:
        rows = "\n".join(f"    ({name!r}, {slip.old!r}, {slip.new!r})," for slip in holes)
        first = holes[0]
        said = MESSAGE.format(count=len(holes), name=name, line=first.line, old=first.old, new=first.new, all=rows)
        pytest.fail(said, pytrace=False)
    still = {key(slip) for slip, right in tried if right is not False}
    assert equal <= still, "the table has slips that are refused, or are none: take them out"


def test_the_table_names_exercises():
    assert {name for rows in EQUAL.values() for name, *_ in rows} <= set(check.names())


@pytest.mark.parametrize(("text", "gone"), {
    "a * b": {"a": ["b"], "b": ["a"]},
    "a - b": {"a": ["b"], "b": ["a"]},
    "a / b.size ** 0.5": {"a": ["b.size ** 0.5"]},
    "a and b": {"a": ["b"], "b": ["a"]},
    "a if c else b": {"a": ["b"], "b": ["a"]},
    "f(a)": {"a": ["f(a)"]},
    "f(a, b)": {"a": ["f(a, b)", "b"], "b": ["f(a, b)", "a"]},
    "f(a, k=1)": {"a": ["f(a, k=1)"], "f(a)": ["k=1"]},
    "x.sum(1)": {"x": ["x.sum(1)"], "x.sum()": ["1"]},
    "x[:t + 1]": {"x": ["x[:t + 1]"]},
    "k.T": {"k": ["k.T"]},
    "-x": {"x": ["-x"]},
    "t += n": {"pass": ["t += n"]},
    "x.append(a)": {"pass": ["x.append(a)"]},
    "if c:\n    f()": {"if False:\n    f()": ["if c:"], "if True:\n    f()": ["c"]},
    "a < b": {},
    "return (a, b)": {},
}.items())
def test_what_a_slip_leaves_out(text, gone):
    (node,) = ast.parse(text).body
    node = node.value if isinstance(node, ast.Expr) and text != "x.append(a)" else node
    assert {ast.unparse(new): list(left_out(node, new)) for new in changes(node) if left_out(node, new)} == gone


def unscaled(q, keys, values):
    e = np.exp(keys @ q)
    return e / e.sum() @ values


def never_causal(n, m, causal, window):
    return check.find("visible").reference(n, m, False, window)


@pytest.mark.parametrize(("name", "answer", "words"), [
    ("attention_row", unscaled, "what our solution gives with `keys @ q` in place of `keys @ q / np.sqrt(len(q))`"),
    ("visible", never_causal, "what our solution gives with `if False:` in place of `if causal:`"),
])  # fmt: skip
def test_a_slip_is_told_without_a_catalog(name, answer, words):
    exercise = replace(check.find(name), mistakes=())
    assert words in examine(exercise, answer).diagnosis


def test_a_slip_that_does_not_end_is_none(monkeypatch):
    monkeypatch.setattr(diagnosis, "SLIPS", 0.0)
    assert "our solution" not in examine(replace(check.find("attention_row"), mistakes=()), unscaled).diagnosis
