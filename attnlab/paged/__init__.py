"""Paged attention: the online fold over a cache that lies in blocks, read through a table.

    token t of a sequence lies in page table[t // S], at place t % S
    out_i = Σ_j p_ij v_j  over j ≤ length − N + i:  a sum, which has no order and does not ask where its terms lie

So a sequence takes blocks of S tokens as it grows: nothing is reserved, at most S − 1 slots of its last block are
empty, and sequences with a common beginning may hold the same blocks.

    BlockManager, OutOfBlocks     who holds which block, in integers: tables, reference counts, copy-on-write, prefixes
    GroupedManager                one for each kind of layers: those with a window give blocks back
    paged_attention               tiled attention whose tile of keys is gathered page by page
    PagedCache                    pages with their manager
    page_bounds                   of each page a box around its keys, by which a query picks the pages that it reads

For inference: nothing here has a gradient. Derived in notebooks 19 and 24.
Source: Kwon et al. 2023, "Efficient Memory Management for Large Language Model Serving with PagedAttention".
"""

from attnlab.core.other_names import errors_end_at_calls
from attnlab.paged.bounds import page_bounds
from attnlab.paged.cache import PagedCache
from attnlab.paged.call import paged_attention
from attnlab.paged.groups import GroupedManager
from attnlab.paged.manager import Appended, BlockManager, OutOfBlocks

__all__ = ["Appended", "BlockManager", "GroupedManager", "OutOfBlocks", "PagedCache", "page_bounds", "paged_attention"]

errors_end_at_calls(__name__)
