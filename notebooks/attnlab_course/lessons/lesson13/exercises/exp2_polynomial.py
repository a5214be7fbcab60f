"""Lesson 13, ★★: fix an exponential made of a polynomial and of bits."""

from attnlab_course.checker.exercise import Case, Exercise, Mistake, but

import numpy as np

COEFFICIENTS = (1.0, 0.6951, 0.2276, 0.0771)


def exp2_polynomial(t: np.ndarray, c: tuple[float, float, float, float]) -> np.ndarray:
    """2^t for float32 t ≤ 0, −∞ included: a cubic of t − ⌊t⌋ with coefficients c, times 2^⌊t⌋; 0 where t < −126."""
    live = t >= -126  # below −126 we run out of exponents
    t = np.where(live, t, 0)
    n = np.floor(t)  # astype rounds toward zero
    x = t - n  # in [0, 1): eq. 13.4
    p = (c[0] + x * (c[1] + x * (c[2] + x * c[3]))).astype(np.float32)
    bits = p.view(np.int32) + (n.astype(np.int32) << 23)  # n is added to the exponent of p
    return np.where(live, bits.view(np.float32), 0)


def cases() -> list[Case]:
    """Whole numbers, fractions of every size, the ends of the range, hidden keys."""
    calls = {
        "ONE: 0": [0.0],
        "whole numbers": [0.0, -1.0, -2.0, -3.0],
        "−0.5": [-0.5],
        "−10⁻⁹, whose fraction is 1 in float32": [-1e-9],
        "−125.5 and −126": [-125.5, -126.0],
        "LOW: −126 and −126.5": [-126.0, -126.5],  # numbers near 10^−38 are told from 0 beside one that is as small
        "LOW: −130, −200 and −300": [-130.0, -200.0, -300.0],
        "HIDDEN: −∞": [-np.inf],
        "0, −3.3, −∞ and −500": [0.0, -3.3, -np.inf, -500.0],
    }
    found = [Case(label, (np.array(t, np.float32), COEFFICIENTS)) for label, t in calls.items()]
    line = np.linspace(-1, 0, 9).astype(np.float32)
    return [*found, Case("nine numbers from −1 to 0, another cubic", (line, (0.9, 0.7, 0.2, 0.1)))]


EXERCISE = Exercise(
    lesson="13", stars=2, reference=exp2_polynomial, where="eq. 13.4", cases=cases,
    hints=(
        "Try t = −0.5 and t = −130, and print n, x and the result. Which x is the cubic good for?",
        "astype rounds toward zero, so x = −0.5 for t = −0.5. (13.4) needs ⌊t⌋, which is np.floor.",
        "A float32 has 8 bits for the exponent, for powers from 2^−126 up. Whatever you add beyond that runs into the "
        "sign. Replace t with 0 where t < −126, and the result with 0 at the end; that includes −∞.",
    ),
    without={
        "n.astype(np.int32) << 23":
            "The cubic alone is between 1 and 2: multiply it by 2^⌊t⌋, by adding ⌊t⌋ to the exponent (eq. 13.4).",
    },
    mistakes=(
        Mistake("You round toward zero, or to the nearest integer. ⌊t⌋ rounds *down*, so x runs from 0 to 1, where the "
                "cubic is good (eq. 13.4).",
                but("np.floor(t)", "np.trunc(t)"), but("np.floor(t)", "np.ceil(t)"), but("np.floor(t)", "np.rint(t)"),
                but("np.floor(t)", "np.floor(t + 0.5)")),
        Mistake("Below −126 there's no exponent left: what you add spills into the sign, and a weight of almost 0 "
                "becomes a large or negative number. The result there is 0 (section 4).",
                but("t >= -126", "t > -np.inf"), but("t >= -126", "t >= -254"), but("t >= -126", "t >= -1022")),
        Mistake("Hidden keys have t = −∞, and −∞ − (−∞) is NaN, but their weight is 0 (section 4).",
                but("t >= -126", "(t >= -126) | (t == -np.inf)")),
        Mistake("Your coefficients are in the wrong order: c[0] is the constant (eq. 13.4).",
                but("c[0] + x * (c[1] + x * (c[2] + x * c[3]))", "c[3] + x * (c[2] + x * (c[1] + x * c[0]))")),
        Mistake("You return the exact power. We want the polynomial's value, which differs in the fifth digit (eq. "
                "13.4).",
                but("bits.view(np.float32), 0)", "np.exp2(t), 0)")),
    ),
)
