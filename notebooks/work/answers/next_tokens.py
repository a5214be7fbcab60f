"""A right answer to next_tokens, lesson 20, kept by the checker: delete it as you like."""

from __future__ import annotations
from attnlab_course.serve.sampling import uniform as uniform
import numpy as np


def next_tokens(chances, seeds, positions):
    """One token per row of ``chances`` (B, V), each summing to 1; request b draws with uniform(seed, 0, position)."""
    ### BEGIN SOLUTION
    tokens = []
    for p, seed, position in zip(chances, seeds, positions):
        u = uniform(seed, 0, position)
        tokens.append(int(np.searchsorted(np.cumsum(p), u, side="right")))  # eq. 20.4
    return tokens
    ### END SOLUTION
