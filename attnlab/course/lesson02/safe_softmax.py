"""Lesson 02, ★: softmax with the shift, over rows of any size."""

from attnlab.check.exercise import Case, Exercise, Function, Mistake

import numpy as np


def safe_softmax(x: np.ndarray) -> np.ndarray:
    """Softmax over the last axis of x (..., n), any finite scores; a row of −∞ gives 0; the dtype of x."""
    m = x.max(-1, keepdims=True)
    e = np.exp(x - np.where(m == -np.inf, x.dtype.type(0), m))
    l = e.sum(-1, keepdims=True, dtype=np.promote_types(x.dtype, np.float32))
    return (e / np.where(l == 0, 1, l)).astype(x.dtype)


def cases() -> list[Case]:
    """Scores that each wrong shift, each wrong guard and each wrong sum is caught by; few shapes, for JAX."""
    rng = np.random.default_rng(2)
    single = np.float32
    return [
        Case("HIGH: (90, 100) in float32", (np.array([90, 100], single),)),
        Case("LOW: two scores of -50 in float32", (np.array([-50, -50], single),)),
        Case("LOW: two scores of -200 in float32", (np.array([-200, -200], single),)),
        Case("SPIKE: (0, 1000) in float32", (np.array([0, 1000], single),)),
        Case("a NaN in the scores is an error upstream and must stay visible", (np.array([0, np.nan], single),)),
        Case("EMPTY: row 1 is -inf alone and must give 0", (np.array([[0, -np.inf], [-np.inf, -np.inf]]),)),
        Case("ROWS: row 0 near 0, row 1 near 1000", (np.array([[0.0, 1.0], [1000.0, 1001.0]]),)),
        Case("random, two axes", (rng.normal(size=(3, 5)),)),
        Case("random, three axes, float16", (rng.normal(size=(2, 3, 4)).astype(np.float16),)),
        Case("CONST: 4096 equal scores in float16, each weight is 1/4096", (np.full(4096, 2, np.float16),)),
    ]


def row_max(x: np.ndarray) -> np.ndarray:
    """The right shift."""
    return x.max(-1, keepdims=True)


def row_sum(e: np.ndarray) -> np.ndarray:
    """The right sum."""
    return e.sum(-1, keepdims=True)


def attempt(
    guard: bool, shift: Function = row_max, total: Function = row_sum, exp: Function = np.exp,
    before: Function = lambda x: x, after: Function = lambda p: p,
) -> Function:
    """A softmax of which one part is wrong; ``guard``: with the two replacements for empty rows."""

    def softmax(x: np.ndarray) -> np.ndarray:
        x = before(x)
        m = shift(x)
        e = exp(x - np.where(m == -np.inf, x.dtype.type(0), m) if guard else x - m)
        l = total(e)
        return after((e / np.where(l == 0, 1, l) if guard else e / l).astype(x.dtype))

    return softmax


def both(**parts: Function) -> tuple[Function, Function]:
    """The same wrong part without and with the replacements for empty rows."""
    return attempt(False, **parts), attempt(True, **parts)


def zero(x: np.ndarray) -> np.ndarray:
    """No shift."""
    return np.zeros_like(x[..., :1])


def clip(x: np.ndarray) -> np.ndarray:
    """Exponentials of scores cut off at ±88."""
    return np.exp(np.clip(x, -88, 88))


def clip_visible(x: np.ndarray) -> np.ndarray:
    """The same, with −∞ left alone."""
    return np.where(x == -np.inf, x.dtype.type(0), clip(x))


def with_epsilon(e: np.ndarray) -> np.ndarray:
    """The sum and a little."""
    return row_sum(e) + e.dtype.type(1e-9)


def running(e: np.ndarray) -> np.ndarray:
    """The sum, term by term in the dtype of the terms."""
    return np.cumsum(e, -1, dtype=e.dtype)[..., -1:]


