"""Lesson 02, ★★: the logarithm of the weights, without the weights."""

from attnlab.check.exercise import Case, Exercise, Function, Mistake

import numpy as np


def log_softmax(x: np.ndarray) -> np.ndarray:
    """log of the softmax over the last axis of x (..., n), finite wherever x is; a row of −∞ gives −∞."""
    m = x.max(-1, keepdims=True)
    shifted = x - np.where(m == -np.inf, x.dtype.type(0), m)
    l = np.exp(shifted).sum(-1, keepdims=True)
    return shifted - np.log(np.where(l == 0, x.dtype.type(1), l))


def cases() -> list[Case]:
    """Scores where the weight vanishes, where the sum does, where nothing is visible; few shapes, for JAX."""
    rng = np.random.default_rng(2)
    single = np.float32
    return [
        Case("CONST: two scores of 3 in float32, each weight is 1/2", (np.array([3, 3], single),)),
        Case("(0, -200) in float32: the weight is 0 there, its logarithm -200", (np.array([0, -200], single),)),
        Case("LOW: two scores of -200 in float32", (np.array([-200, -200], single),)),
        Case("HIGH: (99, 100) in float32", (np.array([99, 100], single),)),
        Case("ROWS: row 0 near 0, row 1 near 1000", (np.array([[0.0, 1.0], [1000.0, 1001.0]]),)),
        Case("EMPTY: row 1 is -inf alone and must give -inf", (np.array([[0, -np.inf], [-np.inf, -np.inf]]),)),
        Case("random, two axes", (rng.normal(size=(3, 5)),)),
        Case("random, three axes, float32", ((3 * rng.normal(size=(2, 3, 4))).astype(single),)),
    ]


def attempt(combine: Function, guard: bool, shift: Function = lambda x: x.max(-1, keepdims=True)) -> Function:
    """``combine(x, m, l)``, where l is the sum of the shifted exponentials; ``guard``: empty rows are treated."""

    def wrong(x: np.ndarray) -> np.ndarray:
        m = shift(x)
        m = np.where(m == -np.inf, x.dtype.type(0), m) if guard else m
        l = np.exp(x - m).sum(-1, keepdims=True)
        return combine(x, m, np.where(l == 0, x.dtype.type(1), l) if guard else l)

    return wrong


def both(combine: Function, **parts: Function) -> tuple[Function, Function]:
    """The same mistake without and with care for empty rows."""
    return attempt(combine, False, **parts), attempt(combine, True, **parts)


def right(x: np.ndarray, m: np.ndarray, l: np.ndarray) -> np.ndarray:
    """Equation 2.5."""
    return x - m - np.log(l)


def columns(x: np.ndarray) -> np.ndarray:
    """Along the first axis."""
    m = x.max(0, keepdims=True)
    return x - m - np.log(np.exp(x - m).sum(0, keepdims=True))


def at_once(x: np.ndarray) -> np.ndarray:
    """Over the whole array."""
    return x - x.max() - np.log(np.exp(x - x.max()).sum())


EXERCISE = Exercise(
    lesson="02",
    stars=2,
    reference=log_softmax,
    cases=cases,
    hints=(
        "log(a / b) = log a - log b, and the logarithm of e^(x - m) is x - m: no weight is needed.",
        "log p = (x - m) - log l, with m and l along the last axis (eq. 2.5).",
        "For an empty row use 0 instead of a maximum of -inf, and 1 instead of a sum of 0 (eq. 2.7): x - 0 - log 1.",
    ),
    mistakes=(
        Mistake(
            "You take the logarithm of the weight. A weight below about e^-103 is 0 in float32, and its logarithm "
            "-inf, although x - m is known exactly. Do not exponentiate what you take the logarithm of (eq. 2.5).",
            *both(lambda x, m, l: np.log(np.exp(x - m) / l)),
        ),
        Mistake(
            "You add a small number before taking the logarithm. Then no weight can have a logarithm below that of "
            "the small number; -200 comes out as about -20. No epsilon is needed (eq. 2.5).",
            *(f for e in (1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-12, 1e-20)
              for f in both(lambda x, m, l, e=e: np.log(np.exp(x - m) / l + x.dtype.type(e)))),
        ),
        Mistake(
            "You take the sum of the bare exponentials, which overflows above 88 and vanishes below -103 in float32. "
            "Shift by the maximum inside the sum and put it back outside: lse = m + log l (eq. 2.5).",
            lambda x: x - np.log(np.exp(x).sum(-1, keepdims=True)),
            lambda x: np.log(np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
        ),
        Mistake(
            "You forget the maximum: the sum was taken of shifted scores, so its logarithm is too small by m. "
            "lse = m + log l (eq. 2.5).",
            *both(lambda x, m, l: x - np.log(l)),
        ),
        Mistake(
            "You subtract the maximum twice: lse = m + log l contains it already. Either x - lse or x - m - log l "
            "(eq. 2.5).",
            *both(lambda x, m, l: x - m - (m + np.log(l))),
        ),
        Mistake(
            "You subtract the sum instead of its logarithm: dividing by l subtracts log l (eq. 2.5).",
            *both(lambda x, m, l: x - m - l), *both(lambda x, m, l: (x - m) / l),
        ),
        Mistake(
            "You leave out the sum: x - m is the logarithm of the exponential, not of the weight. Subtract log l "
            "(eq. 2.5).",
            *both(lambda x, m, l: x - m),
        ),
        Mistake(
            "You subtract the maximum of the whole array; far below it a row's sum vanishes. The shift belongs to a "
            "row (eq. 2.2).",
            *both(right, shift=lambda x: x.max()),
        ),
        Mistake(
            "Your empty row is NaN: its maximum is -inf, and -inf - (-inf) is undefined. Use 0 for that maximum "
            "(eq. 2.7); then x - 0 - log 1 is -inf, as it should be.",
            attempt(right, False), lambda x: np.where(np.isnan(y := attempt(right, False)(x)), 0, y),
        ),
        Mistake(
            "You sum along another axis, or over the whole array. The weights of each row add up to 1: maximum and sum "
            "run along the last axis (eq. 2.3).",
            columns, at_once,
        ),
    ),
)
