"""Rotary positions: a vector is turned by angles that grow with its position, so that products see distances alone.

    (x_k, x_{k + D/2})  turned by  position · base^{−2k/D},   k < D/2
    rotary(q, i) · rotary(k, j)  depends on i − j, and on nothing else of i and j

The angle is a product of a large integer and an irrational number, taken modulo one turn; in float32 it would be wrong
by 0.01 at position 2²⁰. So it is reduced in integers: a frequency is a fraction of a turn in 64 bits, and a product
of integers that wraps is a product modulo one turn. Derived in notebook 16.
"""

import functools
from collections.abc import Mapping
from decimal import Decimal, localcontext
from typing import Any

from attnlab.core.arguments import (
    boolean, check_broadcast, check_float, check_kind, dtype_name, integer, kind_of, number,
)
from attnlab.core.dispatch import library_of, import_for_compiler
from attnlab.core.other_names import ends_at_call
from attnlab.core.signature import Array
from attnlab.rotation.scaling import PI, Kind, at_length, check_scaling, scaled

__all__ = ["rotary"]


@ends_at_call
def rotary(
    x: Array, positions: Any = None, *, base: float = 10000.0, scaling: Mapping[str, Any] | None = None,
    size: int | None = None, interleaved: bool = False,
) -> Array:
    """Rotate queries or keys by their positions: rotary position embedding.

    ``x``: (..., N, D) with D even, float16 to float64, NumPy, JAX or PyTorch; heads before tokens, as of (B, N, H, D)
    it would rotate heads. ``positions``: integers, by default
    0 … N − 1; one integer, or an array of x's library that broadcasts to (..., N). An array of more than one axis must
    have as many as x without its last, so positions for a batch are (B, 1, N). Dimension k is paired with k + D/2, as
    in Llama's code, or with ``interleaved`` 2k with 2k + 1, as in GPT-J's, and turned by position · base^(-2k/D)
    radians. ``size``: rotate the first ``size`` dimensions alone, D in all that is said here (partial rotation).
    ``scaling``: other frequencies for longer texts, in the words of a model's config.json: {"rope_type": "llama3",
    "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192};
    {"rope_type": "yarn", "factor", "original_max_position_embeddings"} and, if wanted, "beta_fast" (32), "beta_slow"
    (1), "truncate" (True), "attention_factor", "mscale", "mscale_all_dim"; {"rope_type": "linear", "factor"};
    {"rope_type": "longrope", "short_factor", "long_factor", "original_max_position_embeddings"} and "factor" (Phi-3's
    max_position_embeddings / original) or "attention_factor"; or {"rope_type": "dynamic", "factor",
    "original_max_position_embeddings"} (older configurations: their max_position_embeddings). YaRN and LongRoPE also
    multiply the result by an attention factor: 0.1 log factor + 1, sqrt(1 + log factor / log original). The last two
    follow the length of the text, the highest position + 1, and must be one for queries and the keys they meet: where
    keys were rotated before, positions are traced, or lengths change under torch.compile, give it as "length".

    Returns x's shape and dtype; differentiable by x. At every position that fits 32 bits an element errs by at most
    2e-6 · max |x| in float32 (times YaRN's factor). In JAX x and positions may be traced. Extra memory: a few arrays of
    x's size. Raises TypeError (dtypes, libraries), ValueError (odd D, shapes, a base that is not positive, a scaling
    that lacks a number or has one too many).
    Sources: Su et al. 2021, "RoFormer", section 3; Peng et al. 2023, "YaRN", section 3; Ding et al. 2024, "LongRoPE";
    the frequencies of Llama 3.1.
    """
    library = library_of("x", x)
    check_float("x", x)
    if x.ndim < 2 or (size is None and x.shape[-1] % 2):
        raise ValueError(f"x has shape {tuple(x.shape)}; it must be (..., N, D) with D even")
    size = x.shape[-1] if size is None else integer("size", size, 2)
    if size % 2 or size > x.shape[-1]:
        raise ValueError(f"size is {size}; it must be even, and at most x's last axis, {x.shape[-1]}")
    base, interleaved = number("base", base), boolean("interleaved", interleaved)
    if base <= 0:
        raise ValueError(f"base is {base}; it must be positive")
    if positions is not None:
        _check_positions(positions, x)
    scaling = at_length(check_scaling(scaling, size), lambda: _length(x, positions))
    kind = Kind(base, scaling, size, interleaved)
    return import_for_compiler(f"{__name__}.{library}").rotary(x, positions, kind)


def _check_positions(positions: Any, x: Any) -> None:
    """Refuse positions other than one integer, or integers of x's library that broadcast to x's rows."""
    if kind_of(positions) is None and not isinstance(positions, list | tuple):
        integer("positions", positions, -(2**31))
        return
    check_kind("positions", positions, kind_of(x))
    if not dtype_name(positions).startswith(("int", "uint")):
        raise TypeError(f"positions has dtype {dtype_name(positions)}; positions are integers")
    shape, rows = tuple(positions.shape), tuple(x.shape[:-1])
    if len(shape) > 1 and len(shape) != len(rows):
        raise ValueError(
            f"positions has shape {shape}; with x of shape {tuple(x.shape)} it must have one axis or "
            f"{len(rows)}: for a batch (B, 1, N), the same for all heads"
        )
    check_broadcast("positions", shape, rows, "(..., N)")


def _length(x: Any, positions: Any) -> int:
    """How long the text is: the highest position + 1."""
    if positions is None:
        return x.shape[-2]
    if kind_of(positions) is None:
        return positions + 1
    try:
        return int(positions.max()) + 1 if 0 not in positions.shape else 0
    except (TypeError, RuntimeError):  # traced, on the meta device, in vmap
        raise TypeError("positions has no numbers yet, and these frequencies follow the highest one; "
                        "give scaling['length'], the length of the text") from None  # fmt: skip


@functools.lru_cache
def frequencies(kind: Kind) -> tuple[int, ...]:
    """The frequency of each pair, as a fraction of a turn in units of 2^{−64}, modulo one turn."""
    with localcontext(prec=50):
        plain = [Decimal(kind.base) ** (Decimal(-2 * k) / kind.size) / (2 * PI) for k in range(kind.size // 2)]
        return tuple(round(turns * 2**64) % 2**64 for turns in scaled(plain, kind))
