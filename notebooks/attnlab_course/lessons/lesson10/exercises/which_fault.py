"""Lesson 10, ★★: which of six backward passes is this? Told by one call."""

from collections.abc import Callable
from typing import Any

from attnlab_course.checker.exercise import Case, Exercise, Mistake, but

import numpy as np
from numpy import ndarray as Array

FAULTS = (
    "right", "dQ without its scale", "dS without Δ", "weights without lse", "the last, shorter block left out",
    "dS of visible pairs alone, dV of all",
)  # fmt: skip


def which_fault(backward: Callable) -> int:
    """Number of the fault of ``backward(q, k, v, dout) -> (dq, dk, dv)``, found by calling it once.

    It is causal attention's backward pass, N = M, scale 1/√D, in blocks of four keys: 0 right; 1 dq lacks the scale;
    2 Δ isn't subtracted; 3 weights are e^s, not divided by the sum; 4 keys after the last whole block are left out; 5
    the mask is in dS and forgotten in the weights of dv. You choose the inputs.
    """
    q, k, v, dout = np.random.default_rng(0).normal(size=(4, 6, 3))
    found = backward(q, k, v, dout)
    for fault in range(len(FAULTS)):
        expected = gradients(q, k, v, dout, fault)
        if all(np.allclose(x, y) for x, y in zip(found, expected)):
            return fault
    return -1


def gradients(q: Array, k: Array, v: Array, dout: Array, fault: int) -> tuple[Array, Array, Array]:
    """(dq, dk, dv) with one of the faults."""
    scale, visible = q.shape[1] ** -0.5, np.tri(len(q), dtype=bool)
    s = scale * q @ k.T
    e = np.where(visible, np.exp(s), 0)
    p = e if fault == 3 else e / e.sum(1, keepdims=True)
    out = p @ v
    delta = 0 if fault == 2 else (dout * out).sum(1, keepdims=True)  # eq. 10.2
    ds = p * (dout @ v.T - delta)  # eq. 10.3
    weights = np.exp(s) / e.sum(1, keepdims=True) if fault == 5 else p
    if fault == 4:
        ds, weights = (np.where(np.arange(len(k)) < len(k) // 4 * 4, x, 0) for x in (ds, weights))
    return (1 if fault == 1 else scale) * ds @ k, scale * ds.T @ q, weights.T @ dout  # eq. 10.5


def run(answer: Callable) -> Callable:
    """The answer with a backward pass that counts its calls: (number, calls)."""
    def counted(fault: int) -> np.ndarray:
        calls = []

        def backward(q: Array, k: Array, v: Array, dout: Array) -> tuple[Array, Array, Array]:
            calls.append(len(q))
            q, k, v, dout = (np.asarray(x, float) for x in (q, k, v, dout))
            if not q.ndim == 2 or q.shape != k.shape or v.shape != dout.shape or len(v) != len(q):
                raise ValueError(f"q and k are (N, D), v and dout (N, Dv); got {q.shape}, {k.shape}, {v.shape}, "
                                 f"{dout.shape}")
            return gradients(q, k, v, dout, fault)

        return np.array([answer(backward), len(calls)])

    return counted


def judge(case: Case, got: Any) -> str | None:
    """The number, then the calls."""
    (number, calls), (fault,) = got, case.args
    if number != fault:
        named = FAULTS[int(number)] if number in range(len(FAULTS)) else number
        return f"you say {named!r}; it's {FAULTS[fault]!r}. An input on which both give the same can't tell them apart."
    if calls > 1:
        return f"the number is right, after {int(calls)} calls; one is enough."
    return None


def cases() -> list[Case]:
    """Each fault."""
    return [Case(f"suspect {letter}", (fault,)) for letter, fault in zip("ABCDEF", (3, 0, 4, 1, 5, 2))]


EXERCISE = Exercise(
    lesson="10", stars=2, reference=which_fault, cases=cases, judge=judge, run=run,
    hints=(
        "Write the right backward pass for a small input, with a switch for each fault, and compare.",
        "Choose inputs on which no two faults give the same: a length not divisible by four, no zeros, no equal rows.",
        "q, k, v, dout = rng.normal(size=(4, 6, 3)) is such an input: 6 = 4 + 2 keys, D = 3.",
    ),
    mistakes=(
        Mistake("Your length is a multiple of four, so leaving out the short block changes nothing (section 8).",
                but("size=(4, 6, 3)", "size=(4, 8, 3)")),
        Mistake("Your input can't show most faults. One token has one weight, 1; with a gradient of 0, all are 0; with "
                "D = 1 the scale is 1, and with equal values dP is Δ, so dS is 0 (eqs. 10.3 and 10.5).",
                but("size=(4, 6, 3)", "size=(4, 1, 3)"), but("size=(4, 6, 3)", "size=(4, 6, 1)"),
                but("found = backward", "v = np.ones((6, 3)); found = backward"),
                but("found = backward", "dout = 0 * dout; found = backward")),
        Mistake("You call it once for each fault. Compare one result with all of them (section 8).",
                but("zip(found, expected)", "zip(backward(q, k, v, dout), expected)")),
    ),
)
