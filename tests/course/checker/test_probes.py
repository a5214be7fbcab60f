"""What is said of a wrong answer that no catalogue has: each probe where it is true, and not where it is not."""

from dataclasses import replace

import numpy as np
import pytest
from attnlab_course import check
from attnlab_course.checker.engine import examine
from attnlab_course.checker.exercise import Case, Exercise
from attnlab_course.checker.probes.differences import _rows, _sums, unlike


def weigh(x, y, flag):
    """Softmax of x yᵀ along its rows, or its logarithm; x and y (n, d)."""
    s = x @ y.T
    p = np.exp(s - s.max(1, keepdims=True))
    p = p / p.sum(1, keepdims=True)
    return np.log(p) if flag else p


def cases():
    rng = np.random.default_rng(0)
    sizes = {"a square": (3, 3), "RECT: d = 2": (3, 2), "RECT: d = 5": (4, 5), "n = 6": (6, 4)}
    rows = [(label, size, flag) for label, size in sizes.items() for flag in (False, True)]
    return [Case(f"{label}, {flag}", (*rng.normal(size=(2, *size)), flag)) for label, size, flag in rows]


def split(x):
    """(low, high, count): the smallest and the largest numbers of rows, and how many there are."""
    return x.min(1), x.max(1), np.full(len(x), x.shape[1])


def split_cases():
    return [Case(f"n = {n}", (np.random.default_rng(n).normal(size=(n, n + 2)),)) for n in (1, 2, 3, 5)]


WEIGH = Exercise("00", 1, weigh, cases, ("A hint.",))
SPLIT = Exercise("00", 1, split, split_cases, ("A hint.",))
HARD = np.random.default_rng(7)


def weighed(change):
    """An answer that changes the weights p, given their rows i: of p, i and its transpose."""

    def answer(x, y, flag):
        p, i = weigh(x, y, flag), np.arange(len(x))[:, None]
        return change(p, i, i.T)

    return answer


def but_rect(x, y, flag):
    p = weigh(x, y, flag)
    return p if x.shape[1] in (3, 4) else p - p**2 / 7


def but_some(x, y, flag):
    p = weigh(x, y, flag)
    return p if x.shape[1] != 2 else p - p**2 / 7


def raises_in_rect(x, y, flag):
    if x.shape[1] == 2:
        raise ValueError("no rectangles")
    return weigh(x, y, flag).T


def parts(change):
    return lambda x: change(*split(x))


@pytest.mark.parametrize(("answer", "words"), [
    (lambda x, y, flag: weigh(x[::-1], y, flag), "is right, in the reverse order."),
    (lambda x, y, flag: weigh(x, y, flag).T, "right after transposing."),
    (lambda x, y, flag: -weigh(x, y, flag), "has the wrong sign."),
    (lambda x, y, flag: weigh(x, y, flag) * (1 + 1e-4 * HARD.uniform(size=(len(x), 1))), "right to 4 digits"),
    (weighed(lambda p, i, j: p + 0.1 * p**2 * (i >= len(p) - 2)), "Your result is wrong in its last rows only."),
    (weighed(lambda p, i, j: np.where(i == 0, np.roll(p, 1, 1), p)), "wrong in its first rows only."),
    (weighed(lambda p, i, j: np.where(i == 1, p**2 + np.roll(p, 1, 1) / 9, p)),
     "right in some of its rows; in the first input that fails, those at index 1 are wrong."),
    (lambda x, y, flag: np.maximum(weigh(x, y, flag), 0.45), "Your result is 0.45 wherever it is wrong."),
    (lambda x, y, flag: weigh(x, y, flag) + 0.01 * HARD.uniform(1, 2), "is too large wherever it is wrong."),
    (but_rect, "It is right on all inputs but RECT."),
    # the last key is hidden from the first query, the first from the last, and all rows are too large
    (weighed(lambda p, i, j: 1.1 * p * (abs(i - j) < len(p) - 1)), "is 0 where it should not be, first at [0, 2]."),
    (raises_in_rect, "Where it returns something: your result is right after transposing."),
])
def test_said_where_it_is_true(answer, words):
    verdict = examine(WEIGH, answer)
    assert verdict.state == "wrong"
    assert words in verdict.diagnosis


@pytest.mark.parametrize(("change", "words"), [
    (lambda low, high, count: (low, 2 * high, count), "high (part 2 of 3) is twice the right one."),
    (lambda low, high, count: (low, high**3, count), "Right in all inputs: low (part 1 of 3), count (part 3"),
    (lambda low, high, count: (low, high, count - 1), "count (part 3 of 3) is too small wherever"),
])
def test_parts_have_names(change, words):
    assert words in examine(SPLIT, parts(change)).diagnosis


