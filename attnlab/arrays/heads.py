"""A few heads at a time: on a CPU the tiles of all heads that are worked on together shall stay in a shared cache."""

import functools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from attnlab.call import Array, Inputs, Rules, Sizes

ELEMENTS = 2**21
"""Scores of one tile, over all heads: 8 MiB in float32."""


def few_heads(loops: Callable) -> Callable:
    """As a decorator of a core or its gradient in NumPy or PyTorch: called for a few batch elements or heads at a time.

    Not where heads depend on each other: dropout numbers them, and the gradient of a bias may be a sum over them.
    """

    @functools.wraps(loops)
    def wrapped(rules: Rules, sizes: Sizes, x: Inputs, *rest: Array | bool) -> tuple[Array, ...]:
        *heads, g = x.query.shape[:-2]  # under vmap one more than in rules
        side = 512 if x.query_segments is None else 256  # as in geometry.tile_sizes
        tile = min(rules.band.n * g, side) * min(rules.band.m, side)
        most = max(ELEMENTS // max(tile, 1), 1)
        together = x.bias is not None or x.seed is not None or str(x.query.device) != "cpu"
        if together or math.prod(heads) <= most:
            return loops(rules, sizes, x, *rest)
        axis = next(a for a, size in enumerate(heads) if size > 1)
        step = max(most // math.prod(heads[axis + 1 :]), 1)
        step = math.ceil(heads[axis] / math.ceil(heads[axis] / step))  # parts of one size
        whole = []
        for start in range(0, heads[axis], step):
            part = slice(start, min(start + step, heads[axis]))
            fewer = replace(rules, heads=(*heads[:axis], part.stop - start, *heads[axis + 1 :], g))
            x_part = Inputs(*(cut(y, axis, part) for y in x))
            results = wrapped(fewer, sizes, x_part, *(cut(y, axis, part) for y in rest))
            whole = whole or [_empty(y, axis, heads[axis]) for y in results]
            for y, result in zip(whole, results):
                cut(y, axis, part)[...] = result
        return tuple(whole)

    return wrapped


def cut(y: Any, axis: int, part: slice) -> Any:
    """A part of an array along a leading axis; an axis of size 1 serves all, and what is no array stays as it is."""
    return y[(slice(None),) * axis + (part,)] if getattr(y, "shape", ()) and y.shape[axis] > 1 else y


def _empty(y: Array, axis: int, size: int) -> Array:
    """Room for the results of all parts, of which y is one."""
    shape = (*y.shape[:axis], size, *y.shape[axis + 1 :])
    return y.new_empty(shape) if hasattr(y, "new_empty") else type(y)(shape, y.dtype)
