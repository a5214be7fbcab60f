"""No mistake is named that was not made, and what is said can be used: digits, names of parts, limits."""

import heapq
import math
import time
import types

import jax.numpy as jnp
import numpy as np
import pytest
from attnlab_course import check
from attnlab_course.checker import diagnosis, outcome, sandbox
from attnlab_course.checker.engine import examine
from attnlab_course.checker.exercise import Case, Cost, Exercise, Mistake, but
from attnlab_course.lessons.lesson09.exercises.flash_forward import flash_forward

from tests.support import needs


def counted_first(x, out):
    m = x[0]
    for v in x:
        m = max(m, v)
    l = sum(math.exp(v - m) for v in x)
    for i, v in enumerate(x):
        out[i] = math.exp(v - m) / l


def topk_loads_again(x, k):
    m, l, kept = -math.inf, 0.0, []
    for i in range(len(x)):
        v = x[i]
        new = max(m, v)
        l, m = l * math.exp(m - new) + math.exp(v - new), new
        heapq.heappush(kept, (v, i))
        if len(kept) > k:
            heapq.heappop(kept)
    top = [i for _, i in sorted(kept, reverse=True)]
    return top, [math.exp(x[i] - m) / l for i in top]


flash_exchanged = but("    n, d = q.shape\n", "    n, d = q.shape\n    block_q, block_k = block_k, block_q\n").apply(
    flash_forward
)


def queries_outer_loads_nothing(machine, q, k, v, block_q, block_k):
    whole = (machine.fetch(x) for x in (q, k, v))
    query, key, value = whole
    s = query @ key.T / query.shape[1] ** 0.5
    m = s.max(1)
    p = np.exp(s - m[:, None])
    l = p.sum(1)
    return p @ value / l[:, None], m + np.log(l)


def copy_of_the_keys(query, key, value, block):
    key = key / jnp.sqrt(query.shape[1])
    m, l, o = jnp.full((len(query), 1), -jnp.inf), 0.0, 0.0
    for start in range(0, len(key), block):
        s = query @ key[start : start + block].T
        n = jnp.maximum(m, s.max(1, keepdims=True))
        f, p = jnp.exp(m - n), jnp.exp(s - n)
        l, o, m = l * f + p.sum(1, keepdims=True), o * f + p @ value[start : start + block], n
    return o / l


def row_from_plus_infinity(q, pairs):
    m, l, o = np.inf, 0.0, 0.0
    for k, v in pairs:
        s = k @ q / len(q) ** 0.5
        m_new = np.maximum(m, s)
        factor, new = np.exp(m - m_new), np.exp(s - m_new)
        m, l, o = m_new, l * factor + new, o * factor + new * v
    return o / l, m + np.log(l)


@pytest.mark.parametrize(("name", "answer"), [
    ("safe_softmax", lambda x: check.find("safe_softmax").reference(x).astype(float)),
    ("safe_softmax_counted", counted_first),
    ("softmax_topk", topk_loads_again),
    ("flash_forward", flash_exchanged),
    ("flash_forward_q_outer", queries_outer_loads_nothing),
    ("blockwise_attention", copy_of_the_keys),
    ("online_row", row_from_plus_infinity),
    ("online_row", lambda q, pairs: (np.full(len(next(iter(pairs))[1]), np.nan), np.nan)),
])
def test_no_mistake_is_named_that_was_not_made(name, answer):
    exercise = check.find(name)
    verdict = examine(exercise, answer)
    assert verdict.state == "wrong"
    assert [m.say for m in exercise.mistakes if m.say in verdict.diagnosis] == []


# mistakes of cost


def one(x):
    """1 for each number."""
    return np.ones_like(x)


def twice(x):
    return np.ones_like(x)


def thrice(x):
    return np.ones_like(x)


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


def cleared_first(x, out):
    """Two stores and three loads for each element; nothing that was stored is loaded."""
    for i in range(len(x)):
        out[i] = 0.0
    m = max(x)
    l = sum(math.exp(v - m) for v in x)
    for i, v in enumerate(x):
        out[i] = math.exp(v - m) / l


def smallest_subtracted(x):
    m = x.min(-1, keepdims=True)
    e = np.exp(x.astype(float) - np.where(np.isinf(m), 0, m))
    l = e.sum(-1, keepdims=True)
    return (e / np.where(l == 0, 1, l)).astype(x.dtype)


