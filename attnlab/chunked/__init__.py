"""Chunked attention: chunks of keys summarized independently, then combined with one ⊕ over all.
Differs from online: a chunk of keys for a key, summarized by its own maximum, one ⊕ over all chunks.

    (m_c, l_c, o_c) = summary of chunk c,   m = max_c m_c,   o = Σ_c e^{m_c − m} o_c / Σ_c e^{m_c − m} l_c

Queries go chunk by chunk too, each written straight to its place in the output. The gradient
recomputes each query chunk and, in it, each summary. Derived in notebooks 05 and 06.
Extra memory: Cq·Ck + Cq·(M / Ck)·(Dv + 2).
"""

from typing import Any, Never, Unpack

from attnlab.core.dispatch import Array, dispatch, dispatches
from attnlab.core.signature import Options


@dispatches("query_chunk_size", "key_chunk_size")
def chunked_attention(query: Array, key: Array, value: Array, *more: Never, **options: Unpack[Options]) -> Any:
    """Attention by independent summaries of key chunks, as Rabe & Staats 2021 (sections 4 and 5) do it.

    Right for any finite scores and lengths. Extra memory, with Cq = query_chunk_size and Ck =
    key_chunk_size: Cq·Ck + Cq·(M / Ck)·(Dv + 2) elements (Cq times G = Hq / Hk rows); the gradient recomputes
    the summaries and holds at most three times that and N·D + M·(D + Dv). By default Cq = 256 and Ck is
    sqrt(M (Dv + 2)) to a power of two, where that sum is least. In NumPy each thread of a large call works on some of
    the heads, as in tiled_attention.
    """
    return dispatch(chunked_attention, (query, key, value, *more), options)
