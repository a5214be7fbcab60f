"""Every exercise keeps what its file says: each catalogued mistake is diagnosed as itself, right answers pass in any
form, answers that are wrong in another way are refused, and lesson and checker speak of the same function."""

import ast
import functools
import importlib.util
import inspect
import re
import textwrap
from dataclasses import replace

import jupytext
import pytest
from attnlab_course import check
from attnlab_course.checker import diagnosis, engine
from attnlab_course.checker.engine import examine
from attnlab_course.checker.library import library_of
from attnlab_course.checker.outcome import outcome
from attnlab_course.checker.results import parameters
from attnlab_course.checker.slips import slips

from tests.support import ROOT, needs

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # stopped in a callback
LESSONS = ROOT / "notebooks" / "lessons"
EXERCISES = {name: check.find(name) for name in check.names()}
NUMBERS = [number for number, found in check.lessons().items() if found]
MISTAKES = [(name, i) for name, exercise in EXERCISES.items() for i in range(len(exercise.mistakes))]
ROWS = [(name, text) for name, exercise in EXERCISES.items() for text in exercise.without]
DEAR = ("generate", "delta_chunk")  # a program for every length
ABOUT_COST = ("byte", "memory", "fit", "hold", "held", "load", "store", "traffic", "pass", "intensity")


def answers(kind):
    """RIGHT or REFUSED of all lessons."""
    modules = [f"tests.course.answers.lesson{number}" for number in NUMBERS]
    found = [importlib.import_module(module) for module in modules if importlib.util.find_spec(module)]
    return [answer for module in found for answer in getattr(module, kind)]


def ids(rows):
    """Names for the rows of a table of answers."""
    return [f"{row[0]}-{getattr(row[1], '__name__', type(row[1]).__name__)}-{i}" for i, row in enumerate(rows)]


def forms(rows):
    """A row for each answer. Those in JAX compile anew for every input: ``make test`` tries one in five, none DEAR.

    Nor does it wait for an answer that has to be stopped.
    """
    in_jax = ["_jax" in getattr(row[1], "__name__", "") for row in rows]
    left = [kind and (sum(in_jax[:i]) % 5 or rows[i][0] in DEAR) for i, kind in enumerate(in_jax)]
    marks = [pytest.mark.full if out or "stopped after" in row else () for out, row in zip(left, rows)]
    return [pytest.param(*row, id=name, marks=mark) for row, name, mark in zip(rows, ids(rows), marks)]


RIGHT, REFUSED = answers("RIGHT"), answers("REFUSED")
FIRST = functools.cache(lambda name: EXERCISES[name].cases()[0].label)
WRITTEN_IN = functools.cache(lambda name, function: library_of(function, EXERCISES[name].library))
WRONG = functools.cache(lambda name: {f for mistake, functions in reasons(name) for f in functions})
OUTCOMES = {}


def reasons(name):
    """What the catalogue of an exercise says, for mistakes and for what is left out, and wrong functions of each."""
    mistakes = [(mistake.say, mistake.wrong) for mistake in EXERCISES[name].mistakes]
    return mistakes + [(row.say, [slip.function for slip in gone]) for row, gone in diagnosis.rows(EXERCISES[name])]


def remembered(exercise, function, case, *limits):
    """What the reference and the wrong functions make of a case, found once and not for each answer; answers run.

    A wrong function that is the answer runs anew on the first case, and makes of the others what it did before.
    """
    name, wrong = exercise.name, function in WRONG(exercise.name)
    answers = len(limits) > 1
    if answers and (not wrong or case.label == FIRST(name)):
        return outcome(exercise, function, case, *limits)
    library = limits[1] if answers else exercise.library if exercise.run else WRITTEN_IN(name, function)
    key = name, function, case.label, library
    if key not in OUTCOMES:
        OUTCOMES[key] = outcome(exercise, function, case, *limits[:1], library=library)
    return replace(OUTCOMES[key], arrays=dict(OUTCOMES[key].arrays))


def here(name):
    """An exercise that can be checked here, as what it needs is installed; else the test is skipped."""
    __tracebackhide__ = True
    needs(*EXERCISES[name].needs.split())
    return EXERCISES[name]


