"""Extra memory, in elements of the accumulation dtype beyond inputs and output, and what fast memory must hold.

Extra memory is that of one key head (and its G query heads) worked on at once, by one definition for all six: the
state that outlives a step, and the largest temporary of a step. A scaled copy of Q counts, views don't, and what
becomes the output isn't extra. tests/attnlab/costs/test_costs.py and algorithms/test_memory.py measure it.
"""

from functools import partial

from attnlab.core.geometry import Band, chunk_sizes, gradient_tile_sizes, tile_sizes
from attnlab.costs.cost import check_sizes, of_method


def extra_elements(
    method: str, n: int, m: int, d: int, dv: int, *, group: int = 1, block_q: int | None = None,
    block_k: int | None = None, query_chunk_size: int | None = None, key_chunk_size: int | None = None,
    gradient: bool = False,
) -> int:
    """Extra memory of ``method``, in elements: the state that outlives a step and the largest temporary of a step.

    ``n``, ``m``: query and key length; ``d``, ``dv``: key and value size; ``group``: query heads a key
    head; block sizes None: the defaults. With ``gradient``, of forward and backward together, beyond the
    gradients themselves; lazy and online have no backward of their own and raise KeyError, as an unknown
    method does.
    """
    check_sizes(n=n, m=m, d=d, dv=dv)
    own = gradient_tile_sizes if gradient else partial(tile_sizes, band=Band.of(n, m))
    block_q, block_k = own((1, group), block_q, block_k)
    query_chunk, key_chunk = chunk_sizes(m, dv, query_chunk_size, key_chunk_size)
    rows, keys = group * min(block_q, n), min(block_k, m)
    chunk_rows, chunk_keys = group * min(query_chunk, n), min(key_chunk, m)
    whole = group * n * m  # S, which the weights overwrite
    one_key = group * n * (2 + dv)  # m and l; e^{s − m}·v of one key (o becomes the output)
    chunks = chunk_rows * (chunk_keys + -(-m // chunk_keys) * (dv + 2))  # S of a chunk; all summaries
    if gradient:
        statistics = 2 * group * n  # lse and Δ
        tiles = 2 * rows * keys + rows * (2 * d + dv) + 2 * keys * (d + dv)  # P and dP; Q, dQ, dO; K, V, dK, dV
        whole, chunks = 2 * whole, 2 * chunks  # a gradient beside each: P and dP; scores and summaries
        return of_method(method, {"naive": whole, "safe": whole, "chunked": chunks, "tiled": statistics + tiles})
    return of_method(method, {
        "naive": whole + group * n * d,  # the scaled Q
        "safe": whole + group * n * d,
        "lazy": one_key,
        "online": one_key,
        "chunked": chunks + chunk_rows * d,
        "tiled": rows * keys + rows * dv + rows * (d + dv + 2),  # S and P V of a tile; the scaled Q, o, l, m
    })  # fmt: skip


def on_chip_elements(method: str, block_q: int, block_k: int, d: int, dv: int, *, gradient: bool = False) -> int:
    """Elements that fast memory must hold for ``method`` ("flash" or "flash2") in blocks of these sizes.

    Forward of flash: K, V; Q, O; S, which P overwrites; l and m, those of the tile and the new ones. So with the
    paper's B_c = M / 4D and B_r = D an SRAM of M elements is enough only if M >= 8D² + 24D. Backward: also
    dK, dV, dO, dQ and a second tile of scores: K, V, dK and dV alone are then M, and B_c must be smaller.
    A tile of a mask comes on top, block_q·block_k bytes. Raises KeyError for an unknown method.
    """
    tiles, keys, queries = block_q * block_k, block_k * (d + dv), block_q * (d + dv)
    if gradient:
        return of_method(method, {
            "flash": 2 * tiles + 2 * keys + 2 * queries + 3 * block_q,
            "flash2": 2 * tiles + 2 * keys + queries + block_q * d + 2 * block_q,
        })  # fmt: skip
    held = tiles + keys + queries
    return of_method(method, {"flash": held + 6 * block_q, "flash2": held + 3 * block_q})


def training_bytes(method: str, n: int, d: int, heads: int) -> int:
    """Bytes of ``heads`` heads at N = M = n and D = Dv = d in half precision, forward and backward.

    "standard": 4N² + 10ND elements of 2 bytes. "flash": 13ND of those, 11ND up to N = 256, and 2N of 4 bytes. These
    reproduce every entry of Table 21 of Dao et al. 2022 to rounding: found by fitting it, not derived.
    """
    flash = 2 * (11 if n <= 256 else 13) * n * d + 4 * 2 * n
    return heads * of_method(method, {"standard": 2 * (4 * n * n + 10 * n * d), "flash": flash})
