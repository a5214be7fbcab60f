"""The model over pages: a plan becomes one ragged batch, and the batch one forward pass."""

from importlib import import_module
from itertools import groupby
from typing import Any, NamedTuple

from attnlab.core.dispatch import backend, library_of
from attnlab.paged import BlockManager, PagedCache
from attnlab_course.model import FIRST, Model
from attnlab_course.serve.request import Sequence
from attnlab_course.serve.scheduler import Plan

import numpy as np

Array = np.ndarray


class Group(NamedTuple):
    """Chunks of one length, that of ``each``, of sequences ``names``: the tokens ``rows`` of the batch."""

    names: list[Sequence]
    each: int
    rows: slice


class Batch(NamedTuple):
    """The tokens of a plan in one row, whosever they are: only attention asks.

    ``tokens``, ``positions``, ``slots``: (T,). ``last``: of each chunk of the plan its last token but its guesses, and
    the guesses. ``copies``: of blocks, done first. ``groups``: those that attention takes together, in order.
    """

    tokens: Array
    positions: Array
    slots: Array
    last: Array
    copies: list[tuple[int, int]]
    groups: list[Group]


def batch(plan: Plan) -> Batch:
    """The batch of a plan: chunks sorted by length, so that all decoding sequences stand together."""
    order = sorted(range(len(plan.chunks)), key=lambda i: len(plan.chunks[i].tokens))
    chunks, groups = [plan.chunks[i] for i in order], list[Group]()
    for each, equal in groupby(chunks, lambda chunk: len(chunk.tokens)):
        names, start = [chunk.sequence for chunk in equal], groups[-1].rows.stop if groups else 0
        groups.append(Group(names, each, slice(start, start + each * len(names))))
    integers = (
        np.concatenate(x) for x in (
            [chunk.tokens for chunk in chunks],
            [np.arange(chunk.start, chunk.start + len(chunk.tokens)) for chunk in chunks],
            [chunk.slots for chunk in chunks],
        )
    )  # fmt: skip
    ends = np.cumsum([len(chunk.tokens) for chunk in chunks])[np.argsort(order)]
    last = np.concatenate([np.arange(end - 1 - len(c.guess), end) for end, c in zip(ends, plan.chunks)])
    return Batch(*integers, last, plan.copies, groups)


def split_group(x: Any, group: Group) -> Any:
    """Of queries (Hq, T, D) those of a group: (B, Hq, N, D)."""
    return x[:, group.rows].reshape((x.shape[0], len(group.names), group.each, x.shape[-1])).swapaxes(0, 1)


def flatten_group(x: Any) -> Any:
    """Rows of sequences (B, Hq, N, ...) one behind the other: (Hq, B · N, ...)."""
    return x.swapaxes(0, 1).reshape((x.shape[1], -1, *x.shape[3:]))


class Runner:
    """Runs plans: ``model``, a model.Model of any library, with a paged cache a layer on one ``manager``.

    NumPy and PyTorch feed a batch as it is. JAX compiles for each shape, so there it is filled up to a power of two:
    about log₂(budget) programs, a second or more each, at the first steps that need them.
    """

    def __init__(self, model: Model, manager: BlockManager) -> None:
        like, c = model.parameters["embedding"], model.config
        make_pages = backend("the parameters' embedding", like, "attnlab.paged").make_pages
        shape = manager.blocks, c.kv_heads, manager.block_size, c.d
        self.model = model
        self.caches = [PagedCache(make_pages(shape, like), make_pages(shape, like), manager) for _ in range(c.layers)]
        library = library_of("the parameters' embedding", like)
        self._module = import_module(f"attnlab_course.serve.{'jax' if library == 'jax' else 'eager'}")

    @property
    def nbytes(self) -> int:
        """Bytes of the pages of all layers."""
        return sum(cache.nbytes for cache in self.caches)

    def __call__(self, plan: Plan) -> Array:
        """Logits of the token that follows each chunk, and of each of its guesses: a row each, in order, (rows, 256).

        Bytes alone, as FIRST never comes again.
        """
        logits, self.caches = self._module.forward(self.model, self.caches, batch(plan))
        return logits[:, :FIRST]
