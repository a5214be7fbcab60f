"""Paged attention: the online fold over a cache that lies in blocks, read through a table.

:class:`BlockManager` says who holds which block, in integers.
Source: Kwon et al. 2023, "Efficient Memory Management for Large Language Model Serving with PagedAttention".
"""

from attnlab.paged.manager import BlockManager, OutOfBlocks

__all__ = ["BlockManager", "OutOfBlocks"]
