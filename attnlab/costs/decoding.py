"""What a step of decoding costs: one query a head against a cache of keys, and what cuts leave of the cache."""

from dataclasses import replace

from attnlab.costs.cost import PassCost, check_sizes
from attnlab.costs.forward_pass import forward


def decoding(
    m: int, d: int, dv: int, *, heads: int, kv_heads: int | None = None, parts: int | None = None,
    block_k: int | None = None, latent: bool = False, itemsize: int = 2,
) -> PassCost:
    """Cost of one query in each of ``heads`` heads that sees m keys in each of ``kv_heads``, by default as many.

    The query heads of a group are the rows of a tile, so that keys and values are read once a group. ``parts`` None:
    one after the other, in tiles of ``block_k`` keys, by default one tile, which change the arithmetic alone.
    ``parts``: so many parts of the keys by themselves, each of which reads the query and leaves a summary, and those
    added up. ``latent``: the first dv numbers of a key are its value, and are read with it. A rolling cache has
    m = min(length, window + sinks) keys; two parts where its sinks meet a query of another rotation and the ring is
    not empty. Source: Dao et al. 2023, "Flash-Decoding for long-context inference".
    """
    check_sizes(1, heads=heads, kv_heads=kv_heads or heads)
    check_sizes(1, **{"heads / kv_heads": (group := heads // (kv_heads or heads))})
    one = forward("flash2", heads, m, d, dv, block_q=group, block_k=block_k or max(m, 1), itemsize=itemsize)
    if latent:
        one = replace(one, reads={name: count for name, count in one.reads.items() if name != "V"})
    if parts is None:
        return one
    rows, area = parts * heads, heads * m
    summaries = {"o_c": rows * dv, "l_c": rows, "m_c": rows}
    return PassCost(
        one.products, area + rows + heads, 4 * area + rows * (4 + 2 * dv) + heads * (dv + 1),
        one.reads | {"Q": rows * d} | summaries, one.writes | summaries, {}, itemsize,
    )  # fmt: skip


def cache_bytes(n: int, channels: int, *, window: int | None = None, bits: int = 16, group: int = 32) -> int:
    """Bytes that a layer's cache holds after n tokens at the most, and a step of decoding reads; whole ones.

    ``channels``: numbers of a token, Hk (D + Dv), or those of a latent. ``window``: how many tokens stay, None for
    all. ``bits``: of a number; below 16 each group of ``group`` numbers stores a step and the lowest in half precision
    as well, and the newest group - 1 tokens stay in full on top of the window, as their group isn't complete.
    Equation (24.10). Source: Liu et al. 2024, "KIVI".
    """
    check_sizes(n=n, channels=channels, bits=bits, group=group)
    full = min(group - 1, n) if bits < 16 else 0
    behind = n - full if window is None else min(window, n - full)
    overhead = 32 * channels * behind // group if bits < 16 else 0
    return -(-(16 * channels * full + bits * channels * behind + overhead) // 8)
