"""Six slips in a token or a chunk of the gated delta rule, and three tests: which test sees which slip."""

from attnlab_course.checker.exercise import but
from attnlab_course.lessons.lesson25.exercises.delta_chunk import delta_chunk
from attnlab_course.lessons.lesson25.exercises.delta_step import delta_step

import numpy as np
from numpy import ndarray as Array

DECAY, WRITE = "    S = a * S\n", "S = S + np.outer(k, b * (v - k @ S))"
TOKENS = {  # of one token
    "none": but(WRITE, WRITE),
    "decay after the write": but(DECAY, "", WRITE, f"S = a * ({WRITE[4:]})"),
    "error before the decay": but(DECAY, "", WRITE, WRITE.replace("S +", "a * S +")),
    "read before the write": but(DECAY, DECAY + "    out = q @ S\n", "return q @ S", "return out"),
}
CHUNKS = {  # of one chunk
    "A with its diagonal": but("k, k, G), -1)", "k, k, G))"),
    "G with a_j": but("for x in g.T], -1)", "for x in g.T], -1) * np.exp(g)"),
    "γ left out of the error": but("(since * k) @ S", "k @ S"),
}


def outputs(slip: str, parts: list[slice], q: Array, k: Array, v: Array, a: Array, b: Array) -> Array:
    """What the tokens read from a state of 0, in one call for each part."""
    S, rows = np.zeros((len(q[0]), len(v[0]))), []
    for part in parts:
        if slip in CHUNKS:
            g = np.repeat(np.log(a[part])[:, None], len(S), 1)  # the same in every channel
            out, S = CHUNKS[slip].apply(delta_chunk)(q[part], k[part], v[part], b[part], g, S)
            rows.extend(out)
        else:
            for t in range(part.start, part.stop):
                out, S = TOKENS[slip].apply(delta_step)(S, q[t], k[t], v[t], a[t], b[t])
                rows.append(out)
    return np.array(rows)


def passed() -> dict[str, list[bool]]:
    """For each slip whether it passes: without gates; with gates, in one call; with gates, in two calls."""
    rng = np.random.default_rng(25)
    q, k, v = rng.normal(size=(3, 12, 12))
    k /= np.linalg.norm(k, axis=1, keepdims=True)
    a, b, whole = rng.uniform(0.3, 0.9, 12), rng.uniform(0.2, 1, 12), [slice(0, 12)]
    tests = [(whole, np.ones(12)), (whole, a), ([slice(0, 5), slice(5, 12)], a)]
    return {slip: [np.allclose(outputs(slip, parts, q, k, v, gates, b), outputs("none", whole, q, k, v, gates, b))
                   for parts, gates in tests] for slip in (*TOKENS, *CHUNKS)}  # fmt: skip
