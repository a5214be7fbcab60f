"""Closed forms of what each algorithm costs, in integers. So far: extra memory.

Elements of the accumulation dtype beyond inputs and output, for one key head (and its G query heads)
worked on at once. Measured against attnlab.measure in tests/test_memory.py.
"""

from attnlab.tiles import chunk_sizes, tile_sizes


def extra_elements(
    method: str, n: int, m: int, d: int, dv: int, *, group: int = 1, block_q: int | None = None,
    block_k: int | None = None, query_chunk_size: int | None = None, key_chunk_size: int | None = None,
) -> int:
    """Extra memory of the forward of ``method``, in elements: what the algorithm must hold, no slack.

    ``n``, ``m``: query and key length; ``d``, ``dv``: key and value size; ``group``: query heads a key
    head; block sizes None: the defaults. Raises KeyError for an unknown method.
    """
    block_q, block_k = tile_sizes(group, block_q, block_k)
    query_chunk, key_chunk = chunk_sizes(m, dv, query_chunk_size, key_chunk_size)
    rows, keys = group * min(block_q, n), min(block_k, m)
    chunk_rows, chunk_keys = group * min(query_chunk, n), min(key_chunk, m)
    whole = group * n * m
    one_key = group * n * (dv + 2)
    return {
        "naive": whole,
        "safe": whole,
        "lazy": one_key,
        "online": one_key,
        "chunked": chunk_rows * chunk_keys + chunk_rows * -(-m // chunk_keys) * (dv + 2),
        "tiled": rows * keys + rows * (2 * d + dv + 2) + keys * (d + dv),
    }[method]
