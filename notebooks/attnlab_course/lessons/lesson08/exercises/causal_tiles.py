"""Lesson 08, ★★: Algorithm 1 with a causal mask, right for square tiles and N = M only, repaired."""

from attnlab.core.geometry import blocks
from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Cost, Exercise, Function, Mistake, but
from attnlab_course.checker.fingerprints import DEEP, far_queries
from attnlab_course.checker.inputs import qkv
from attnlab_course.checker.operations import done

import numpy as np

Array = np.ndarray
INF = np.inf


def causal_tiles(Q: Array, K: Array, V: Array, Br: int, Bc: int) -> Array:
    """Causal attention (aligned bottom right) of Q (N, D), K (M, D), V (M, Dv) in tiles → (N, Dv); 0 if none seen.

    Hidden tiles are skipped: nothing is computed of a tile that no query may see.
    """
    N, M = len(Q), len(K)
    O, l, m = np.zeros((N, V.shape[1])), np.zeros(N), np.full(N, -INF)
    for J in blocks(M, Bc):
        for I in blocks(N, Br):
            if J.start > I.stop - 1 + M - N:  # eq. 8.10
                continue
            S = Q[I] @ K[J].T / Q.shape[1] ** 0.5
            S[np.arange(M)[J] > np.arange(N)[I][:, None] + M - N] = -INF
            m_tile = S.max(1)
            P, m_new = np.exp(S - zero_if_empty(m_tile)[:, None]), np.maximum(m[I], m_tile)
            a, b = np.exp(m[I] - zero_if_empty(m_new)), np.exp(m_tile - zero_if_empty(m_new))
            l_new = a * l[I] + b * P.sum(1)
            O[I] = ((l[I] * a)[:, None] * O[I] + b[:, None] * (P @ V[J])) / one_if_empty(l_new)[:, None]
            l[I], m[I] = l_new, m_new
    return O


def zero_if_empty(m: Array) -> Array:
    """m, and 0 for −∞."""
    return np.where(m == -INF, 0, m)


def one_if_empty(l: Array) -> Array:
    """l, and 1 for 0."""
    return np.where(l == 0, 1, l)


def call(n: int, m: int, br: int, bc: int, dv: int = 0, d: int = 4) -> tuple:
    """Random arrays; values are the identity, or of size ``dv``."""
    return *qkv(n, m, d, dv), br, bc


def cases() -> list[Case]:
    """Square first; then one thing at a time: tall tiles, wide tiles, a cache, more queries than keys."""
    far = np.outer([1, 1], [DEEP, 0, 0, 0]), np.outer([2.0, 4.0], [1, 0, 0, 0])
    return [
        Case("ONE: one query, one key", call(1, 1, 1, 1)),
        Case("EYE: 4 queries, 4 keys, tiles of 2 × 2, values the identity", call(4, 4, 2, 2)),
        Case("4 queries, 4 keys, tiles of 2 × 1", call(4, 4, 2, 1)),
        Case("4 queries, 4 keys, tiles of 1 × 2", call(4, 4, 1, 2)),
        Case("RECT: 2 queries, 4 keys, tiles of 1 × 1", call(2, 4, 1, 1)),
        Case("RECT: 4 queries, 5 keys, tiles of 2 × 2", call(4, 5, 2, 2)),
        Case("EMPTY: 3 queries, 2 keys; query 0 sees nothing", call(3, 2, 1, 1)),
        Case("EMPTY: 5 queries, 2 keys, tiles of 4 × 2; queries 0 to 2 see nothing", call(5, 2, 4, 2)),
        *far_queries(lambda Q, K: (Q, K, np.eye(4), 2, 1), *call(4, 4, 2, 1)[:2], "; N = M = 4, tiles of 2 × 1"),
        Case("LOW: scores −10¹² and −2·10¹²; N = M = 2, tiles of 2 × 2", (*far, np.eye(2), 2, 2)),
        Case("RAGGED: 3 queries, 7 keys, tiles of 2 × 3; D = 6", call(3, 7, 2, 3, dv=3, d=6)),
        Case("RAGGED: 5 queries, 14 keys, tiles of 3 × 4", call(5, 14, 3, 4, dv=3)),
    ]


def exponentials(answer: Function, library: str) -> float | None:
    """How many NumPy computes for each score of the 10 visible tiles: 64 queries and keys in tiles of 16 × 16."""
    if library != "numpy":
        return None
    made = done(answer, call(64, 64, 16, 16, dv=3), library) or ()
    return sum(x.size for x in made if x.kind == "natural") / (10 * 16**2)


NUMBERS = "J.start > I.stop - 1 + M - N", "J.start // Bc > I.start // Br"
CORNER = "[:, None] + M - N", "[:, None]"
UNGUARDED = "zero_if_empty(m_tile)", "m_tile", "zero_if_empty(m_new)", "m_new", "one_if_empty(l_new)", "l_new"
TRY = "tiles of 2 × 1, then 2 queries with 4 keys, then 3 queries with 2 keys"

EXERCISE = Exercise(
    lesson="08", stars=2, reference=causal_tiles, where="section 4", cases=cases,
    costs=(
        Cost(exponentials, 1.2,
             "it computes {found:.2f} exponentials for each score of a tile that somebody sees. Skip the tiles that "
             "nobody sees, on the diagonal as well: j₀ > i₁ + M − N (eq. 8.10)."),
    ),
    hints=(
        "Compare `broken` with attnlab.safe_attention(Q, K, V, causal=True): tiles that aren't square, then N ≠ M.",
        "Which tiles you can skip depends on positions, and so does where the mask begins if N ≠ M (eq. 8.10).",
        "A row of a tile can be hidden entirely: its maximum is −∞. Subtract 0 there, and divide by 1 where l is 0.",
    ),
    without={
        "one_if_empty(l_new)": phrases.no_weights("section 7"),
        "Q.shape[1] ** 0.5": phrases.unscaled("eq. 8.1"),
        "S[np.arange(M)[J] > np.arange(N)[I][:, None] + M - N] = -INF": phrases.sees_future("eq. 8.10"),
    },
    mistakes=(
        Mistake(phrases.nothing_fixed("section 7, eq. 8.10", inputs=TRY), but(*NUMBERS, *CORNER, *UNGUARDED)),
        Mistake(phrases.one_fixed("section 7, eq. 8.10", inputs=TRY),
                but(*NUMBERS, *CORNER), but(*NUMBERS, *UNGUARDED), but(*CORNER, *UNGUARDED)),
        Mistake("You skip tiles by their block numbers, which is right only if tiles are square and N = M (eq. 8.10).",
                but(*NUMBERS)),
        Mistake(phrases.top_left("eq. 8.10", rule="query i sees key j if j ≤ i + M − N"), but(*CORNER)),
        Mistake(phrases.empty_row("section 7"), but(*UNGUARDED)),
    ),
)
