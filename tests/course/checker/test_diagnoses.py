"""No mistake is named that was not made, and what is said can be used: digits, names of parts, limits."""

import math
import time
import types

import jax.numpy as jnp
import numpy as np
import pytest
from attnlab_course import check
from attnlab_course.checker import diagnosis, outcome, sandbox
from attnlab_course.checker.engine import examine
from attnlab_course.checker.exercise import Case, Cost, Edit, Exercise, Mistake, but
from attnlab_course.checker.library import to_library

from tests.support import needs


def answered(exercise, answer):
    """The verdict on an answer, or on an edit of the reference; it's wrong."""
    verdict = examine(exercise, answer.apply(exercise.reference) if isinstance(answer, Edit) else answer)
    assert verdict.state == "wrong"
    return verdict


LOADED_AGAIN = (
    "    for i, score in enumerate(x):", "    for i in range(len(x)):\n        score = x[i]",
    "(np.exp(score - m) / l) for score, _ in kept", "(np.exp(x[i] - m) / l) for _, i in kept",
)
COPIED = "    m, l, o =", "    key = key / query.shape[1] ** 0.5\n    m, l, o =", "k.T / query.shape[1] ** 0.5", "k.T"


@pytest.mark.parametrize(("name", "answer"), [
    ("safe_softmax", but(".astype(x.dtype)", ".astype(float)")),
    ("safe_softmax_counted", but("m = max(x)", "m = max(x[0], max(x))")),
    ("softmax_topk", but(*LOADED_AGAIN)),
    ("flash_forward", but("    n, d = q.shape\n", "    n, d = q.shape\n    block_q, block_k = block_k, block_q\n")),
    ("blockwise_attention", but(*COPIED)),
    ("online_row", but("m, l, o = -np.inf", "m, l, o = np.inf")),
    ("online_row", lambda q, pairs: (np.full(len(next(iter(pairs))[1]), np.nan), np.nan)),
])  # fmt: skip
def test_no_mistake_is_named_that_was_not_made(name, answer):
    exercise = check.find(name)
    verdict = answered(exercise, answer)
    assert [m.say for m in exercise.mistakes if m.say in verdict.diagnosis] == []


# mistakes of cost


def one(x):
    """1 for each number."""
    return np.ones_like(x)


def recounted(name):
    """An answer of this name: 1 for each number, as often as its name says."""

    def answer(x):
        return np.ones_like(x)

    answer.__name__ = name
    return answer


twice, thrice = map(recounted, ("twice", "thrice"))


def jaxs(x):
    return jnp.ones_like(x)


def costing(table, limit=1, second=None, say="It costs {found:.1f}."):
    """An exercise whose answers cost what a table says, by name; ``twice`` is its mistake."""
    costs = [Cost(lambda f, library: table[f.__name__], limit, say)]
    costs += [Cost(lambda f, library: second[f.__name__], 1, "And {found:.0f}.")] if second else []
    mistake = Mistake("You do it twice.", twice)
    return Exercise("00", 1, one, lambda: [Case("ONE: one", (np.zeros(1),))], ("x",), (mistake,), tuple(costs))


@pytest.mark.parametrize(("exercise", "answer", "named"), [
    (costing({"thrice": 2.01, "twice": 2.0}), thrice, True),
    (costing({"thrice": 2.1, "twice": 2.0}), thrice, False),
    (costing({"thrice": 1.01, "twice": 1.0}), thrice, False),
    (costing({"thrice": math.inf, "twice": math.inf}), thrice, False),
    (costing({"jaxs": 2.0, "twice": 2.0}), jaxs, False),
    (costing({"thrice": 2, "twice": 2}, second={"thrice": 1, "twice": 1}), thrice, True),
    (costing({"thrice": 2, "twice": 2}, second={"thrice": 1, "twice": 3}), thrice, False),
    (costing({"thrice": 2, "twice": 2}, second={"thrice": None, "twice": None}), thrice, True),
])
def test_a_mistake_of_cost_is_named_only_if_it_was_measured(exercise, answer, named):
    verdict = examine(exercise, answer)
    assert verdict.state == "wrong"
    assert ("You do it twice." in verdict.text) is named


