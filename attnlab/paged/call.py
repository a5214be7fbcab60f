"""What a call of paged attention accepts: checks, options, grouping of heads. Array-free."""

import math
from typing import Any, Literal, NamedTuple, overload

from attnlab.core.arguments import (
    boolean, check_arrays, check_choice, check_device, check_kind, check_static, dtype_name, integer, number,
    window_sides,
)
from attnlab.core.dispatch import backend, in_autocast, library_of, refuse_gradient, untraced
from attnlab.core.geometry import Band, tile_sizes
from attnlab.core.signature import Array, Window

import numpy as np

TILE = 512
"""About how many keys are gathered at a time: as many whole pages as fit, at least one. For one query in PyTorch it's
twice as many, because there each operation waits for all threads."""
LONGEST = 2048
"""Keys of a tile for one query, which has few scores: NumPy gathers them one part after the other."""
LARGE = 128
"""In NumPy one query reads a page in place if it has at least so many keys; for more queries copies cost little."""

Layout = Literal["heads", "tokens"]
LAYOUTS = {
    "heads": "layout='heads' reads (P, Hk, S, D); if yours are (P, S, Hk, D), give layout='tokens'",
    "tokens": "layout='tokens' reads (P, S, Hk, D); if yours are (P, Hk, S, D), give layout='heads'",
}
"""How pages lie, and what an error says of it."""


class PagedOptions(NamedTuple):
    """What a call asks for besides arrays; static in JAX. ``left``: how many keys before its own a query sees.

    A tile has ``rows`` queries and ``keys`` keys, in PyTorch those of the gathered pages. ``pages``: how many are
    gathered at a time; 1 reads a page in place, without a copy.
    """

    scale: float
    left: int | None
    rows: int
    keys: int
    pages: int


class PagedInputs(NamedTuple):
    """The arrays of a call, query with its heads grouped: (B, Hk, G, N, D)."""

    query: Any
    key_pages: Any
    value_pages: Any
    block_table: Any
    lengths: Any


