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


def last_rows(x, y, flag):
    p = weigh(x, y, flag)
    p[-2:] += 0.1 * p[-2:] ** 2
    return p


def first_row(x, y, flag):
    p = weigh(x, y, flag)
    p[0] = np.roll(p[0], 1)
    return p


def middle_row(x, y, flag):
    p = weigh(x, y, flag)
    p[1] = p[1] ** 2 + np.roll(p[1], 1) / 9
    return p


def but_rect(x, y, flag):
    p = weigh(x, y, flag)
    return p if x.shape[1] in (3, 4) else p - p**2 / 7


def but_some(x, y, flag):
    p = weigh(x, y, flag)
    return p if x.shape[1] != 2 else p - p**2 / 7


def one_hidden(x, y, flag):
    """The last key is hidden from the first query, the first from the last, and all rows are too large."""
    p = 1.1 * weigh(x, y, flag)
    p[0, -1] = p[-1, 0] = 0
    return p


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
    (lambda x, y, flag: np.full((len(x), len(x)), np.nan), "is NaN wherever it is wrong"),
    (last_rows, "Your result is wrong in its last rows only."),
    (first_row, "wrong in its first rows only."),
    (middle_row, "right in some of its rows; in the first input that fails, those at index 1 are wrong."),
    (lambda x, y, flag: np.maximum(weigh(x, y, flag), 0.45), "Your result is 0.45 wherever it is wrong."),
    (lambda x, y, flag: weigh(x, y, flag) + 0.01 * HARD.uniform(1, 2), "is too large wherever it is wrong."),
    (but_rect, "It is right on all inputs but RECT."),
    (one_hidden, "is 0 where it should not be, first at [0, 2]."),
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


def softmax_but(change):
    """A softmax of rows, changed, of a vector of weights."""

    def soft(x):
        """Softmax of the rows of x."""
        p = np.exp(x - x.max(-1, keepdims=True))
        return p / p.sum(-1, keepdims=True)

    exercise = Exercise("00", 1, soft, lambda: [Case(f"n = {n}", (np.arange(n) / 3,)) for n in (2, 3, 5)], ("x",))
    return examine(exercise, lambda x: change(soft(x))).diagnosis


def test_weights_that_do_not_add_up():
    assert "rows that add up to 0.51" in softmax_but(np.square)
    assert "add up" not in softmax_but(lambda p: p**2 / (p**2).sum())


def test_gradients_that_do_not_add_up_to_zero():
    vjp = replace(check.find("softmax_vjp"), mistakes=())
    said = examine(vjp, lambda p, dp: p * (dp - 0.5 * (p * dp).sum(-1, keepdims=True))).diagnosis
    assert "has rows that add up to" in said
    assert "instead of 0" in said
    assert "instead of 0" in _sums([(case, f + 0.1, w) for case, f, w in balanced()])
    assert _sums([(case, 2 * f, w) for case, f, w in balanced()]) == ""


def balanced():
    """Rows that add up to 0, twice."""
    x = np.array([[1.0, -1.0, 0.0], [0.5, 0.5, -1.0]])
    return [(Case("x", (x,)), x, x), (Case("2 x", (2 * x,)), 2 * x, 2 * x)]


def test_zeros():
    assert "is 0 wherever it is wrong" in examine(WEIGH, lambda x, y, flag: 0 * weigh(x, y, False)).diagnosis
    loss = replace(check.find("visible_loss"), mistakes=())
    verdict = examine(loss, lambda query, key, value, visible: loss.reference(query, key, value.detach(), visible))
    assert "gradient of value is 0 wherever it is wrong." in verdict.diagnosis


def test_two_kinds_of_input():
    few = [Case(f"{kind}: {n}", (np.arange(n + 1.0), float(n))) for n, kind in enumerate(["LOW", "UP", "x", "y"])]

    def first(x, n):
        """n."""
        return n + 0 * x

    made = Exercise("00", 1, first, lambda: few, ("A hint.",))
    assert "right on all inputs but LOW and UP." in examine(made, lambda x, n: first(x, max(n, 2.0))).diagnosis


def test_one_row_is_not_the_last():
    one = [Case(f"n = {n}", (np.arange(2.0 * n).reshape(n, 2),)) for n in (1, 2, 3)]
    made = Exercise("00", 1, twice, lambda: one, ("A hint.",))
    last = examine(made, lambda x: twice(x) + x**2 * (np.arange(len(x)) == len(x) - 1)[:, None])
    assert "last rows" not in last.diagnosis


def twice(x):
    """2 x."""
    return 2 * x


def test_nan_where_zero_is_right():
    def divide(x, y):
        """x / y, and 0 where y is 0."""
        return np.divide(x, y, out=np.zeros_like(x), where=y != 0)

    rows = [([1.0, 0.0], [2.0, 0.0]), ([1.0, 2.0, 0.0], [3.0, 1.0, 0.0]), ([1.0], [3.0])]
    exercise = Exercise("00", 1, divide, lambda: [Case(f"{x}", (np.array(x), np.array(y))) for x, y in rows], ("x",))
    assert "wrong only where 0 is right; there it is nan." in examine(exercise, lambda x, y: x / y).diagnosis


@pytest.mark.parametrize(
    "answer",
    [lambda x, y, flag: weigh(x + 0.01, y**3, flag), lambda x, y, flag: weigh(x, y, flag)[:, :1]],
)
def test_nothing_is_said_where_nothing_holds(answer):
    assert examine(WEIGH, answer).diagnosis == ""


