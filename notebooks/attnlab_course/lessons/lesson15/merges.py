"""Lesson 15: a merge of parts that isn't careful with empty ones."""

import numpy as np


def unguarded(outs: np.ndarray, lses: np.ndarray) -> np.ndarray:
    """Merge outs (S, Dv) of parts with natural lses (S,), one by one; NaN if the first two parts have no keys."""
    out, lse = outs[0], lses[0]
    for part, e in zip(outs[1:], lses[1:]):
        share = 1 / (1 + np.exp(lse - e))
        out, lse = (1 - share) * out + share * part, np.logaddexp(lse, e)
    return out
