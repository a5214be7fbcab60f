"""Arrays in JAX: the annotations of every core, the accumulation dtype, products of grouped heads."""

import functools
import math
from collections.abc import Callable
from typing import Any

from attnlab.core.bundle import Inputs, Rules, Sizes
from attnlab.core.dispatch import library_missing
from attnlab.core.shapes import Bool, Float, UInt32

try:
    import jax
    import jax.numpy as jnp
    from jax import Array
except ModuleNotFoundError as error:
    raise library_missing("jax") from error

Query = Float[Array, "*batch Hk G N D"]
Key = Float[Array, "*batch Hk M D"]
Value = Float[Array, "*batch Hk M Dv"]
Mask = Bool[Array, "*#batch #Hk #G #N #M"] | None
Bias = Float[Array, "*#batch #Hk #G #N #M"] | None
Seed = UInt32[Array, ""] | None
Out = Float[Array, "*batch Hk G N Dv"]
Lse = Float[Array, "*batch Hk G N"]

Rows = Float[Array, "*batch Hk G R D"]
Keys = Float[Array, "*batch Hk C D"]
Values = Float[Array, "*batch Hk C Dv"]
Tile = Float[Array, "*batch Hk G R C"]
Shift = Float[Array, "*#batch #Hk #G #R #C"] | None

einsum = functools.partial(jnp.einsum, precision="highest")
"""By default a GPU or TPU rounds float32 factors to TF32 or bfloat16."""


def matmul(a: Float[Array, "*batch Hk G R X"], b: Float[Array, "*batch Hk X Y"]) -> Float[Array, "*batch Hk G R Y"]:
    """a @ b for every query head: the G heads of a group are rows of one product, so K is never repeated.

    Rows on one axis, not two: where one of the two has size 1, as for one query, XLA's program for a CPU takes twice
    as long.
    """
    return _product("...rc,...cx->...rx", a, b, b.shape[-1])


def matmul_transposed(
    a: Float[Array, "*batch Hk G R X"], b: Float[Array, "*batch Hk Y X"]
) -> Float[Array, "*batch Hk G R Y"]:
    """a @ bᵀ for every query head. Given b.mT instead, XLA would copy it."""
    return _product("...rx,...cx->...rc", a, b, b.shape[-2])


def _product(axes: str, a: Array, b: Array, size: int) -> Array:
    *heads, g, r, x = a.shape
    product = einsum(axes, a.reshape((*heads, g * r, x)), b, preferred_element_type=accumulator(a))
    return product.reshape((*heads, g, r, size))


FEW = 32
"""Up to so many rows a product takes as long as reading its second factor: a few more cost nothing."""


def scaled(q: Rows, scale: float) -> tuple[Rows, float]:
    """(q', factor), so that factor · q' is the scaled q in the accumulation dtype.

    bfloat16 stays, scaled by a power of two, which rounds nothing: its products are accumulated in float32 as they
    are, and XLA's program for a CPU takes several times as long to widen keys.
    """
    if q.dtype != jnp.bfloat16:
        return scale * q.astype(accumulator(q)), 1.0
    power = 2.0 ** min(max(math.frexp(scale)[1], -64), 64)
    return q * power, scale / power


def weigh(p: Tile, v: Values) -> Rows:
    """p @ v in p's dtype. For values that stay bfloat16 p is rounded, too; for few rows its rounding error is added."""
    if v.dtype == p.dtype:
        return matmul(p, v)
    high = p.astype(v.dtype)
    if math.prod(p.shape[-3:-1]) > FEW:
        return matmul(high, v)
    low = (p - high.astype(p.dtype)).astype(v.dtype)
    return sum(jnp.split(matmul(jnp.concatenate([high, low], -2), v), 2, -2))


def compiled(core: Callable) -> Callable:
    """Decorator of a core: compiled once for given shapes, rules and block sizes, whatever the arrays, seed and offset.

    With no query, or no key to see, nothing is left to compute.
    """
    @functools.partial(jax.jit, static_argnums=(0, 1))
    @functools.wraps(core)
    def compiled_core(rules: Rules, sizes: Sizes, x: Inputs) -> tuple[Out, Lse]:
        return core(rules, sizes, vary_over_same_axes(x))

    @functools.wraps(core)
    def call(rules: Rules, sizes: Sizes, x: Inputs) -> tuple[Out, Lse]:
        rows, dv = x.query.shape[:-1], x.value.shape[-1]
        if 0 in (*rows, x.key.shape[-2]):
            return jnp.zeros((*rows, dv), x.query.dtype), jnp.full(rows, -jnp.inf, accumulator(x.query))
        if x.query.shape[-1] == 0:  # a column of zeros leaves every score 0, and XLA something to index
            x = x._replace(query=jnp.zeros_like(x.query, shape=(*rows, 1)),
                           key=jnp.zeros_like(x.key, shape=(*x.key.shape[:-1], 1)))  # fmt: skip
        return compiled_core(rules, sizes, as_data(x))

    return call


def computed_again(function: Callable, again: Callable) -> Callable:
    """``function(static, *arrays)`` compiled, with the gradient of ``again``, which computes the same once more."""

    def backward(static: Any, arrays: tuple, grads: Any) -> tuple:
        return jax.vjp(functools.partial(again, static), *arrays)[1](grads)

    own = jax.custom_vjp(function, nondiff_argnums=(0,))
    own.defvjp(lambda static, *arrays: (own(static, *arrays), arrays), backward)
    return jax.jit(own, static_argnums=0)


def as_data(x: Inputs) -> Inputs:
    """The seed and the offset as arrays: one compiled program serves all."""
    x = x if x.seed is None else x._replace(seed=jnp.uint32(x.seed))
    return x if x.offset is None else x._replace(offset=jnp.asarray(x.offset, jnp.int32))


def vary_over_same_axes(x: Any) -> Any:
    """Make all arrays of a pytree vary over the same mesh axes, those over which any of them varies; for shard_map.

    There the carry of a loop must begin as it ends: cores make theirs of the query, by zeros_like. And a replicated
    query's gradient is summed over the devices.
    """
    axes = frozenset().union(*map(varying, jax.tree.leaves(x)))

    def cast(leaf: Array) -> Array:
        not_varying = tuple(axes - varying(leaf))
        return jax.lax.pcast(leaf, not_varying, to="varying") if not_varying else leaf

    return jax.tree.map(cast, x)


def varying(x: Array) -> frozenset:
    """The mesh axes over which x varies in shard_map: JAX 0.10 keeps them elsewhere than 0.9."""
    kind = jax.typeof(x)
    return kind.mat.varying if hasattr(kind, "mat") else kind.vma


def zeros(x: Float[Array, "*rows n"], size: int, dtype: Any = None) -> Float[Array, "*rows size"]:
    """Zeros (*rows of x, size), sharded as x: where a mesh has Explicit axes, zeros_like of another shape is not."""
    return jnp.broadcast_to(jnp.zeros_like(x[..., :1], dtype), (*x.shape[:-1], size))


def accumulator(x: Array) -> type:
    """The dtype of m, l and o: float64 for float64, float32 for everything else."""
    return jnp.float64 if x.dtype == jnp.float64 else jnp.float32


def anywhere(x: Bool[Array, "..."], axes: int | tuple[int, ...] | None = None) -> Bool[Array, "..."]:
    """x.any(axes), as a maximum of bytes, which a CPU finds faster."""
    return x.astype(jnp.uint8).max(axes).astype(bool)