@pytest.mark.parametrize(("exercise", "words"), [
    (costing({"thrice": 1.004}), "It costs 1.004. The limit is 1."),
    (costing({"thrice": 2.5}), "It costs 2.5. The limit is 1."),
    (costing({"thrice": 2.5}, say="it costs {found:.1f}"), "it costs 2.5; the limit is 1"),
    (costing({"thrice": 2.5}, say="It costs {found:.0f} for {limit}."), "It costs 2 for 1."),
])
def test_the_limit_is_named_and_never_printed_like_the_number(exercise, words):
    exercise = Exercise("00", 1, one, exercise.cases, ("x",), (), exercise.costs)
    assert examine(exercise, thrice).diagnosis == words


def test_a_cost_that_is_not_measured_is_not_kept():
    none = costing({"one": None, "thrice": None})
    assert examine(none, thrice).text == "one: right, on 1 inputs; its cost is not measured in NumPy."
    some = costing({"thrice": None}, second={"thrice": 1})
    assert examine(some, thrice).text.endswith("within what it may cost, as far as that is measured in NumPy.")


def test_the_catalogue_is_searched_for_a_limited_time(monkeypatch):
    exercise = check.find("average")
    wrong = exercise.mistakes[0].wrong[0]
    assert examine(exercise, wrong).diagnosis == exercise.mistakes[0].say
    monkeypatch.setattr(diagnosis, "SECONDS", 0)
    assert examine(exercise, wrong).text.startswith("average: not right yet.")
    assert examine(exercise, wrong).diagnosis != exercise.mistakes[0].say


def recursive(stream):
    def rest(n):
        return rest(n + 1) if next(numbers, None) is not None else n

    numbers = iter(range(2000))
    return 0.0, rest(0)


def one_more(*args):
    dq, dk, dv = check.find("attention_backward").reference(*args)
    return dq, dk, dv + 1


@pytest.mark.thin(2)
@pytest.mark.parametrize(("name", "answer", "said", "unsaid"), [
    # what is said of a mistake is true of all that look like it
    ("safe_softmax_counted", but("    m = max(x)", "    for i in range(len(x)):\n        out[i] = 0.0\n    m = max(x)"),
     "You store two numbers for each element. If the first is", ""),
    ("safe_softmax", but("x.max(", "x.min(", "np.exp(x - m)", "np.exp(x.astype(float) - m)"),
     "You subtract less than the maximum of the row", ""),
    ("log_softmax", but("(x - m - np.log(l))", "np.where(x.max(-1, keepdims=True) == -np.inf, 0, x - m - np.log(l))"),
     "Your empty row is 0.", ""),
    ("steps_needed", but("return max(free)", "return sum(free)"), "is the sum of all lengths", "the last free"),
    # right tiles, but as floats: nobody has built a mask; a table that is transposed from the beginning is one fault
    ("classify_tiles", but("np.where(hidden, 0,", "1.0 * np.where(hidden, 0,"),
     "expected dtype int64, got float64", "mask"),
    ("sparse_rows", but("    out =", "    block_mask = block_mask.T\n    out ="), "not right yet", "two are not"),
    ("longest_context", but("return tokens, weights", "return tokens / 2, weights"),
     "expected dtype int64, got float64, and other values:", ""),
    ("online_stats", recursive, "RecursionError", "without end"),
    ("attention_backward", one_more, "dv (part 3 of 3):", ""),
    ("safe_softmax_counted", lambda x, out: [1.0 for _ in x],
     "What your function returns is not looked at: the result belongs in out.", ""),
    ("softmax_kernel", but("e / tl.sum(e, axis=0)", "e * tl.sum(e, axis=0)"), "not right yet", "is not looked at"),
    ("average", lambda weights, values: np.array([1j]), "complex numbers", ""),
    ("average", lambda weights, values: np.array([None]), "not an array of numbers (its dtype is object)", ""),
    ("block_manager", but("size * table[t // size]", "table[t // size]"), "do slots, table and copies agree?", ""),
    ("block_manager",
     but("list(self.tables[name]), self.lengths[name]", "[*self.tables.get(name, ())], self.lengths.get(name, 0)"),
     "without an error; right is: it raises KeyError", ""),
    ("block_manager", but("self.tables[name], self.lengths[name]\n            more", "self.tables.setdefault(name, "
     "[]), self.lengths.setdefault(name, 0)\n            more"), "without an error; right is: it raises KeyError", ""),
    ("block_manager", but("range(length, length + count)], copies", "range(length, length + count)]"),
     "returns two things", ""),
    ("block_manager", but("        @property\n", ""), "asked for as an attribute or a property", ""),
])  # fmt: skip
def test_what_is_said(name, answer, said, unsaid):
    exercise = check.find(name)
    needs(*exercise.needs.split())
    text = " ".join(answered(exercise, answer).text.split())
    assert said in text
    assert not unsaid or unsaid not in text


