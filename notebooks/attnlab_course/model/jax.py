"""The transformer in JAX: its parameters are a dictionary, so a pytree; it can be jitted and differentiated."""

from collections.abc import Callable
from typing import Any

from attnlab.core.arrays.jax import Array
from attnlab.core.shapes import Float, Integer
from attnlab_course.model import decoder
from attnlab_course.model.config import Config

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["logits"]


def logits(
    config: Config, parameters: dict[str, Array], tokens: Integer[Array, "*batch N"], attend: Callable
) -> Float[Array, "*batch N vocabulary"]:
    """See :meth:`attnlab_course.model.Model.logits`."""
    return decoder.logits(jnp, config, parameters, tokens, attend)


def positions(x: Array, start: Any) -> Array:
    """The positions of x's rows (..., N, D), from ``start`` on."""
    return start + jnp.arange(x.shape[-2])


def integers(x: Any, like: Array) -> Array:
    """Tokens as an array."""
    return jnp.asarray(x)


def array(x: np.ndarray) -> Array:
    """A parameter, of a NumPy array."""
    if x.dtype == np.float64 and not jax.config.jax_enable_x64:
        raise ValueError("dtype is 'float64'; JAX keeps it only where jax_enable_x64 is set")
    return jnp.asarray(x)
