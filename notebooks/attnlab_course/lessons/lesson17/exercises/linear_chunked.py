"""Lesson 17, ★★★: a state that fades, in chunks, with its gradient, in memory that does not grow."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Cost, Exercise, Mistake, but
from attnlab_course.checker.promises import growth, peak

import numpy as np
import torch
from torch import Tensor


def linear_chunked(fq: Tensor, fk: Tensor, v: Tensor, C: int, keep: float) -> Tensor:
    """Causal linear attention that fades, C tokens at a time: features fq and fk (N, F), v (N, Dv) → (N, Dv), PyTorch.

    Query i gives key j ≤ i the weight keep^(i − j) · fq_i · fk_j, with 0 < keep ≤ 1. If a query's weights add up to 0,
    its output is 0 and has no gradient. Hold at most one chunk's C × C weights and one state at a time (a list of
    outputs is fine).
    """
    U, Z, out = 0.0, 0.0, []
    for start in range(0, len(fq), C):
        part = slice(start, start + C)
        q, k, w = fq[part], fk[part], v[part]
        t = torch.arange(len(q)).to(q)
        a = q @ k.T * (keep ** (t[:, None] - t)).tril()
        above, below = a @ w, a.sum(1)
        if start > 0:
            old = keep ** (t[:, None] + 1) * q  # the state is as of the token before the chunk
            above, below = above + old @ U, below + old @ Z  # eq. 17.5
        left = keep ** (C - 1 - t[:, None]) * k  # and will be as of the chunk's last
        U, Z = keep**C * U + left.T @ w, keep**C * Z + left.sum(0)  # eq. 17.6
        empty = below == 0
        out.append(torch.where(empty[:, None], 0, above / torch.where(empty, 1, below)[:, None]))  # eq. 17.11
    return torch.cat(out)


def call(n: int, f: int, dv: int, C: int, keep: float = 0.5, zeros: tuple[int, ...] = ()) -> tuple:
    """``n`` tokens, values EYE if dv is 0; the queries ``zeros`` have no feature that is not 0."""
    rng = np.random.default_rng(n + 100 * f)
    fq, fk = rng.uniform(0, 2, size=(2, n, f))
    fq[list(zeros)] = 0
    return fq, fk, rng.normal(size=(n, dv)) if dv else np.eye(n), C, keep


def cases() -> list[Case]:
    """BLOCK: the same tokens in chunks of every kind; RAGGED; rows without weights."""
    n, f = 12, 4
    cases = [
        Case("EYE: two tokens in chunks of 1, nothing fades", call(2, 2, 0, 1, keep=1)),
        Case("EYE: four tokens in chunks of 4, each keeps half", call(4, 3, 0, 4)),
        Case("EYE: four tokens in chunks of 2, each keeps half", call(4, 3, 0, 2)),
        *(Case(f"BLOCK: 12 tokens in chunks of {C}", call(n, f, 3, C, keep=0.75)) for C in (12, 4, 5, 20)),
        Case("EMPTY: queries 0 and 4 have no weight, chunks of 3", call(7, f, 3, 3, zeros=(0, 4))),
        Case("1,100 tokens, each keeps half: 0.5⁻¹¹⁰⁰ overflows", call(1100, 2, 1, 50)),
    ]
    fq, fk, v, *C = call(6, f, 3, 2)
    fk[:3, :2] = fq[:3, 2:] = 0  # the first queries and keys share no feature
    late = fq.copy(), fk.copy(), v, *C
    late[1][2:], late[0][2:, 3] = [1, 0, 0, 0], 1
    late[0][2:, 0] = 0  # queries from 2 on share features with key 1 alone, which is in the first chunk
    balanced = np.ones((4, 2)), np.ones((4, 2)), np.array([[1.0, 0], [-1, 0], [1, 0], [-1, 0]]), 2, 1.0
    return [
        *cases,
        Case("EMPTY: the first three queries have features, and share none with the keys", (fq, fk, v, *C)),
        Case("all weights are in the chunk before, chunks of 2", late),
        Case("equal weights, values that add up to 0, and values of 0: their gradients are not 0", balanced),
        Case("features below 2 · 10⁻⁸: no row is empty", (1e-8 * fq[3:], 1e-8 * fk[3:], v[3:], *C)),
    ]


ABSORB = "U, Z = keep**C * U + left.T @ w, keep**C * Z + left.sum(0)"
WITHIN, OLD = "(keep ** (t[:, None] - t)).tril()", "keep ** (t[:, None] + 1) * q"
LEFT = "keep ** (C - 1 - t[:, None]) * k"
SPLIT = """    s = torch.arange(len(fq)).to(fq)[:, None]
    fq, fk = keep**s * fq, keep**-s * fk
