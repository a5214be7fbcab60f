"""Lesson 17, ★★: the recurrent form, over a stream of tokens, with a state that comes in and goes out."""

from collections.abc import Iterable

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Cost, Exercise, Mistake, Stream, but
from attnlab_course.checker.promises import growth

import numpy as np
from numpy import ndarray as Array

Tokens = Iterable[tuple[Array, Array, Array]]


def linear_recurrent(tokens: Tokens, U: Array, Z: Array) -> tuple[Array, Array, Array]:
    """(out, U, Z): the output (Dv,) of the stream's last token, and the state after it.

    ``tokens``: at least one triple (fq (F,), fk (F,), v (Dv,)): query features, key features, value. ``U`` (F, Dv) and
    ``Z`` (F,): the state that all earlier tokens left. If all of a query's weights are 0, its output is 0.
    """
    for fq, fk, v in tokens:
        U, Z = U + np.outer(fk, v), Z + fk  # eq. 17.4
        total = fq @ Z
        out = fq @ U / total if total > 0 else 0 * v  # eq. 17.11
    return out, U, Z


def call(n: int, f: int, dv: int, before: int = 0, zeros: bool = False, size: float = 1.0) -> tuple:
    """``n`` tokens after ``before`` others, EYE values if dv is 0; features from 0, as relu's, to 2 · ``size``."""
    rng = np.random.default_rng(n + 10 * before + 100 * f)
    fq, fk = size * rng.uniform(0, 2, size=(2, before + n, f))
    fq[-1] *= 0 if zeros else 1
    v = rng.normal(size=(before + n, dv)) if dv else np.eye(before + n)
    U, Z = fk[:before].T @ v[:before], fk[:before].sum(0)
    return Stream(lambda: zip(fq[before:], fk[before:], v[before:])), U, Z


def apart(keys: list[int], query: list[int]) -> tuple:
    """Three tokens, each with a key of one feature; the first query looks at a feature of nobody, the last at some."""
    fq, fk, v = np.eye(3)[[2, 0, 0]], np.eye(3)[keys], np.arange(5.0, -1, -1).reshape(3, 2)
    fq[-1] = 0.5 * np.eye(3)[query].sum(0)
    return Stream(lambda: zip(fq, fk, v)), np.zeros((3, 2)), np.zeros(3)


def cases() -> list[Case]:
    """The first token, several, after a state (SPLIT), and a query without weights."""
    return [
        Case("ONE: the first token of all: the output is its value", call(1, 3, 2)),
        Case("EYE: two tokens, so that the output is the weights", call(2, 3, 0)),
        Case("EYE: five tokens, four features", call(5, 4, 0)),
        Case("SPLIT, EYE: one token after 4 others, whose state is given", call(1, 4, 0, 4)),
        Case("SPLIT: seven tokens after 5 others", call(7, 4, 3, 5)),
        Case("four tokens after 2 others, features below 0.0002", call(4, 3, 2, 2, size=1e-4)),
        Case("four tokens after 2 others, features below 2 · 10⁻⁸", call(4, 3, 2, 2, size=1e-8)),
        Case("EMPTY: relu has made the last query 0: all its weights are 0", call(3, 3, 2, 2, True)),
        Case("EMPTY: the last query has features, and shares none with the keys", apart([0, 0, 0], [1])),
        Case("the first query has no weight, the last one has", apart([0, 0, 1], [0])),
    ]


STATE = "U, Z = U + np.outer(fk, v), Z + fk  # eq. 17.4"
OUT = "fq @ U / total if total > 0 else 0 * v"
PAST = STATE, "past, (U, Z) = (U, Z), (U + np.outer(fk, v), Z + fk)", "fq @ Z", "fq @ past[1]"
FIRST = "    for fq"

EXERCISE = Exercise(
    lesson="17", stars=2, reference=linear_recurrent, where="eq. 17.4", cases=cases,
    hints=(
        "Each token adds to the state: its key's features times its value to U, its key's features to Z.",
        "np.outer(fk, v) has the shape of U. A query sees its own key, so update the state first: eq. 17.4.",
        "The output of a token is fq @ U / (fq @ Z). You only return the last one.",
    ),
    without={
        "total":
            "You don't divide by the query's own normalizer: its weights add up to φ(q)·Z, and not to 1 (eq. 17.2).",
        "0 * v": phrases.no_weights("eq. 17.11"),
    },
    mistakes=(
        Mistake("Your query reads the state before its own key is in it. A query sees j ≤ i, so update the state "
                "first, eq. 17.4. (For the very first token, your sums are empty.)",
                but(*PAST, "fq @ U /", "fq @ past[0] /"), but(*PAST, OUT, "fq @ past[0] / total")),
        Mistake("Your own key counts twice: it's in the state, and you add it once more. ONES can't show it, because "
                "the weights still add up to 1. Eq. 17.4.",
                but("fq @ Z", "fq @ (Z + fk)", "fq @ U", "fq @ (U + np.outer(fk, v))")),
        Mistake("You ignore the state that comes in, so only the tokens of this stream get weights. Start from the U "
                "and Z you're given, eq. 17.4.",
                but(FIRST, "    U, Z = 0 * U, 0 * Z\n" + FIRST)),
        Mistake("Your normalizer starts over with every stream, but U goes on, so the weights add up to more than 1. "
                "U and Z are one state, eq. 17.4.",
                but(FIRST, "    Z = 0 * Z\n" + FIRST),
                but(FIRST, "    Z, before = 0 * Z, Z\n" + FIRST, "return out, U, Z", "return out, U, Z + before")),
        Mistake("You build the state from the query's features. What a token leaves behind comes from its key: φ(k) "
                "vᵀ, eq. 17.4.",
                but("np.outer(fk, v)", "np.outer(fq, v)", "Z + fk", "Z + fq")),
    ),
    costs=(
        Cost(growth(lambda n: call(n, 8, 8), 200, 400), 1.1,
             "Its memory grew {found:.1f}× when the stream was twice as long; a state doesn't grow."),
    ),
)
