"""Lesson 18, ★★: a feature map that was guarded against overflow and lost its weights, fixed."""

from attnlab_course.checker.exercise import Case, Exercise, Mistake, but

import numpy as np
from numpy import ndarray as Array


def fixed_map(q: Array, k: Array, v: Array, w: Array, C: int) -> Array:
    """Linear attention (N, Dv), all keys visible, with features e^{xw} and e^{−xw} of q (N, D) and k (M, D).

    v (M, Dv), w (D, f); C keys at a time. No exponential overflows, even if q or k is huge, and the weights are still
    the map's. If both are so large that all of a query's weights underflow, any output will do.
    """
    y = np.concatenate([q @ w, -q @ w], 1)
    phi_q = np.exp(y - y.max(1, keepdims=True))  # a factor for each query: it cancels in the division
    m, U, Z = -np.inf, 0.0, 0.0
    for start in range(0, len(k), C):
        part = slice(start, start + C)
        z = np.concatenate([k[part] @ w, -k[part] @ w], 1)
        top = max(m, z.max())  # one factor for all keys so far: it cancels as well
        phi_k = np.exp(z - top)
        U, Z, m = np.exp(m - top) * U + phi_k.T @ v[part], np.exp(m - top) * Z + phi_k.sum(0), top
    return phi_q @ U / (phi_q @ Z)[:, None]


def call(n: int, m: int, d: int, f: int, size_q: float = 1, size_k: float = 1, one: float = 1, at: int = -1) -> tuple:
    """EYE as values, 2 keys at a time; sizes of the vectors, and GROW: key number ``at`` is ``one`` times as large."""
    rng = np.random.default_rng(n + 10 * m + d)
    q, k = size_q * rng.normal(size=(n, d)), size_k * rng.normal(size=(m, d))
    k[at] *= one
    return q, k, np.eye(m), rng.normal(size=(d, f)) / np.sqrt(d), 2


def shifted(q: float = 0, k: float = 0) -> tuple:
    """EYE as values; features of the numbers themselves, which lie near ``q`` and ``k``."""
    queries, keys, values, *_ = call(4, 5, 4, 4)
    return queries + q, keys + k, values, np.eye(4), 2


def cases() -> list[Case]:
    """Weights themselves as outputs; then vectors whose exponentials overflow."""
    return [
        Case("ONE: one query, one key", call(1, 1, 2, 2)),
        Case("EYE: 3 queries, 2 keys at once", call(3, 2, 4, 4)),
        Case("EYE: 4 queries, 6 keys, 2 at a time", call(4, 6, 4, 4)),
        Case("EYE, GROW: the last of 6 keys is 4 times as large", call(4, 6, 4, 4, one=4)),
        Case("EYE: the first of 6 keys is 4 times as large", call(4, 6, 4, 4, one=4, at=0)),
        Case("EYE: queries 300 times as large, whose exponentials are near 10^300", call(4, 5, 4, 4, size_q=300)),
        Case("EYE: queries 3,000 times as large overflow without a guard", call(4, 5, 4, 4, size_q=3000)),
        Case("EYE: keys 1,000 times as large overflow without a guard", call(4, 5, 4, 4, size_k=1000)),
        Case("EYE: queries whose xw are all near −30,000", shifted(q=-30_000)),
        Case("EYE: keys whose xw are all near 30,000", shifted(k=30_000)),
        Case("EYE: keys whose xw are all near −30,000", shifted(k=-30_000)),
        Case("EYE: queries and keys near 600, each exponential is finite, no product is", shifted(q=600, k=600)),
        Case("4 queries, 6 keys, two numbers a value",
             (*call(4, 6, 4, 4)[:2], np.arange(12.0).reshape(6, 2), np.eye(4), 4)),
        Case("EYE: queries near 150, keys near −150: the weights are near 1", shifted(q=150, k=-150)),
    ]


TOP = "max(m, z.max())"
FIRST_Q = "y - y.max(1, keepdims=True)", "y - y[:, : w.shape[1]].max(1, keepdims=True)"
FIRST_K = TOP, "max(m, z[:, : w.shape[1]].max())"
CLIPPED = [but("y - y.max(1, keepdims=True)", form.format("y", at), TOP, "m = 0.0", "z - top", form.format("z", at))
           for at in (30, 50, 80, 88, 100, 300, 500, 700)
           for form in ("np.clip({0}, -{1}, {1})", "np.minimum({}, {})")]

EXERCISE = Exercise(
    lesson="18", stars=2, reference=fixed_map, where="section 6", cases=cases,
    hints=(
        "Use EYE as values, so that the rows are weights, and compare with the plain exponentials, on keys that come "
        "one at a time.",
        "Which factors cancel in Σ a v / Σ a? Those that all keys of a query share, whenever they come.",
        "Keep the maximum m of all keys so far. When it moves to top, what U and Z hold has to shrink by e^(m − top).",
    ),
    mistakes=(
        Mistake("This is still the broken map: each part of the keys is divided by a factor of its own, so parts with "
                "large keys lose the weight that their size gave them: section 6.",
                but(TOP, "m = z.max()")),
        Mistake("Your maximum moves on, and U or Z, or both, stay as they were: they still have the old factor. "
                "Rescale both by e^(m − top), as in lesson 04: section 6.",
                but("np.exp(m - top) * U", "U"), but("np.exp(m - top) * Z", "Z"), but("np.exp(m - top) * ", "")),
        Mistake("Each key, or each half of a query's features, has its own maximum. Only a factor that all weights of "
                "a query share cancels (eq. 18.5).",
                but("z - top", "z - z.max(1, keepdims=True)", TOP, "m = 0.0"),
                but("y - y.max(1, keepdims=True)",
                    "(y.reshape(len(y), 2, -1) - y.reshape(len(y), 2, -1).max(2, keepdims=True)).reshape(y.shape)")),
        Mistake("Your guard looks at xw and not at −xw, whose exponentials overflow where xw is far below 0. Take the "
                "maximum over both halves: section 6.",
                but(*FIRST_Q), but(*FIRST_K), but(*FIRST_Q, *FIRST_K)),
        Mistake("You clip large exponents. All weights beyond the limit become equal, and the order of the keys is "
                "lost: section 2.",
                *CLIPPED),
    ),
)