def finite_bias(x: np.ndarray) -> np.ndarray:
    """A large negative number for −∞."""
    return np.where(x == -np.inf, x.dtype.type(-1e4), x)


EXERCISE = Exercise(
    lesson="02",
    stars=1,
    reference=safe_softmax,
    cases=cases,
    dtype=True,
    hints=(
        "Three steps, all along the last axis: the maximum, the exponentials of x minus it, the division by their sum.",
        "keepdims=True lets the maximum and the sum of each row broadcast against x.",
        "In a row of -inf the maximum is -inf: subtract 0 there, and divide by 1 where the sum is 0 (eq. 2.7).",
        "Give the sum at least float32 (a dtype= for sum), and the result the dtype of x (astype).",
    ),
    mistakes=(
        Mistake(
            "You subtract the maximum of the whole array. Far below it all exponentials of a row vanish, and 0/0 is "
            "NaN. The free shift of eq. 2.2 belongs to a row: take the maximum along the last axis, with "
            "keepdims=True.",
            *both(shift=lambda x: x.max()),
        ),
        Mistake(
            "You subtract the mean. Some exponents stay positive then, and e^u overflows; only the maximum makes all "
            "of them at most 0 (eq. 2.4).",
            *both(shift=lambda x: x.mean(-1, keepdims=True)),
        ),
        Mistake(
            "You do not shift: this is the naive softmax, which overflows above 88 and divides 0 by 0 below -103 in "
            "float32. Subtract the maximum of the row (eq. 2.3).",
            *both(shift=zero),
        ),
        Mistake(
            "You clip the scores. That changes the function: 90 and 100 become equal. A shift moves all scores of a "
            "row by the same amount, which changes nothing (eq. 2.2).",
            *both(shift=zero, exp=clip), *both(shift=zero, exp=clip_visible),
        ),
        Mistake(
            "You add a small number to the sum. It does not prevent underflow, it hides it: the weights of two scores "
            "of -50 come out near 0. After the shift the sum is at least 1, and no epsilon is needed (eq. 2.4).",
            *both(shift=zero, total=with_epsilon),
        ),
        Mistake(
            "Your empty row is NaN: its maximum is -inf, and -inf - (-inf) is undefined. Shift by 0 where the maximum "
            "is -inf, and divide by 1 where the sum is 0 (eq. 2.7).",
            attempt(False), attempt(False, shift=lambda x: np.where((m := row_max(x)) == -np.inf, 0, m)),
        ),
        Mistake(
            "You turn every NaN into 0, and with it one that came from outside: a bug upstream would go unnoticed. "
            "Define the empty row by eq. 2.7; then there is no NaN to remove.",
            attempt(False, after=np.nan_to_num), attempt(True, after=np.nan_to_num),
        ),
        Mistake(
            "You put a large negative number in the place of -inf. In an empty row that is a shift like any other: it "
            "is subtracted, and every hidden key votes. Keep -inf and use eq. 2.7.",
            attempt(False, before=finite_bias),
        ),
        Mistake(
            "Your sum is kept in float16: from 2048 on, adding 1 changes nothing, and all weights come out too large. "
            "Accumulate in float32 (eq. 2.6).",
            *both(total=running),
        ),
        Mistake(
            "You normalize along the first axis. The weights of one row add up to 1: take maximum and sum along the "
            "last axis (eq. 2.3).",
            *both(shift=lambda x: x.max(0, keepdims=True), total=lambda e: e.sum(0, keepdims=True)),
            *both(total=lambda e: e.sum(0, keepdims=True)),
        ),
        Mistake(
            "You divide by the sum over the whole array. Each row is a softmax of its own and adds up to 1: sum along "
            "the last axis, with keepdims=True (eq. 2.3).",
            *both(shift=lambda x: x.max(), total=lambda e: e.sum()), *both(total=lambda e: e.sum()),
        ),
        Mistake(
            "You do not divide by the sum of the exponentials (eq. 2.3).",
            *both(total=lambda e: np.ones_like(e)),
        ),
    ),
)
