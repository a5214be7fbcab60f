"""One forward pass of a ragged batch over pages, in PyTorch."""

from typing import Any

import attnlab
from attnlab.core.arrays.torch import Array
from attnlab.core.shapes import Float
from attnlab.paged import PagedCache, paged_attention
from attnlab_course.model import Model
from attnlab_course.serve.runner import Batch, flatten_group, split_group

import numpy as np
import torch

Query = Float[Array, "Hq T D"]
Key = Float[Array, "Hk T D"]


@torch.no_grad()
def forward(model: Model, caches: list[PagedCache], batch: Batch) -> tuple[np.ndarray, list[PagedCache]]:
    """Logits (rows, vocabulary) after each chunk and each of its guesses, and the caches with all new keys."""
    tables = [caches[0].tables(group.names) for group in batch.groups]
    positions = torch.from_numpy(batch.positions).to(caches[0].key_pages.device)

    def attend(layer: int, query: Query, key: Key, value: Key) -> Any:
        query, key = (attnlab.rotary(x, positions) for x in (query, key))
        cache = caches[layer].copy(batch.copies).write(batch.slots, key, value)
        pages = cache.key_pages, cache.value_pages
        parts = [
            paged_attention(split_group(query, group), *pages, *table, return_lse=True)
            for group, table in zip(batch.groups, tables)
        ]
        out, lse = (torch.cat([flatten_group(x) for x in each], 1) for each in zip(*parts))
        return (out, lse) if model.config.sink else out

    logits = model.logits(batch.tokens, attend)[batch.last]  # widened, as NumPy has no bfloat16
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).numpy(force=True), caches
