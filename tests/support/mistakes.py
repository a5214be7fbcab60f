"""Mistakes that people make, to show that the comparison finds them: a right function called wrong, or a wrong fold."""

import numpy as np

from tests.support.libraries import call

KEPT = np.float32(0.5)


def called(case, **changes):
    """(out, lse) of safe attention with some arguments changed; those that are None are left out."""
    given = {**case.arrays("numpy"), **case.options, **changes}
    return call("numpy", "safe", **{name: x for name, x in given.items() if x is not None})


def wide(case):
    """The arrays of a call in float32."""
    return {name: x.astype(np.float32) for name, x in case.arrays("numpy").items()}


def folded(case, alpha_l=None, alpha_o=None, shift=1):
    """The online fold of (m, l, o) over blocks of 4 keys; an alpha that is given takes the place of the right one."""
    query, key, value = case.arrays("numpy").values()
    m, l, o = np.full(query.shape[:-1], -np.inf, np.float32), np.float32(0), np.float32(0)
    for cols in (slice(0, 4), slice(4, 8), slice(8, None)):
        s = query @ key[..., cols, :].swapaxes(-1, -2) * np.float32(query.shape[-1] ** -0.5)
        m_next = np.maximum(m, s.max(-1))
        alpha, p = np.exp(m - m_next), np.exp(s - m_next[..., None])
        l = (alpha if alpha_l is None else alpha_l) * l + p.sum(-1)
        o = (alpha[..., None] if alpha_o is None else alpha_o) * o + p @ value[..., cols, :]
        m = m_next
    return o / l[..., None], np.log(l) + shift * m


MISTAKES = {  # a case on which it must show, and what it gives
    "no rescale when the maximum moves": ("4-D", lambda case: folded(case, alpha_o=1)),
    "sum not rescaled": ("4-D", lambda case: folded(case, alpha_l=1)),
    "lse without the maximum": ("4-D", lambda case: folded(case, shift=0)),
    "last ragged block dropped": ("3-D", lambda case: called(
        case, **{name: case.stored[name][..., :8, :] for name in ("key", "value")})),
    "causal mask aligned to the top left": ("causal with N < M", lambda case: called(case, offset=0)),
    "head h reads key head h % Hk": ("GQA, 2 heads of 4", lambda case: called(
        case, **{name: np.tile(case.stored[name], (1, 2, 1, 1)) for name in ("key", "value")})),
    "bias added before scaling": ("bias (7, 10)", lambda case: called(case, bias=case.stored["bias"] * KEPT)),
    "scale forgotten": ("4-D", lambda case: called(case, scale=1.0)),
    "a large negative number for −∞": ("rows that see nothing", lambda case: called(
        case, mask=None, bias=np.where(case.stored["mask"], 0, -1e9).astype(np.float32))),
    "window one key too wide": ("window 2", lambda case: called(case, window=3)),
    "offset ignored": ("offset -1, causal", lambda case: called(case, offset=None)),
    "segments ignored": ("segments, unsorted", lambda case: called(case, query_segments=None, key_segments=None)),
    "no division by 1 − p": ("dropout 0.5", lambda case: (KEPT * called(case)[0], called(case)[1])),
    "lse after dropout": ("dropout 0.5", lambda case: (called(case)[0], called(case)[1] + np.log(KEPT))),
    "out in float32": ("float16", lambda case: called(case, **wide(case))),
    "lse in float16": ("float16", lambda case: (called(case)[0], called(case)[1].astype(np.float16))),
}  # fmt: skip
