"""The transformer in NumPy."""

from collections.abc import Callable
from typing import Any

from attnlab.core.arrays.numpy import Array
from attnlab.core.shapes import Float, Integer
from attnlab_course.model import decoder
from attnlab_course.model.config import Config

import numpy as np

__all__ = ["logits"]


def logits(
    config: Config, parameters: dict[str, Array], tokens: Integer[Array, "*batch N"], attend: Callable
) -> Float[Array, "*batch N vocabulary"]:
    """See :meth:`attnlab_course.model.Model.logits`."""
    return decoder.logits(np, config, parameters, tokens, attend)


def positions(x: Array, start: Any) -> Array:
    """The positions of x's rows (..., N, D), from ``start`` on."""
    return start + np.arange(x.shape[-2])


def integers(x: Any, like: Array) -> Array:
    """Tokens as an array."""
    return np.asarray(x)


def array(x: Array) -> Array:
    """A parameter, of a NumPy array."""
    return x