def zero_for_an_empty_row(x):
    return np.where(x.max(-1, keepdims=True) == -np.inf, 0, check.find("log_softmax").reference(x)).astype(x.dtype)


@pytest.mark.parametrize(("name", "answer", "words"), [
    ("safe_softmax_counted", cleared_first, "You store two numbers for each element. If the first is"),
    ("safe_softmax", smallest_subtracted, "You subtract less than the maximum of the row"),
    ("log_softmax", zero_for_an_empty_row, "Your empty row is 0."),
])
def test_what_is_said_of_a_mistake_is_true_of_all_that_look_like_it(name, answer, words):
    assert words in examine(check.find(name), answer).diagnosis


# words


def small_number(x):
    m = x.max(-1, keepdims=True)
    m = np.where(m == -np.inf, 0, m).astype(x.dtype)
    e = np.exp(x - m)
    return (e / (e.sum(-1, keepdims=True, dtype=np.float32) + 1e-5)).astype(x.dtype)


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
    text = examine(check.find("safe_softmax"), small_number).text
    expected, got = text.split("expected")[1].split("got")
    assert "".join(expected.split()) != "".join(got.split())
    assert "largest difference at [500]: expected 500, got 500.003" in differing(1000, 500)
    assert "largest difference" not in differing(10, 5)


def test_parts_have_names():
    exercise = check.find("attention_backward")

    def answer(*args):
        dq, dk, dv = exercise.reference(*args)
        return dq, dk, dv + 1

    assert "dv (part 3 of 3):" in examine(exercise, answer).text


def test_every_tuple_of_the_course_has_parts():
    for name in check.names():
        exercise = check.find(name)
        if exercise.judge is exercise.run is None and exercise.needs == "":
            got = exercise.reference(*exercise_args(exercise))
            assert len(exercise.parts) == (len(got) if isinstance(got, tuple) else 0), name


def exercise_args(exercise):
    from attnlab_course.checker.library import to_library

    return to_library(exercise.cases()[0].args, exercise.library)


def test_what_is_written_has_a_name_and_what_is_returned_is_told():
    text = examine(check.find("safe_softmax_counted"), lambda x, out: [1.0 for _ in x]).text
    assert "out:" in text
    assert "What your function returns is not looked at: the result belongs in out." in text


@pytest.mark.parametrize(
    ("result", "words"),
    [(np.array([1j]), "complex numbers"), (np.array([None]), "not an array of numbers (its dtype is object)")],
)
def test_what_is_wrong_with_an_array(result, words):
    assert words in examine(check.find("average"), lambda weights, values: result).text


# time


def endless(x):
    while True:
        pass


def asleep(x):
    time.sleep(100)


def big_power(x):
    return 3 ** (10**7) % 2 * np.ones_like(x)


@pytest.mark.parametrize(("answer", "asked"), [(endless, True), (big_power, False)])
def test_a_loop_is_suspected_only_where_there_is_one(monkeypatch, answer, asked):
    monkeypatch.setitem(outcome.SECONDS, "numpy", 0.1)
    monkeypatch.setattr(sandbox, "PATIENCE", 300)
    text = examine(costing({}), answer).text
    assert "stopped after" in text
    assert ("Is there a loop" in text) is asked


@pytest.mark.parametrize("where", ["values", "costs"])
def test_on_a_busy_machine_nothing_is_said_of_the_answer(monkeypatch, where):
    """Its time has run out while it has hardly computed, as others did, or it waited."""
    monkeypatch.setitem(outcome.SECONDS, "numpy", 0.05)
    slow = Cost(lambda f, library: time.sleep(100), 1, "x")
    exercise = Exercise("00", 1, one, lambda: [Case("ONE: one", (np.zeros(1),))], ("x",), (), (slow,))
    verdict = examine(exercise, asleep if where == "values" else thrice)
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


def test_a_mistake_with_right_values_is_not_that_of_wrong_ones():
    """Right tiles, but as floats: nobody has built a mask, which is right and too expensive."""
    exercise = check.find("classify_tiles")
    verdict = examine(exercise, but("np.where(hidden, 0,", "1.0 * np.where(hidden, 0,").apply(exercise.reference))
    assert "expected dtype int64, got float64" in verdict.text
    assert "mask" not in verdict.diagnosis


