"""What a step of decoding costs: one query a head against a cache of keys."""

from attnlab.costs.cost import PassCost
from attnlab.costs.forward_pass import forward


def decoding(
    m: int, d: int, dv: int, *, heads: int, kv_heads: int | None = None, parts: int | None = None,
    block_k: int | None = None, itemsize: int = 2,
) -> PassCost:
    """Cost of one query in each of ``heads`` heads that sees m keys in each of ``kv_heads``, by default as many.

    The query heads of a group are the rows of a tile, so that keys and values are read once a group. ``parts`` None:
    one after the other, in tiles of ``block_k`` keys, by default one tile, which change the arithmetic alone.
    ``parts``: so many parts of the keys by themselves, each of which reads the query and leaves a summary, and those
    added up. A rolling cache has m = min(length, window + sinks) keys; two parts where its sinks meet a query of
    another rotation and the ring is not empty. Source: Dao et al. 2023, "Flash-Decoding for long-context inference".
    """
    group = heads // (kv_heads or heads)
    one = forward("flash2", heads, m, d, dv, block_q=group, block_k=block_k or max(m, 1), itemsize=itemsize)
    if parts is None:
        return one
    rows, area = parts * heads, heads * m
    summaries = {"o_c": rows * dv, "l_c": rows, "m_c": rows}
    return PassCost(
        one.products, area + rows + heads, 4 * area + rows * (4 + 2 * dv) + heads * (dv + 1),
        one.reads | {"Q": rows * d} | summaries, one.writes | summaries, {}, itemsize,
    )  # fmt: skip
