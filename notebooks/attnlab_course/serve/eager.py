"""One forward pass of a ragged batch over pages, in NumPy and in PyTorch."""

import contextlib
from importlib import import_module
from typing import Any

import attnlab
from attnlab.core.dispatch import library_of
from attnlab.paged import PagedCache, paged_attention
from attnlab_course.model import Model
from attnlab_course.serve.runner import Batch, flatten_group, split_group

import numpy as np


def forward(model: Model, caches: list[PagedCache], batch: Batch) -> tuple[np.ndarray, list[PagedCache]]:
    """Logits (rows, vocabulary) after each chunk and each of its guesses, and the caches with all new keys."""
    library = library_of("the pages", pages := caches[0].key_pages)
    xp, tables = import_module(library), [caches[0].tables(group.names) for group in batch.groups]
    positions = xp.asarray(batch.positions, device=pages.device)

    def attend(layer: int, query: Any, key: Any, value: Any) -> Any:
        query, key = (attnlab.rotary(x, positions) for x in (query, key))
        cache = caches[layer].copy(batch.copies).write(batch.slots, key, value)
        parts = [
            paged_attention(split_group(query, group), cache.key_pages, cache.value_pages, *table, return_lse=True)
            for group, table in zip(batch.groups, tables)
        ]
        out, lse = (xp.concatenate([flatten_group(x) for x in each], 1) for each in zip(*parts))
        return (out, lse) if model.config.sink else out

    with contextlib.nullcontext() if library == "numpy" else xp.no_grad():
        logits = model.logits(batch.tokens, attend)[batch.last]
    if library == "torch":  # widened, as NumPy has no bfloat16
        logits = logits.to(xp.promote_types(logits.dtype, xp.float32)).numpy(force=True)
    return logits, caches