def test_one_fault_is_not_called_two():
    """The table is transposed from the beginning, also where it is asked for rows that see nothing."""
    exercise = check.find("sparse_rows")
    turned = but("    out =", "    block_mask = block_mask.T\n    out =").apply(exercise.reference)
    assert "two are not" not in examine(exercise, turned).diagnosis


def test_a_kernel_is_not_asked_what_it_returns():
    needs("triton")
    exercise = check.find("softmax_kernel")
    twice = but("e / tl.sum(e, axis=0)", "e * tl.sum(e, axis=0)").apply(exercise.reference)
    assert "is not looked at" not in examine(exercise, twice).text


def test_recursion_is_not_called_endless():
    def count(stream):
        def rest(n):
            return rest(n + 1) if next(stream, None) is not None else n

        return rest(0)

    text = examine(check.find("online_stats"), lambda stream: (0.0, count(iter(range(2000))))).text
    assert "RecursionError" in text
    assert "without end" not in text


@pytest.mark.parametrize(("edit", "words"), [
    (but("size * table[t // size]", "table[t // size]"), "do slots, table and copies agree?"),
    (but("list(self.tables[name]), self.lengths[name]", "[*self.tables.get(name, ())], self.lengths.get(name, 0)"),
     "without an error; right is: it raises KeyError"),
    (but("self.tables[name], self.lengths[name]\n            more", "self.tables.setdefault(name, []), "
         "self.lengths.setdefault(name, 0)\n            more"), "without an error; right is: it raises KeyError"),
    (but("range(length, length + count)], copies", "range(length, length + count)]"), "returns two things"),
    (but("        @property\n", ""), "asked for as an attribute or a property"),
])  # fmt: skip
def test_what_a_block_manager_does_wrong_is_told(edit, words):
    exercise = check.find("block_manager")
    verdict = examine(exercise, edit.apply(exercise.reference))
    assert verdict.state == "wrong"
    assert words in " ".join(verdict.text.split())


def test_numbers_are_not_called_rounded_down_that_are_rounded_to_the_nearest():
    exercise = check.find("grid_waves")
    verdict = examine(exercise, but("-(-n // block_q)", "round(n / block_q)").apply(exercise.reference))
    assert verdict.diagnosis.startswith("Your number of programs, or of waves, isn't rounded up.")


def test_one_slot_for_all_is_not_called_the_last_free_one():
    exercise = check.find("steps_needed")
    verdict = examine(exercise, but("return max(free)", "return sum(free)").apply(exercise.reference))
    assert "is the sum of all lengths" in verdict.diagnosis


@pytest.mark.parametrize(("name", "old", "new", "label"), [
    ("safe_softmax", ("m = np.where(m == -np.inf, x.dtype.type(0), m)", "x.max(-1, keepdims=True)"),
     ("", "x.max()"), "ROWS"),
    ("attention_backward", ("s - s.max(-1, keepdims=True)",), ("s",), "HIGH"),
    ("longest_context", ("return tokens, weights + model[\"batch\"] * tokens * token",),
     ("return tokens, (weights + model[\"batch\"] * tokens * token) / model[\"batch\"]",), "a batch of 3"),
])  # fmt: skip
def test_what_is_said_can_be_seen_on_the_input_that_is_shown(name, old, new, label):
    exercise = check.find(name)
    pairs = [text for pair in zip(old, new) for text in pair]
    verdict = examine(exercise, but(*pairs).apply(exercise.reference))
    assert verdict.diagnosis
    assert verdict.evidence[0].removeprefix("Seen on: ").startswith(label), verdict.text


def test_both_sides_of_a_comparison_have_one_format():
    exercise = check.find("average")
    verdict = examine(exercise, but("weights @ values", "1e-9 * weights @ values").apply(exercise.reference))
    expected, got = (line.split()[1:] for line in "".join(verdict.evidence[-1:]).split("\n")[-2:])
    assert all("e" in x for x in [*expected, *got]), verdict.text


def test_a_type_does_not_hide_other_values():
    exercise = check.find("longest_context")
    text = examine(exercise, but("return tokens, weights", "return tokens / 2, weights").apply(exercise.reference)).text
    assert "expected dtype int64, got float64, and other values:" in text
