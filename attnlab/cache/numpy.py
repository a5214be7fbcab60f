"""Caches in NumPy: the steps are those of in_place.py."""

from typing import Any

import numpy as np
from numpy import ndarray as Array

from attnlab.cache.checks import check_known_rows
from attnlab.cache.in_place import InPlace, cut_to, values_of_latent
from attnlab.core.arrays import numpy as arrays
from attnlab.softmax.numpy import merge
from attnlab.tiled.numpy import tiled_attention

__all__ = ["cut_to", "empty_slots", "extend", "positions", "roll", "select_rows", "values_of_latent"]

STEPS = InPlace(
    lambda count, like: np.arange(count), lambda x, dtype: x.astype(dtype, copy=False), np.stack, np.where, arrays,
    merge, tiled_attention.core,
)  # fmt: skip
extend, roll, positions = arrays.quiet(STEPS.extend), arrays.quiet(STEPS.roll), STEPS.positions


def empty_slots(like: Array, dtype: str, keys: tuple[int, ...], values: tuple[int, ...]) -> tuple[Array, Array, int]:
    """Empty slots of these shapes, and the length 0."""
    return np.zeros(keys, dtype), np.zeros(values, dtype), 0


def select_rows(x: Array, rows: Any) -> Array:
    """Rows of the first axis, copied."""
    check_known_rows(rows.tolist(), len(x))
    return x[rows.astype(np.intp)]