@functools.cache
def remembering(name):
    """An exercise whose costs are measured once for a function and a library."""
    costs = (replace(cost, measure=functools.cache(cost.measure)) for cost in EXERCISES[name].costs)
    return replace(EXERCISES[name], costs=tuple(costs))


def by_costs(exercise, *found):
    """The costs of the wrong functions, measured once and not for each answer."""
    return diagnosis.by_costs(remembering(exercise.name), *found)


@pytest.fixture(autouse=True)
def _remember(request, monkeypatch):
    """``make test-all`` runs everything anew, and looks for slips before it says anything else."""
    if request.config.option.markexpr:
        monkeypatch.setattr(diagnosis, "SLIPS", 0.0)
        monkeypatch.setattr(engine, "outcome", remembered)
        monkeypatch.setattr(engine, "by_costs", by_costs)
        monkeypatch.setattr(diagnosis, "outcome", remembered)


@pytest.mark.thin(37)
@pytest.mark.parametrize(("name", "index"), MISTAKES)
def test_mistake_is_diagnosed_as_itself(name, index):
    exercise = here(name)
    mistake = exercise.mistakes[index]
    assert mistake.wrong, "a mistake needs a wrong implementation"
    for function in mistake.wrong:
        verdict = examine(exercise, function)
        assert verdict.state == "wrong"
        assert [m.say for m in exercise.mistakes if m.say in verdict.diagnosis] == [mistake.say], verdict.text


@pytest.mark.thin(12)
@pytest.mark.parametrize(("name", "text"), ROWS)
def test_what_is_left_out_is_told(name, text):
    """By its row, and by no other; a slip that is right has nothing to tell."""
    exercise = here(name)
    gone = [slip for _, gone in diagnosis.rows(exercise) for slip in gone if text in slip.gone]
    said = [examine(exercise, slip.function) for slip in gone]
    wrong = [verdict for verdict in said if verdict.state != "right"]
    assert wrong
    for verdict in wrong:
        assert [say for say, _ in reasons(name) if say in verdict.diagnosis] == [exercise.without[text]], verdict.text


def test_a_row_for_what_no_slip_leaves_out_is_an_error():
    exercise = replace(EXERCISES["next_capacity"], without={"length * 3": "You forget the three."})
    with pytest.raises(ValueError, match=r"leaves out 'length \* 3'; what slips leave out: .*'length'"):
        diagnosis.rows(exercise)


@pytest.mark.thin(22)
@pytest.mark.parametrize(("name", "answer"), forms(RIGHT))
def test_right_answer_passes(name, answer):
    verdict = examine(here(name), answer)
    assert verdict.state == "right", verdict.text


@pytest.mark.thin(27)
@pytest.mark.parametrize(("name", "answer", "words"), forms(REFUSED))
def test_other_answer_is_refused(name, answer, words):
    verdict = examine(here(name), answer)
    assert verdict.state == "wrong"
    assert words in " ".join(verdict.text.split())


@pytest.mark.parametrize("name", EXERCISES)
def test_two_other_right_answers(name):
    functions = [function for other, function in RIGHT if other == name]
    assert len({id(function) for function in functions}) >= 2
    assert EXERCISES[name].reference not in functions
    assert {row[0] for row in [*RIGHT, *REFUSED]} <= EXERCISES.keys()


@pytest.mark.thin(4)
@pytest.mark.parametrize("name", EXERCISES)
def test_reference_is_right(name):
    exercise = here(name)
    verdict = examine(exercise, exercise.reference)
    assert verdict.state == "right", verdict.text
    assert f"on {len(exercise.cases())} inputs" in verdict.headline
    exec(f"def stub({', '.join(parameters(exercise))}):\n    raise NotImplementedError()", scope := {})
    assert examine(exercise, scope["stub"]).state == "not attempted"