# words


def differing(size, at):
    """An exercise of ``size`` numbers, and an answer that is wrong in one of them by a millionth of the largest."""

    def ramp(n):
        """0, 1, 2 and so on."""
        return np.arange(n) * 1.0

    def answer(n):
        x = ramp(n)
        x[at] += 3e-6 * size
        return x

    return examine(Exercise("00", 1, ramp, lambda: [Case("a ramp", (size,))], ("x",)), answer).text


def test_expected_and_got_are_never_printed_alike():
    text = answered(check.find("safe_softmax"), but("l = np.where(l == 0, 1, l)", "l = l + 1e-5")).text
    expected, got = text.split("expected")[1].split("got")
    assert "".join(expected.split()) != "".join(got.split())
    assert "largest difference at [500]: expected 500, got 500.003" in differing(1000, 500)
    assert "largest difference" not in differing(10, 5)


def test_every_tuple_of_the_course_has_parts():
    for name in check.names():
        exercise = check.find(name)
        if exercise.judge is exercise.run is None and exercise.needs == "":
            got = exercise.reference(*to_library(exercise.cases()[0].args, exercise.library))
            assert len(exercise.parts) == (len(got) if isinstance(got, tuple) else 0), name


# time


@pytest.mark.parametrize("where", ["values", "costs"])
def test_on_a_busy_machine_nothing_is_said_of_the_answer(monkeypatch, where):
    """Its time has run out while it has hardly computed, as others did, or it waited."""
    monkeypatch.setitem(outcome.SECONDS, "numpy", 0.05)
    slow = Cost(lambda f, library: time.sleep(100), 1, "x")
    exercise = Exercise("00", 1, one, lambda: [Case("ONE: one", (np.zeros(1),))], ("x",), (), (slow,))
    verdict = examine(exercise, (lambda x: time.sleep(100)) if where == "values" else thrice)
    assert verdict.state == "not checked"
    assert "That says nothing about your answer. Run it again when less is going on." in " ".join(verdict.text.split())


@pytest.mark.parametrize("waited", [1, 7, 1000])
def test_only_what_it_computed_makes_an_answer_slow(monkeypatch, waited):
    """Each input takes 0.1 seconds, and so many by the clock: those waited for in one are not missed in the next."""
    clocks = types.SimpleNamespace(wall=0.0, cpu=0.0)
    clocks.perf_counter, clocks.thread_time = lambda: clocks.wall, lambda: clocks.cpu
    monkeypatch.setattr(sandbox, "time", clocks)

    def average(weights, values):
        clocks.wall, clocks.cpu = clocks.wall + waited, clocks.cpu + 0.1
        return weights @ values / weights.sum()

    assert examine(check.find("average"), average).state == ("right" if waited == 1 else "not checked")


@pytest.mark.parametrize(("name", "edits", "label"), [
    ("safe_softmax", ("m = np.where(m == -np.inf, x.dtype.type(0), m)", "", "x.max(-1, keepdims=True)", "x.max()"),
     "ROWS"),
    ("attention_backward", ("s - s.max(-1, keepdims=True)", "s"), "HIGH"),
    ("longest_context", ("weights + model[\"batch\"] * tokens * token", "weights / model[\"batch\"] + tokens * token"),
     "a batch of 3"),
])  # fmt: skip
def test_what_is_said_can_be_seen_on_the_input_that_is_shown(name, edits, label):
    exercise = check.find(name)
    verdict = answered(exercise, but(*edits))
    assert verdict.diagnosis
    assert verdict.evidence[0].removeprefix("Seen on: ").startswith(label), verdict.text


def test_both_sides_of_a_comparison_have_one_format():
    verdict = answered(check.find("average"), but("weights @ values", "1e-9 * weights @ values"))
    expected, got = (line.split()[1:] for line in "".join(verdict.evidence[-1:]).split("\n")[-2:])
    assert all("e" in x for x in [*expected, *got]), verdict.text

