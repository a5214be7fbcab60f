"""The inputs of an exercise refuse every slip of its reference, but for those that stand in a table of decisions; and
what is said of a slip quotes nothing of the reference.

The first is the criterion for inputs: a new one is written for a slip that passes, and for nothing else. ``make test``
tries the slips of the table and one in TENTH of the others, of one exercise in five; ``make test-all`` all. For one
exercise

    python -m pytest -n 0 -m "" tests/course/checker/test_slips.py -k NAME
"""

import ast
import functools
import inspect
import re
import textwrap
from dataclasses import replace
from importlib.util import find_spec
from zlib import crc32

import numpy as np
import pytest
from attnlab_course import check
from attnlab_course.checker import diagnosis
from attnlab_course.checker.compare import difference
from attnlab_course.checker.engine import examine, judge
from attnlab_course.checker.exercise import Exercise
from attnlab_course.checker.inputs import table
from attnlab_course.checker.library import own_functions
from attnlab_course.checker.outcome import outcome
from attnlab_course.checker.result_names import parts_of
from attnlab_course.checker.results import parameters
from attnlab_course.checker.slips import slips

from tests.course.checker.equal_slips import EQUAL

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
Is it the same function in all that the exercise promises? Then write it into tests/course/checker/equal_slips.py, under
the reason. All of them:
{all}"""


def exercises():
    """The names of all; the slips of a kernel take minutes in Triton's interpreter."""
    slow = [name for name in check.names() if check.find(name).needs == "triton"]
    return [pytest.param(name, marks=pytest.mark.full if name in slow else ()) for name in check.names()]


@pytest.mark.thin(14)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a slip is stopped in a callback
@pytest.mark.parametrize("name", exercises())
def test_every_slip_is_refused_or_decided(name, request):
    exercise = check.find(name)
    if exercise.needs and find_spec(exercise.needs) is None:
        pytest.skip(f"{exercise.needs} is not installed")
    equal = {(old, new) for rows in EQUAL.values() for of, old, *news in rows if name in of.split() for new in news}
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
    assert {name for rows in EQUAL.values() for names, *_ in rows for name in names.split()} <= set(check.names())


def unscaled(q, keys, values):
    e = np.exp(keys @ q)
    return e / e.sum() @ values


def never_causal(n, m, causal, window):
    return check.find("visible_mask").reference(n, m, False, window)


def cache_bytes(layers, kv_heads, d, length, itemsize):
    return 2 * layers * kv_heads * d * length * itemsize


CACHE = Exercise(
    lesson="14", stars=1, reference=cache_bytes, where="eq. 7.11", hints=("",) * 3,
    cases=table(("ONE", 1, 1, 1, 1, 1), ("more of each", 11, 3, 5, 7, 4)),
)


@pytest.mark.parametrize(("exercise", "answer", "words"), [
    (check.find("attention_row"), unscaled,
     "one change inside an exponential: a divisor (a root) with `q` in it is left out"),
    (check.find("visible_mask"), never_causal, "gives with one change: what depends on a condition is never done"),
    (CACHE, lambda layers, kv_heads, d, length, itemsize: 2 * layers * kv_heads * d * itemsize,
     "with one change in the result: the factor `length` is left out (eq. 7.11). Then it doesn't depend on `length`."),
])  # fmt: skip
def test_a_slip_is_told_without_a_catalog(exercise, answer, words, monkeypatch):
    exercise = replace(exercise, mistakes=(), without={})
    assert words in examine(exercise, answer).diagnosis
    monkeypatch.setattr(diagnosis, "SLIPS", 0.0)  # the search ends in time
    assert "our solution" not in examine(exercise, answer).diagnosis


def fold(scores, scale):
    """The (m, l) of rows of scores."""
    m, l = -np.inf, 0.0
    for s in scores.max(0):
        new = max(m, scale * s)
        l = l * np.exp(m - new) + np.exp(scale * s - new)  # eq. 4.6
        m = new
    return m, l


@pytest.mark.parametrize(("new", "said"), [
    ("l = l + np.exp(", "in `l`: a factor (an exponential) with `m` in it is left out (eq. 4.6)."),
    ("l = np.exp(m - new) + np", "in `l`: the factor `l` is left out (eq. 4.6)."),
    ("np.exp(new - m)",
     "in `l`, inside an exponential: the sides of a difference with `m` in it are exchanged (eq. 4.6)."),
    ("max(m, s)", "in a loop, inside a maximum: the factor `scale` is left out (section 3)."),
    ("new = min(", "in a loop: a minimum is taken, where a maximum with `m` and `scale` in it should be (section 3)."),
    ("(-np.inf, 1.0)", "in `l`: 1 stands in the place of another number (section 3)."),
    ("scores.max(1)", "in a loop: a maximum takes another axis (section 3)."),
    ("in scores:", "in the range of a loop: a maximum with `scores` in it is left out (section 3)."),
    ("l = l * np.exp(m - new) - np",
     "in `l`: a term (an exponential) with `scale` in it is subtracted, where it should be added (eq. 4.6)."),
    ("return (l, m)", "in the result: two results are exchanged (section 3)."),
])
def test_place_and_effect_are_told_in_words(new, said):
    found = [slip.say("section 3") for slip in slips(fold) if new in slip.source]
    assert f"Your result is what our solution gives with one change {said}" in found
    compared = "a finite number is compared, where −∞ is meant (eq. 2.7)."  # and is no score
    assert any(compared in slip.say() for slip in slips(check.find("log_softmax").reference))


WORD = re.compile(r"\w+|[^\w\s]")


def runs(text):
    """What is longer than a name: two words in a row, or two with a sign between them."""
    tokens = WORD.findall(text)
    found = [tokens[i : i + n] for n in (2, 3) for i in range(len(tokens) - n + 1)]
    return {tuple(run) for run in found if [bool(re.match(r"\w", x)) for x in run] in ([True] * 2, [True, False, True])}


@functools.cache
def program(reference):
    """The runs of the reference and its helpers, as a slip has them, without what documents them."""
    functions = [f for f in own_functions(reference) if f.__module__ == reference.__module__]
    tree = ast.Module([node for f in functions for node in ast.parse(textwrap.dedent(inspect.getsource(f))).body], [])
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node):
            node.body = node.body[1:] or [ast.Pass()]
    return runs(ast.unparse(tree))


def quoted(exercise, said):
    """What a sentence has of the reference: what is longer than a name, and names that the learner doesn't have."""
    names = set(re.findall("`(.*?)`", said)) - {*parameters(exercise), *parts_of(exercise.reference)}
    return runs(said) & program(exercise.reference) | {(name,) for name in names}


@pytest.mark.thin(28)
@pytest.mark.parametrize("name", check.names())
def test_no_slip_quotes_the_reference(name):
    exercise = check.find(name)
    said = {slip.say(exercise.where) for slip in slips(exercise.reference)}
    assert {sentence: found for sentence in said if (found := quoted(exercise, sentence))} == {}


@pytest.mark.parametrize(("said", "found"), [
    ("a factor in `length * itemsize` (eq. 7.11)", {("length", "*", "itemsize"), ("length * itemsize",)}),
    ("the factor `length` is left out (eq. 7.11).", set()),
])
def test_quotes_are_found(said, found):
    assert quoted(CACHE, said) == found