@pytest.mark.parametrize("name", EXERCISES)
def test_exercise_is_whole(name):
    exercise = EXERCISES[name]
    assert exercise.name == name
    assert name in check.lessons()[exercise.lesson], "an exercise lies in the folder of its lesson"
    assert 1 <= exercise.stars <= 3
    assert 2 <= len(exercise.hints) <= 3
    assert len(exercise.mistakes) <= 5
    assert len(reasons(name)) >= (2 if exercise.lesson == "00" else 3)
    assert len(exercise.cases()) >= 3
    assert exercise.reference.__doc__, "the docstring is the statement"
    texts = [*exercise.hints, *(say for say, _ in reasons(name)), *(c.label for c in exercise.cases())]
    assert len(set(texts)) == len(texts), "a text stands twice"
    assert all(text == text.strip() and "  " not in text for text in texts)
    assert all(any(c.label.startswith(m.seen) for c in exercise.cases()) for m in exercise.mistakes)
    assert all(cost.say.format(found=1.0, limit=cost.limit) for cost in exercise.costs)


def tree(source, name):
    """The syntax tree of the function ``name``, without docstring and annotations, as text."""
    found = next(node for node in ast.parse(textwrap.dedent(source)).body if getattr(node, "name", "") == name)
    for node in ast.walk(found):
        if isinstance(node, ast.FunctionDef):
            node.returns, node.body = None, node.body[ast.get_docstring(node) is not None :]
        if isinstance(node, ast.arg):
            node.annotation = None
    return ast.dump(found)


@pytest.mark.thin(11)
@pytest.mark.parametrize("name", EXERCISES)
def test_a_mistake_is_more_than_slips(name):
    """One that is a slip to the letter is told without a catalogue; its reason is a row of ``without``."""
    exercise = EXERCISES[name]
    known = {tree(slip.source, name) for slip in slips(exercise.reference)}
    same = {m.say: [f.__name__ == name and tree(inspect.getsource(f), name) in known for f in m.wrong]
            for m in exercise.mistakes}
    assert [say for say, found in same.items() if all(found)] == []


@pytest.mark.parametrize("name", EXERCISES)
def test_mistakes_name_an_equation(name):
    exercise = EXERCISES[name]
    said = [say for say, _ in reasons(name)]
    if exercise.lesson != "00":
        assert [say for say in said if not re.search(r"[Ee]qs?\. \d|section \d|lesson \d\d", say)] == []
    tags = {number: set(re.findall(r"\\tag\{([\d.]+\w?)\}", text)) for number, text in lessons().items()}
    for text in [*said, *exercise.hints]:
        for equation in re.findall(r"[Ee]qs?\. (\d+\.\d+\w?)", text):
            assert equation in tags.get(f"{int(equation.split('.')[0]):02}", ()), f"{equation} is in no lesson"


@pytest.mark.parametrize("number", NUMBERS)
def test_lesson_has_its_exercises(number):
    found = [EXERCISES[name] for name in check.lessons()[number]]
    assert len(found) in ((1,) if number == "00" else (2, 3, 4, 5, 6))
    spoken = [f"{e.reference.__doc__} {' '.join(e.hints)} {reasons(e.name)}" for e in found]
    about = [e for e, text in zip(found, spoken) if e.costs or any(word in text for word in ABOUT_COST)]
    assert about or number == "00", "no exercise is about memory or traffic"


def lessons():
    """The text of each lesson, by its number."""
    return {path.name[:2]: path.read_text(encoding="utf-8") for path in sorted(LESSONS.glob("[0-9]*.md"))}


@pytest.mark.parametrize("number", NUMBERS)
def test_lesson_and_checker_agree(number):
    cells = jupytext.reads(lessons()[number], fmt="md:myst").cells
    asked, checked = {}, {}
    for cell in cells:
        tags = cell.metadata.get("tags", [])
        if "exercise" in tags:
            function = next(node for node in ast.parse(cell.source).body if isinstance(node, ast.FunctionDef))
            asked[function.name] = [a.arg for a in function.args.args]
        if "check" in tags:
            name = re.search(r"check\.answer\((\w+)\)", cell.source)[1]
            checked[name] = next((int(tag[7:]) for tag in tags if tag.startswith("points-")), 1)
    expected = [EXERCISES[name] for name in check.lessons()[number]]
    assert asked == {e.name: list(inspect.signature(e.reference).parameters) for e in expected}
    assert checked == {e.name: e.stars for e in expected}