def running(x):
    """Running sums of x."""
    return np.cumsum(x)


def test_kinds_of_input_that_tell():
    sizes = {"ONE": 1, "TWO: of them": 2, "many; all different": 5, "MANY more": 9}
    rows = [Case(label, (np.arange(n) + 1.0,)) for label, n in sizes.items()]
    made = Exercise("00", 1, running, lambda: rows, ("A hint.",))
    said = examine(made, lambda x: np.cumsum(x) + x**2 * (-1) ** np.arange(len(x)) * (len(x) > 2)).diagnosis
    assert "It is right on ONE; TWO, and wrong on many; MANY." in said


def test_no_kind_is_named_of_which_some_are_right():
    assert "RECT" not in examine(WEIGH, but_some).diagnosis


def product(a, b):
    """a · b, a whole number."""
    return a * b


def test_a_number_is_not_transposed():
    """It overflows, and the right one does the same in its dtype: no change of places makes that."""
    made = Exercise("00", 1, product, lambda: [Case(f"a = {a}", (a, 2**20)) for a in (2**12, 2**13)], ("A hint.",))
    verdict = examine(made, lambda a, b: np.int32(a) * np.int32(b))
    assert verdict.state == "wrong"
    assert "transposing" not in verdict.text
    assert "order" not in verdict.text


def test_a_factor_of_one_is_none():
    made = Exercise("00", 1, weigh, cases, ("A hint.",))
    verdict = examine(made, lambda x, y, flag: (1 + 2e-5) * weigh(x, y, flag))
    assert verdict.state == "wrong"
    assert "times the right one" not in verdict.text


def test_one_kind_of_boolean_is_wrong():
    def above(x):
        """Whether x is above 0."""
        return x > 0

    exercise = Exercise("00", 1, above, lambda: [Case(f"{n}", (np.arange(n) - 2,)) for n in (4, 5)], ("x",))
    assert "is wrong only where False is right." in examine(exercise, lambda x: x > -2).diagnosis


def test_infinities_may_change_their_sign():
    log_softmax = check.find("log_softmax")
    assert "has the wrong sign." in examine(log_softmax, lambda x: -log_softmax.reference(x)).diagnosis


def test_of_two_wrong_parts_one_can_be_told():
    verdict = examine(SPLIT, parts(lambda low, high, count: (2 * low, high**3 + low, count)))
    assert "low (part 1 of 3) is twice the right one." in verdict.diagnosis


def test_nothing_is_said_of_values_that_are_right():
    """Only the dtype is wrong, and every exchange of equal arguments explains the values."""
    longest = check.find("longest_sequence")
    verdict = examine(longest, lambda *args: float(longest.reference(*args)))
    assert verdict.state == "wrong"
    assert "exchanged" not in verdict.diagnosis
    average = examine(check.find("average"), lambda w, v: (w @ v / w.sum()).astype(int))
    assert "reverse order" not in average.diagnosis


def blocks(kind, n, block, starts):
    """The numbers of full and of begun blocks from each start on; ``kind``: "all" or "full"."""
    return np.array([(n - start) // block if kind == "full" else -(-(n - start) // block) for start in starts])


def blocks_cases():
    sizes = [(n, block, list(range(n // 2))) for n, block in [(8, 4), (9, 4), (13, 5), (6, 1)]]
    return [Case(f"{kind}, {size}", (kind, *size)) for size in sizes for kind in ("all", "full")]


BLOCKS = Exercise("00", 1, blocks, blocks_cases, ("A hint.",))


def test_where_it_is_wrong():
    verdict = examine(BLOCKS, lambda kind, n, block, starts: blocks(kind, n, block, starts) ** (1 + (block == 1)))
    assert "only those fail where block is 1." in verdict.diagnosis


def test_no_region_is_named_of_some_inputs_only():
    """A whole number in some inputs, and no whole number in others."""
    made = replace(BLOCKS, cases=lambda: [Case(f"{n}", ("all", n, 4, [0, 1])) for n in (8, 9.0, 12.0, 16, 13)])
    verdict = examine(made, lambda kind, n, *args: blocks(kind, n, *args) ** (1 + isinstance(n, int)))
    assert "only those fail" not in verdict.text


def test_no_region_is_named_in_which_most_is_right():
    verdict = examine(BLOCKS, lambda kind, n, *args: blocks(kind, n, *args) ** (1 + (n in (9, 6))))
    assert verdict.state == "wrong"
    assert "only those fail" not in verdict.text


def test_a_dtype_is_not_explained_by_other_arguments():
    verdict = examine(BLOCKS, lambda *args: 1.0 * blocks(*args))
    assert verdict.diagnosis == ""
    assert "expected dtype int64, got float64" in verdict.text


def test_large_whole_numbers_that_are_one_off_are_wrong():
    """They are equal within rounding, and so no entry would be found wrong."""
    x = np.array([3, 10**9])
    assert unlike(Case("large", (x,)), x - [0, 1], x).tolist() == [False, True]


def test_of_many_wrong_entries_the_first_are_named():
    x = np.arange(60.0)
    assert "at index 1, " in _rows([(Case("60", (x,)), x + x % 2, x)])
    assert "at index 40 are wrong" in _rows([(Case("60", (x,)), x + (x == 40), x)])