def made(reference, *calls, **labelled):
    """An exercise with these calls, which are labelled by themselves or by name."""
    rows = [Case(str(args), args) for args in calls] + [Case(label, args) for label, args in labelled.items()]
    return Exercise("00", 1, reference, lambda: rows, ("A hint.",))


def soft(x):
    """Softmax of the rows of x."""
    p = np.exp(x - x.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def keyed(query, key, value, seen):
    """softmax(query keyᵀ) value over the keys that are seen (M,)."""
    s = np.where(seen, query @ key.T, -np.inf)
    p = np.exp(s - s.max(1, keepdims=True))
    return p @ value / p.sum(1, keepdims=True)


def keyed_cases():
    rng = np.random.default_rng(3)
    sizes = {"two keys": (2, 2), "EYE: five keys": (3, 5), "ONES: four keys": (2, 4)}
    rows = [(label, *(rng.normal(size=(x, 3)) for x in size)) for label, size in sizes.items()]
    values = {"two keys": rng.normal(size=(2, 2)), "EYE: five keys": np.eye(5), "ONES: four keys": np.ones((4, 1))}
    return [Case(label, (q, k, values[label], np.arange(len(k)) != 1)) for label, q, k in rows]


def first(x, n):
    """n."""
    return n + 0 * x


def twice(x):
    """2 x."""
    return 2 * x


def running(x):
    """Running sums of x."""
    return np.cumsum(x)


def divide(x, y):
    """x / y, and 0 where y is 0."""
    return np.divide(x, y, out=np.zeros_like(x), where=y != 0)


def sign(x):
    """0 below 0, 1 at 0, 2 above."""
    return np.sign(x).astype(int) + 1


def above(x):
    """Whether x is above 0."""
    return x > 0


def product(a, b):
    """a · b, a whole number."""
    return a * b


def blocks(kind, n, block, starts):
    """The numbers of full and of begun blocks from each start on; ``kind``: "all" or "full"."""
    return np.array([(n - start) // block if kind == "full" else -(-(n - start) // block) for start in starts])


ROW = made(soft, *((np.arange(n) / 3,) for n in (2, 3, 5)))
KEYED = Exercise("00", 1, keyed, keyed_cases, ("A hint.",))
WEIGHTS = replace(WEIGH, cases=lambda: [case for case in cases() if not case.args[2]])
SIGNS, ABOVE = (made(f, *((np.arange(n) - 2,) for n in (4, 5))) for f in (sign, above))
PAIRS = made(product, *[(1, 1), (3, 3), (4, 2), (2, 7), (5, 7), (5, 5)])
LARGE = made(product, (2**12, 2**20), (2**13, 2**20))
QUOTIENTS = made(divide, *((np.array(x), np.array(y)) for x, y in (
    ([1.0, 0.0], [2.0, 0.0]), ([1.0, 2.0, 0.0], [3.0, 1.0, 0.0]), ([1.0], [3.0]))))  # fmt: skip
KINDS = made(first, **{kind: (np.arange(n + 1.0), float(n)) for n, kind in enumerate(["LOW: 0", "UP: 1", "x", "y"])})
SUMS = made(running, **{kind: (np.arange(n) + 1.0,) for kind, n in (
    ("ONE", 1), ("TWO: of them", 2), ("many; all different", 5), ("MANY more", 9))})  # fmt: skip
DOUBLES = made(twice, *((np.arange(2.0 * n).reshape(n, 2),) for n in (1, 2, 3)))
BLOCKS = made(blocks, *((kind, n, block, list(range(n // 2))) for n, block in [(8, 4), (9, 4), (13, 5), (6, 1)]
                        for kind in ("all", "full")))
SOME = made(blocks, *(("all", n, 4, [0, 1]) for n in (8, 9.0, 12.0, 16, 13)))  # whole numbers in some inputs only


def powered(condition):
    """The numbers of blocks, squared where a condition holds of kind, n and block."""
    return lambda *args: blocks(*args) ** (1 + condition(*args[:3]))


def plain(name):
    """An exercise of the course without its catalogue."""
    return replace(check.find(name), mistakes=())


LOSS, GENERATE = plain("visible_loss"), check.find("generate")


def generated(model, prompt, count):
    text = GENERATE.reference(model, prompt, count)
    return [(token + 1) % 13 for token in text] if count and len(prompt) % count else text


@pytest.mark.parametrize(("exercise", "answer", "said", "unsaid"), [
    (ROW, lambda x: soft(x) ** 2, "rows that add up to 0.51", ""),
    (ROW, lambda x: soft(x) ** 2 / (soft(x) ** 2).sum(), "", "add up"),
    (KINDS, lambda x, n: first(x, max(n, 2.0)), "right on all inputs but LOW and UP.", ""),
    (SUMS, lambda x: np.cumsum(x) + x**2 * (-1) ** np.arange(len(x)) * (len(x) > 2),
     "It is right on ONE; TWO, and wrong on many; MANY.", ""),
    (WEIGH, but_some, "", "RECT"),  # of which some are right
    (DOUBLES, lambda x: twice(x) + x**2 * (np.arange(len(x)) == len(x) - 1)[:, None], "", "last rows"),  # one row
    (QUOTIENTS, lambda x, y: x / y, "wrong only where 0 is right; there it is nan.", ""),
    (SIGNS, lambda x: np.minimum(sign(x), 1), "", "is right, and so"),
    (ABOVE, lambda x: x > -2, "is wrong only where False is right.", ""),
    # it overflows, and the right one does the same in its dtype: no change of places makes that
    (LARGE, lambda a, b: np.int32(a) * np.int32(b), "", "transposing"),
    (LARGE, lambda a, b: np.int32(a) * np.int32(b), "", "order"),
    (WEIGH, lambda x, y, flag: (1 + 2e-5) * weigh(x, y, flag), "", "times the right one"),
    (check.find("log_softmax"), lambda x: -check.find("log_softmax").reference(x), "has the wrong sign.", ""),
    (SPLIT, parts(lambda low, high, count: (2 * low, high**3 + low, count)),
     "low (part 1 of 3) is twice the right one.", ""),
    # only the dtype is wrong: every exchange of equal arguments explains the values
    (check.find("longest_sequence"), lambda *args: float(check.find("longest_sequence").reference(*args)), "",
     "exchanged"),
    (BLOCKS, powered(lambda kind, n, block: block == 1), "only those fail where block is 1.", ""),
    (BLOCKS, powered(lambda kind, n, block: n in (9, 6)), "", "only those fail"),  # in which most is right
    (SOME, powered(lambda kind, n, block: isinstance(n, int)), "", "only those fail"),
    (GENERATE, generated, "", "multiple"),  # nothing is cut into parts
])
def test_said_and_unsaid(exercise, answer, said, unsaid):
    verdict = examine(exercise, answer)
    assert verdict.state == "wrong"
    assert said in verdict.diagnosis
    assert not unsaid or unsaid not in verdict.diagnosis


@pytest.mark.parametrize(("exercise", "answer"), [
    (WEIGH, lambda x, y, flag: weigh(x + 0.01, y**3, flag)),
    (WEIGH, lambda x, y, flag: weigh(x, y, flag)[:, :1]),
    (BLOCKS, lambda *args: 1.0 * blocks(*args)),  # a dtype is not explained by other arguments
])
def test_nothing_is_said_where_nothing_holds(exercise, answer):
    verdict = examine(exercise, answer)
    assert (verdict.state, verdict.diagnosis) == ("wrong", "")


def test_gradients_that_do_not_add_up_to_zero():
    said = examine(plain("softmax_vjp"), lambda p, dp: p * (dp - 0.5 * (p * dp).sum(-1, keepdims=True))).diagnosis
    assert "has rows that add up to" in said
    assert "instead of 0" in said
    x = np.array([[1.0, -1.0, 0.0], [0.5, 0.5, -1.0]])
    balanced = [(Case("x", (x,)), x, x), (Case("2 x", (2 * x,)), 2 * x, 2 * x)]
    assert "instead of 0" in _sums([(case, f + 0.1, w) for case, f, w in balanced])
    assert _sums([(case, 2 * f, w) for case, f, w in balanced]) == ""


def test_large_whole_numbers_that_are_one_off_are_wrong():
    """They are equal within rounding, and so no entry would be found wrong."""
    x = np.array([3, 10**9])
    assert unlike(Case("large", (x,)), x - [0, 1], x).tolist() == [False, True]


def test_of_many_wrong_entries_the_first_are_named():
    x = np.arange(60.0)
    assert "at index 1, " in _rows([(Case("60", (x,)), x + x % 2, x)])
    assert "at index 40 are wrong" in _rows([(Case("60", (x,)), x + (x == 40), x)])
