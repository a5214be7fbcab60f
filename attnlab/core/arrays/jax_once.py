"""Where JAX refuses a derivative of tiled attention, our error names safe_attention; JAX's own would speak of loops.

JAX has no hook for this. ``no_second_derivative`` is a primitive, x as it is in every respect but one: it is never
transposed.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

HINT = "tiled_attention has no {}; use safe_attention"

no_second_derivative_p = Primitive("once")
no_second_derivative_p.def_impl(lambda x: x)
no_second_derivative_p.def_abstract_eval(lambda x: x)
mlir.register_lowering(no_second_derivative_p, mlir.lower_fun(lambda x: x, multiple_results=False))
ad.deflinear2(no_second_derivative_p, lambda cotangent, x: _refuse())
batching.defvectorized(no_second_derivative_p)


def _refuse() -> None:
    raise NotImplementedError(HINT.format("second derivative in reverse mode"))


def no_second_derivative(gradients: Any) -> Any:
    """Give gradients, a pytree, no derivative of their own in reverse mode. Forward mode over them works."""
    return jax.tree.map(no_second_derivative_p.bind, gradients)


def backward_only(core: Callable) -> Callable:
    """Decorator of a core with a gradient of its own. Forward mode over it is a TypeError that names safe_attention."""

    @functools.wraps(core)
    def call(*args: Any) -> Any:
        try:
            return core(*args)
        except TypeError as error:
            if "forward-mode" not in str(error):
                raise
            raise TypeError(HINT.format("forward-mode derivative")) from error

    return call
