"""What a core takes: one call, checked, as core(rules, sizes, x).

    ...     any leading batch axes, or none; equal in query, key and value, never broadcast
    Hq, Hk  query heads, key/value heads; Hk divides Hq; absent in 2-D input, which is one head
    N, M    query length, key length
    D, Dv   size of a query or key, size of a value
    G       query heads that read one key head, Hq / Hk; head h reads key head h // G

``rules`` is what JAX compiles for, ``x`` holds the arrays. The checks themselves are in arguments.py. Array-free: one
file serves three libraries.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from attnlab.core.arguments import (
    boolean, check_arrays, check_bias, check_block_mask, check_dropout, check_mask, check_offset, check_segments,
    check_shapes, check_static, integer, kind_of, number,
)
from attnlab.core.geometry import TRACED, Band, BlockMask, gradient_tile_sizes, short_causal, tile_sizes


@dataclass(frozen=True)
class Rules:
    """What a call asks for, in plain numbers; hashable, so that JAX can treat it as static."""

    scale: float
    band: Band
    heads: tuple[int, ...]  # (*batch, Hk, G)
    dropout: float = 0.0
    lse: bool = True  # whether lse is asked for
    small: bool = False  # whether tiles are smaller, as many would be half hidden

    def tile_sizes(self, sizes: "Sizes", itemsize: int = 4, longest: int = 4096) -> tuple[int, int]:
        """Block sizes of the tiled algorithm; ``itemsize`` of the keys, ``longest`` tile of keys for one query."""
        return tile_sizes(self.heads, *sizes, band=self.band, itemsize=itemsize, longest=longest, small=self.small)

    def in_one_tile(self, sizes: "Sizes", x: "Inputs") -> bool:
        """Whether one small tile holds all scores, and hides at most a corner of them: no query is without a key."""
        n, m, few = self.band.n, self.band.m, 0 < self.band.n * self.band.m * math.prod(x.query.shape[:-2]) <= AT_ONCE
        one = n == 1 or max(n, m) <= (256 if self.small else 512)  # as in geometry.tile_sizes
        plain = x.mask is x.bias is x.query_segments is self.band.block_mask is None and self.dropout == 0
        allowed = few and one and plain and all(size is None or size >= max(n, m) for size in sizes)
        return allowed and self.band.meets_all(slice(0, n), slice(0, m))

    def gradient_tile_sizes(self, sizes: "Sizes") -> tuple[int, int]:
        """Block sizes of the tiled gradient."""
        return gradient_tile_sizes(self.heads, *sizes, small=self.small)


AT_ONCE = 2**19  # scores of a call that are worth no loop: 2 MiB in float32
Sizes = tuple[int | None, ...]  # block sizes in the order of the signature, None where the machine may choose


class Inputs(NamedTuple):
    """The arrays of a call, heads grouped: query (*batch, Hk, G, N, D), key (*batch, Hk, M, D), value likewise.

    For JAX a pytree, for PyTorch's autograd a flat tuple. ``seed`` is an integer, in JAX an array. ``offset`` is
    given in JAX alone, as an array: elsewhere ``rules.band`` knows it. In a ring it is both diagonals, (low, high).
    """

    query: Any
    key: Any
    value: Any
    mask: Any = None
    bias: Any = None
    seed: Any = None
    offset: Any = None
    query_segments: Any = None  # (*batch or 1, 1, 1, N or 1, 1)
    key_segments: Any = None  # (*batch or 1, 1, 1, 1, M or 1), so that == is the mask


def group(query: Any, key: Any, value: Any) -> tuple[Any, Any, Any]:
    """Check the three arrays and group their heads: (*batch, Hk, G, N, D), (*batch, Hk, M, D), (*batch, Hk, M, Dv).

    A 2-D array is one head. Every result is a view: splitting an axis copies nothing.
    """
    check_arrays(kind_of(query), query=query, key=key, value=value)
    check_shapes(tuple(query.shape), tuple(key.shape), tuple(value.shape))
    if query.ndim == 2:
        return query[None, None], key[None], value[None]
    (*batch, hq, n, d), hk = query.shape, key.shape[-3]
    return query.reshape((*batch, hk, hq // max(hk, 1) or 1, n, d)), key, value


def group_heads(x: Any, heads: tuple[int, ...]) -> Any:
    """A mask or bias with every axis present: (*batch or 1, Hk or 1, G or 1, N or 1, M or 1)."""
    shape = (1,) * (len(heads) + 1 - x.ndim) + tuple(x.shape)
    split = (1, 1) if shape[-3] == 1 else heads[-2:]
    return x.reshape((*shape[:-3], *split, *shape[-2:]))


def group_segments(x: Any, heads: tuple[int, ...]) -> Any:
    """Segments with every axis present: (*batch or 1, 1, 1, N or 1)."""
    shape = (1,) * (len(heads) - 1 - x.ndim) + tuple(x.shape)
    return x.reshape((*shape[:-1], 1, 1, shape[-1]))


def check_call(
    kind: str, query: Any, key: Any, value: Any, *, causal: Any = False, window: Any = None, offset: Any = None,
    mask: Any = None, bias: Any = None, segments: Any = None, scale: Any = None, dropout: Any = 0.0, seed: Any = None,
    block_mask: Any = None, lse: bool = True, **sizes: Any,
) -> tuple[Rules, Sizes, Inputs]:
    """Check one call. Returns what a core takes: rules, sizes, arrays with grouped heads."""
    x = Inputs(*group(query, key, value), seed=seed)
    check_static(causal=causal, window=window, scale=scale, dropout=dropout, **sizes)
    (*heads, n, d), m = x.query.shape, key.shape[-2]
    heads, shape = tuple(heads), (*query.shape[:-1], m)
    if mask is not None:
        check_mask(mask, query, shape)
        x = x._replace(mask=group_heads(mask, heads))
    if bias is not None:
        check_bias(bias, query, shape)
        x = x._replace(bias=group_heads(bias, heads))
    if segments is not None:
        of_queries, of_keys = (group_segments(s, heads) for s in check_segments(segments, query, n, m))
        x = x._replace(query_segments=of_queries[..., None], key_segments=of_keys[..., None, :])
    offset = check_offset(offset, kind)
    if kind == "jax" and offset is not None and (kind_of(offset) or -(2**31) <= offset < 2**31):
        x, offset = x._replace(offset=offset), TRACED  # data: one program serves all
    if kind == "jax" and offset is None and not all(isinstance(size, int) for size in (n, m)):  # symbols, in jax.export
        x, offset = x._replace(offset=m - n), TRACED
    band = Band.of(n, m, boolean("causal", causal), window, offset)
    small = segments is not None or (kind != "jax" and short_causal(band))  # XLA hardly shares small tiles out to cores
    p = check_dropout(dropout, seed, kind)
    scale = 1 / math.sqrt(max(d, 1)) if scale is None else number("scale", scale)
    sizes = {name: size if size is None else integer(name, size, 1) for name, size in sizes.items()}
    if block_mask is not None:
        tiles = check_block_mask(block_mask, n, m, **sizes)
        band = dataclasses.replace(band, block_mask=BlockMask(sizes["block_q"], sizes["block_k"], tiles))
    return Rules(scale, band, heads, p, lse, small), tuple(sizes.values()), x
