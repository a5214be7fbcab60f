"""One forward pass of a ragged batch over pages, in JAX: one compiled program for each power of two up to the budget.

Every token is a sequence of its own here, of one query and position + 1 keys, so that the lengths of chunks are no
shapes. The batch is padded by repeating its last token, which writes the same numbers into the same slots; tables are
as wide as the pool, as what is beyond a sequence's blocks is never looked at.
"""

import functools
from typing import Any

import attnlab
from attnlab.core.arrays.jax import Array
from attnlab.core.shapes import Float, Integer
from attnlab.paged import PagedCache, paged_attention
from attnlab.paged.jax import Pages, write
from attnlab_course.model import Config, Model
from attnlab_course.serve.runner import Batch

import jax
import numpy as np

Query = Float[Array, "Hq T D"]
Key = Float[Array, "Hk T D"]
Tokens = Integer[Array, " T"]


def forward(model: Model, caches: list[PagedCache], batch: Batch) -> tuple[np.ndarray, list[PagedCache]]:
    """Logits (rows, vocabulary) after each chunk and each of its guesses, and the caches with all new keys."""
    names = [name for group in batch.groups for name in group.names for _ in range(group.each)]
    filled = filled_up(len(names))
    manager = caches[0].manager
    table = np.zeros((len(filled), manager.blocks), np.int32)
    for entries, i in zip(table, filled):
        blocks = manager.table(names[i])
        entries[: len(blocks)] = blocks
    integers = (x[filled].astype(np.int32) for x in (batch.tokens, batch.positions, batch.slots))
    copies = [batch.copies[i] for i in filled_up(len(batch.copies))]
    copied = [cache.copy(copies) for cache in caches]
    pages = [(cache.key_pages, cache.value_pages) for cache in copied]
    logits, pages = step(model.config, model.parameters, pages, *integers, table)
    return np.asarray(logits)[batch.last], [PagedCache(*both, manager) for both in pages]


def filled_up(count: int) -> np.ndarray:
    """Indices 0 … count − 1, the last repeated up to a power of two."""
    return np.minimum(np.arange(1 << (count - 1).bit_length() if count else 0), count - 1)


@functools.partial(jax.jit, static_argnums=0, donate_argnums=2)
def step(
    config: Config, parameters: dict[str, Array], pages: list[tuple[Pages, Pages]], tokens: Tokens, positions: Tokens,
    slots: Tokens, table: Integer[Array, "T W"],
) -> tuple[Float[Array, "T vocabulary"], list[tuple[Pages, Pages]]]:
    """Logits after each token, and the pages, in the memory of those that came."""
    pages = list(pages)

    def attend(layer: int, query: Query, key: Key, value: Key) -> Any:
        query, key = (attnlab.rotary(x, positions) for x in (query, key))
        pages[layer] = tuple(write(old, slots, x.swapaxes(0, 1)) for old, x in zip(pages[layer], (key, value)))
        queries = query.swapaxes(0, 1)[:, :, None]
        out, lse = paged_attention(queries, *pages[layer], table, positions + 1, return_lse=True)
        out, lse = out[:, :, 0].swapaxes(0, 1), lse[:, :, 0].swapaxes(0, 1)
        return (out, lse) if config.sink else out

    return Model(config, parameters).logits(tokens, attend), pages