"""
TWICE = """        young = keep ** (-1 - t)[:, None] * k  # own keys, as of the chunk before
        U, Z = (U, Z) if start == 0 else (keep**C * U, keep**C * Z)
        U, Z = U + young.T @ w, Z + young.sum(0)
"""
GUARDED = "torch.where(empty[:, None], 0, above / torch.where(empty, 1, below)[:, None])"

EXERCISE = Exercise(
    lesson="17", stars=3, reference=linear_chunked, where="eq. 17.5", cases=cases, gradients=(0, 1, 2), library="torch",
    hints=(
        "Start with keep = 1: a loop over slices of C tokens, each with its weights, a = (q @ k.T).tril(), and the "
        "state (U, Z) of all earlier chunks, eq. 17.5 and 17.6.",
        "How old is what? Within a chunk, i − j. Let a state be as of its chunk's last token, where key t is C − 1 − t "
        "old, and all that came before it has faded by keep^C. Query t of the next chunk is t + 1 tokens later.",
        "For rows of zeros, guard both sides: torch.where(empty, 0, above / torch.where(empty, 1, below)), eq. 17.11.",
    ),
    without={
        WITHIN: phrases.sees_future("eq. 17.5"),
        "if start > 0:": "Each chunk sees only its own tokens. Everything that came before takes part, too (eq. "
                         "17.5).",
        "old @ Z":
            "Your normalizer leaves out the keys of the state. It's the sum of both: φ(q)·Z plus the row sum of a "
            "(eq. 17.5).",
    },
    mistakes=(
        Mistake("Your keys fade too much or too little: query i gives key j a factor of keep^(i − j). Within a chunk, "
                "count. In eq. 17.5, query t is t + 1 tokens after the chunk before; in eq. 17.6, C − 1 − t tokens of "
                "the chunk follow key t, and what the state holds fades by keep^C.",
                but("    U, Z, out", "    keep = 1.0\n    U, Z, out"), but(WITHIN, "torch.ones_like(a_).tril()",
                    "        a = ", "        a_ = q @ k.T\n        a = "),
                but("keep**C * ", ""), but(OLD, "keep ** t[:, None] * q"), but(OLD, "q"),
                but(LEFT, "keep ** (C - t[:, None]) * k"), but(LEFT, "k")),
        Mistake("You split keep^(i − j) into keep^i for a query and keep^−j for a key, counted from the text's first "
                "token, and keep^−j overflows. Count from each chunk's first token (eq. 17.5).",
                but("    U, Z, out", SPLIT + "    keep = 1.0\n    U, Z, out"), seen="1,100 tokens"),
        Mistake("Your chunk is in the state before its queries read it, so its own keys count twice. They're in a "
                "already: read first, eq. 17.5, then update the state, eq. 17.6. ONES can't show it, because the "
                "weights still add up to 1.",
                but(ABSORB, "pass", "        if start > 0:\n", TWICE + "        if True:\n")),
        Mistake("The values are right, but the gradient of a row without weights isn't. If you divide by 0 and throw "
                "the result away, its derivative is still NaN, and a numerator of 0 divided by 1 still leaks one. "
                "Divide by 1 there, *and* put 0 in place of the result (eq. 17.11).",
                but(GUARDED, "torch.where(empty[:, None], 0, above / below[:, None])"),
                but(GUARDED, "(above / below[:, None]).nan_to_num()"),
                but(GUARDED, "above / torch.where(empty, 1, below)[:, None]")),
        Mistake("No gradient reaches the keys and values of earlier chunks, because the state is detached. It's a sum "
                "like any other, and the gradient goes through it: eq. 17.6.",
                but("left.T @ w", "(left.T @ w).detach()", "left.sum(0)", "left.sum(0).detach()")),
    ),
    costs=(
        Cost(growth(lambda n: call(n, 64, 4, 64), 512, 1024), 1.3,
             "Its memory beyond the result grew {found:.1f}× with twice as many tokens."),
        Cost(peak(lambda n: call(n, 64, 1, 8), 1024, 1024), 10,
             "Beyond the result it holds {found:.0f} numbers per token, with 64 features and chunks of 8: more states "
             "than one (eq. 17.6)."),
    ),
)
