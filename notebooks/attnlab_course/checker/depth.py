"""Whether numbers are added one after another or in a tree, told by what rounding loses."""

from attnlab_course.checker.exercise import Function
from attnlab_course.checker.library import precise, to_library, to_numpy

import numpy as np

WEIGHT = 0.8 * 2.0**-53  # added to 1 it is lost: 1 + WEIGHT is 1 in float64


def lost(answer: Function, library: str) -> float:
    """The part of small weights that rounding loses: attention(query, key, value, 1) of one query over 256 keys.

    The key in the middle has weight 1 before normalizing and value 1, the others weight 0.8 · 2⁻⁵³ and value 0. A fold
    loses those after the middle; in a tree small sums meet first, and nearly all are kept.
    """
    chunks = 256
    key, value = np.full((chunks, 1), np.log(WEIGHT)), np.zeros((chunks, 1))
    key[chunks // 2], value[chunks // 2] = 0.0, 1.0
    with precise(library):
        found = to_numpy(answer(*to_library((np.ones((1, 1)), key, value, 1), library)))
    small = (chunks - 1) * WEIGHT
    return float((np.reshape(found, ()) - 1 / (1 + small)) / small)