@overload
def paged_attention(
    query: Array, key_pages: Array, value_pages: Array, block_table: Any, lengths: Any, *, layout: Layout = "heads",
    window: Window = None, scale: float | None = None, return_lse: Literal[False] = False,
) -> Array: ...
@overload
def paged_attention(
    query: Array, key_pages: Array, value_pages: Array, block_table: Any, lengths: Any, *, layout: Layout = "heads",
    window: Window = None, scale: float | None = None, return_lse: Literal[True],
) -> tuple[Array, Array]: ...
@untraced
def paged_attention(
    query: Any, key_pages: Any, value_pages: Any, block_table: Any, lengths: Any, *, layout: Layout = "heads",
    window: Window = None, scale: float | None = None, return_lse: bool = False,
) -> Any:
    """Attention of the newest queries of some sequences over their keys, which lie in pages.

    ``query`` (B, Hq, N, D): the newest N tokens of each sequence. ``key_pages`` (P, Hk, S, D), ``value_pages``
    (P, Hk, S, Dv), of query's dtype; query head h reads key head h // (Hq / Hk). That is ``layout="heads"``, heads
    before tokens; "tokens" before heads are (P, S, Hk, D) and (P, S, Hk, Dv), as vLLM and flash-attn have them: where
    both would fit nothing can tell them apart. ``block_table`` (B, T): the pages of each sequence in order; entries
    beyond its ⌈length / S⌉ pages may be anything. ``lengths`` (B,): tokens of each sequence, the new ones among them.
    Both are integers, arrays of query's library; in JAX they may be traced.
    Query i of sequence b sees j <= lengths[b] - N + i, with ``window`` (left, right) also
    j >= lengths[b] - N + i - left. ``scale``: 1 / sqrt(D) by default.

    Returns out (B, Hq, N, Dv) in query's dtype, or (out, lse) with lse (B, Hq, N) in float32 (float64 for float64
    input). A query that sees no key, as in a sequence of length 0, gives 0 and -inf. There is no gradient, and an error
    where one is asked for, in PyTorch NotImplementedError. There torch.compile leaves the call alone and refuses it
    with fullgraph=True; under autocast pages of another dtype are copied. Extra memory: one
    tile of about 512 keys (in PyTorch 1024 for one query) and of at most 512 queries, never the keys of a whole
    sequence. For one query NumPy does not copy pages of 128 keys or more. NumPy and PyTorch first copy pages that are
    not contiguous. In PyTorch on a GPU a Triton kernel runs where it serves (float16, bfloat16, float32; heads up to
    256) and copies nothing; only the check of the table's entries waits for the GPU.
    Raises TypeError (libraries, dtypes) or ValueError (shapes; a length beyond T · S, an entry that names no page),
    naming the argument. In JAX, where lengths are traced, the rows of a sequence that is too long are NaN.
    """
    kind = library_of("query", query)
    arrays = {"query": query, "key_pages": key_pages, "value_pages": value_pages}
    refuse_gradient("paged_attention", "tiled_attention over keys that are gathered", **arrays)
    query, key_pages, value_pages = in_autocast(*arrays.values())
    check_choice("layout", layout, LAYOUTS)
    check_static(window=window, scale=scale, return_lse=return_lse)
    return_lse = boolean("return_lse", return_lse)
    check_arrays(kind, query=query, key_pages=key_pages, value_pages=value_pages)
    for name, x in (("block_table", block_table), ("lengths", lengths)):
        check_kind(name, x, kind)
        if not dtype_name(x).startswith(("int", "uint")):
            raise TypeError(f"{name} has dtype {dtype_name(x)}; it must be an integer dtype")
        check_device(name, x, query)
    if layout == "tokens" and key_pages.ndim == value_pages.ndim == 4:
        key_pages, value_pages = (pages.swapaxes(1, 2) for pages in (key_pages, value_pages))
    _check_shapes(layout, *(tuple(x.shape) for x in (query, key_pages, value_pages, block_table, lengths)))
    (b, hq, n, d), (_, hk, size, dv) = query.shape, value_pages.shape
    scale = 1 / math.sqrt(max(d, 1)) if scale is None else number("scale", scale)
    left, at_once = window_sides(window)[0], 2 * TILE if n == 1 and kind == "torch" else TILE
    pages = 1 if n == 1 and size >= LARGE and kind == "numpy" else max(at_once // size, 1)
    rows, keys = tile_sizes((hk, hq // hk), None, None, band=Band(n, n, left), longest=LONGEST)
    keys = pages * size * (1 if kind == "torch" else max(keys // (pages * size), 1))  # whole parts
    options = PagedOptions(scale, left, rows, keys, pages)
    module = backend("query", query, "attnlab.paged")
    _check_values(layout, module.numpy_if_known(block_table), module.numpy_if_known(lengths), key_pages.shape[0], size)
    x = PagedInputs(query.reshape((b, hk, hq // hk, n, d)), key_pages, value_pages, block_table, lengths)
    out, lse = module.paged_attention(options, x)
    out, lse = out.reshape((b, hq, n, dv)), lse.reshape((b, hq, n))
    return (out, lse) if return_lse else out


def visible_keys(band: Band, rows: slice, cols: slice) -> slice:
    """The keys of a tile that any of its queries sees. The others may hold NaN, and aren't read."""
    first, last = band.keys(rows)
    return slice(max(first, cols.start), min(last, cols.stop))


def _check_shapes(
    layout: str, query: tuple, key_pages: tuple, value_pages: tuple, block_table: tuple, lengths: tuple
) -> None:
    for name, shape in (("query", query), ("key_pages", key_pages), ("value_pages", value_pages)):
        if len(shape) != 4:
            legend = "it must be (B, Hq, N, D)" if name == "query" else LAYOUTS[layout]
            raise ValueError(f"{name} has shape {shape}; {legend}")
    if value_pages[:3] != key_pages[:3]:
        pages, hk, size = key_pages[:3]
        raise ValueError(
            f"value_pages has {value_pages[0]} pages of {value_pages[2]} tokens and {value_pages[1]} heads, key_pages "
            f"has {pages} of {size} and {hk}; all three must be equal"
        )
    if key_pages[-1] != query[-1]:
        raise ValueError(f"key_pages has size {key_pages[-1]}, query has {query[-1]}; the last axis of both is D")
    if not key_pages[1] or query[1] % key_pages[1]:
        heads = f"key_pages has {key_pages[1]} heads, which does not divide query's {query[1]}"
        raise ValueError(f"{heads}; {LAYOUTS[layout]}")
    integer("S, the tokens of a page,", key_pages[2], 1)
    if len(block_table) != 2 or block_table[0] != query[0]:
        raise ValueError(f"block_table has shape {block_table}; with {query[0]} sequences it must be ({query[0]}, T)")
    if lengths != query[:1]:
        raise ValueError(f"lengths has shape {lengths}; with {query[0]} sequences it must be ({query[0]},)")


def _check_values(layout: str, table: np.ndarray | None, lengths: np.ndarray | None, pages: int, size: int) -> None:
    """Lengths between 0 and T · S, entries that are used between 0 and P − 1, wherever they are known."""
    if lengths is None or table is None:
        return
    capacity = table.shape[1] * size
    for b in np.flatnonzero((lengths < 0) | (lengths > capacity))[:1]:
        given = f"lengths[{b}] is {lengths[b]}; it must be between 0 and T · S = {capacity}"
        raise ValueError(f"{given}; {LAYOUTS[layout]}")
    wrong = (table < 0) | (table >= pages)
    if wrong.any():  # entries that no sequence uses may be
        wrong &= np.arange(table.shape[1]) * size < lengths[:, None]
    for b, t in np.argwhere(wrong)[:1] if wrong.any() else ():
        raise ValueError(f"block_table[{b}, {t}] is {table[b, t]}; there are {pages} pages, counted from 0")
