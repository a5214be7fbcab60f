"""One forward pass of a ragged batch over pages, in NumPy."""

from typing import Any

import attnlab
from attnlab.core.arrays.numpy import Array
from attnlab.core.shapes import Float
from attnlab.paged import PagedCache, paged_attention
from attnlab_course.model import Model
from attnlab_course.serve.runner import Batch, flatten_group, split_group

import numpy as np

Query = Float[Array, "Hq T D"]
Key = Float[Array, "Hk T D"]


def forward(model: Model, caches: list[PagedCache], batch: Batch) -> tuple[Array, list[PagedCache]]:
    """Logits (rows, vocabulary) after each chunk and each of its guesses, and the caches with all new keys."""
    tables = [caches[0].tables(group.names) for group in batch.groups]

    def attend(layer: int, query: Query, key: Key, value: Key) -> Any:
        query, key = (attnlab.rotary(x, batch.positions) for x in (query, key))
        cache = caches[layer].copy(batch.copies).write(batch.slots, key, value)
        pages = cache.key_pages, cache.value_pages
        parts = [
            paged_attention(split_group(query, group), *pages, *table, return_lse=True)
            for group, table in zip(batch.groups, tables)
        ]
        out, lse = (np.concatenate([flatten_group(x) for x in each], 1) for each in zip(*parts))
        return (out, lse) if model.config.sink else out

    return model.logits(batch.tokens, attend)[batch.last], caches
