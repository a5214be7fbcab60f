"""Pages and the manager that says who holds them."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, overload

from attnlab.core.arguments import check_device, check_float, check_kind, dtype_name, kind_of
from attnlab.core.dispatch import backend, refuse_gradient
from attnlab.core.signature import Array, Window
from attnlab.paged import call
from attnlab.paged.manager import BlockManager

import numpy as np


@dataclass(frozen=True)
class PagedCache:
    """Keys and values of some sequences, in pages (P, Hk, S, D) and (P, Hk, S, Dv), and their ``manager``.

        cache = PagedCache.empty(key, value, blocks=64, block_size=16)
        cache.manager.add("a")
        step = cache.manager.append("a", 20)
        cache = cache.copy(step.copies).write(step.slots, key, value)       # key (Hk, 20, D)
        out = cache.attend(query, ["a"])                                    # query (1, Hq, N, D)

    State goes in and comes out: NumPy and PyTorch write into the pages and return the same cache, JAX returns a new
    one, a pytree of the two arrays. The manager is changed in place by those who call it, and every cache that came
    from this one has the same. One step of each of several sequences may be taken together, all their copies first.
    """

    key_pages: Any
    value_pages: Any
    manager: BlockManager

    @classmethod
    def empty(cls, key: Any, value: Any, blocks: int, block_size: int) -> "PagedCache":
        """A cache with ``blocks`` pages of ``block_size`` tokens, for keys and values like these, which are not stored.

        ``key`` (..., Hk, C, D) and ``value`` (..., Hk, C, Dv) give library, dtype, device, heads and sizes. Pages are
        NaN until they are written (0 under ``jax_debug_nans``, which stops at any NaN), so that a query that comes
        before its keys gets NaN; a block that is used again holds its old numbers. Raises TypeError or ValueError,
        naming the argument.
        """
        module = backend("key", key, "attnlab.paged")
        check_float("key", key)
        _check_like("value", value, "key has", key)
        for name, x in (("key", key), ("value", value)):
            if x.ndim < 3 or x.shape[-3] != key.shape[-3]:
                raise ValueError(f"{name} has shape {tuple(x.shape)}; it must be (..., Hk, C, size), with Hk as in key")
        manager = BlockManager(blocks, block_size)
        front = manager.blocks, key.shape[-3], manager.block_size
        return cls(*(module.make_pages((*front, x.shape[-1]), x) for x in (key, value)), manager)

    @property
    def nbytes(self) -> int:
        """Bytes of the pages."""
        return self.key_pages.nbytes + self.value_pages.nbytes

    def copy(self, copies: Sequence[tuple[int, int]]) -> "PagedCache":
        """Copy pages, by pairs (from, to), as an append asks: after all earlier writes and before its own."""
        if not len(copies):
            return self
        source, to, copy = *np.array(copies, np.int32).T, self._library.copy
        return self._with(copy(self.key_pages, source, to), copy(self.value_pages, source, to))

    def write(self, slots: Any, key: Any, value: Any) -> "PagedCache":
        """Store the keys and values of new tokens at their slots.

        ``slots`` (C,) with ``key`` (Hk, C, D) and ``value`` (Hk, C, Dv), or (B, C) with (B, Hk, C, D) and
        (B, Hk, C, Dv): integers, in a list or an array; in JAX an array of them may be traced. Raises TypeError or
        ValueError (shapes, a slot that doesn't exist), naming the argument.
        """
        refuse_gradient("PagedCache.write", "tiled_attention over keys that are not cached", key=key, value=value)
        slots, library = slots if kind_of(slots) else np.array(slots, np.int32), self._library
        _check_slots(slots, library.numpy_if_known(slots), self.manager.blocks * self.manager.block_size)
        keys, values = (
            _rows_of_slots(name, x, pages, slots)
            for name, x, pages in (("key", key, self.key_pages), ("value", value, self.value_pages))
        )
        slots = slots.reshape(-1)
        return self._with(library.write(self.key_pages, slots, keys), library.write(self.value_pages, slots, values))

    def tables(self, names: Sequence[Hashable]) -> tuple[Any, Any]:
        """Block table (B, T) and lengths (B,) of some sequences, int32 arrays of the pages' library.

        T is rounded up to a power of two: JAX compiles once per shape, and this way there are few. Entries beyond a
        sequence's blocks are 0, and so are those that have left the manager's window.
        """
        if isinstance(names, str | int):
            raise TypeError(f"names is {names!r}; give a list of names, [{names!r}] for one sequence")
        tables = [self.manager.table(name) for name in names]
        width = 1 << (max(1, *map(len, tables)) - 1).bit_length() if tables else 1
        block_table = np.zeros((len(tables), width), np.int32)
        for row, table in zip(block_table, tables):
            row[: len(table)] = np.maximum(table, 0)  # no window reaches what has left it
        lengths = np.array([self.manager.length(name) for name in names], np.int32)
        as_integers = self._library.as_integers
        return as_integers(block_table, self.key_pages), as_integers(lengths, self.key_pages)

    @overload
    def attend(
        self, query: Array, names: Sequence[Hashable], *, window: Window = None, scale: float | None = None,
        return_lse: Literal[False] = False,
    ) -> Array: ...
    @overload
    def attend(
        self, query: Array, names: Sequence[Hashable], *, window: Window = None, scale: float | None = None,
        return_lse: Literal[True],
    ) -> tuple[Array, Array]: ...
    def attend(self, query: Any, names: Sequence[Hashable], **options: Any) -> Any:
        """Attention of the newest queries (B, Hq, N, D) of sequences, whose keys are written already.

        Options and result are those of :func:`attnlab.paged.paged_attention`. In a function that JAX traces call that
        one, with ``tables`` made outside: there names would be looked up at trace time only.
        """
        if self.key_pages.shape[2] != self.manager.block_size:
            shape, size = tuple(self.key_pages.shape), self.manager.block_size
            raise ValueError(
                f"key_pages has shape {shape}; with blocks of {size} tokens it must be (P, Hk, S, D). Pages that are "
                "(P, S, Hk, D) go to paged_attention(..., layout='tokens')"
            )
        return call.paged_attention(query, self.key_pages, self.value_pages, *self.tables(names), **options)

    @property
    def _library(self) -> Any:
        return backend("key_pages", self.key_pages, "attnlab.paged")

    def _with(self, key_pages: Any, value_pages: Any) -> "PagedCache":
        return self if key_pages is self.key_pages else replace(self, key_pages=key_pages, value_pages=value_pages)


def _rows_of_slots(name: str, x: Any, pages: Any, slots: Any) -> Any:
    """Keys or values (..., Hk, C, X) of new tokens as one row a slot, (slots, Hk, X)."""
    _check_like(name, x, "the pages have", pages)
    *batch, count = slots.shape
    _, heads, _, width = pages.shape
    expected = (*batch, heads, count, width)
    if tuple(x.shape) != expected:
        raise ValueError(f"{name} has shape {tuple(x.shape)}; with slots {tuple(slots.shape)} it must be {expected}")
    return x.swapaxes(-3, -2).reshape((-1, heads, width))


def _check_slots(slots: Any, known: np.ndarray | None, capacity: int) -> None:
    """Integers, where they are known below ``capacity`` and none of them twice."""
    if slots.ndim < 1 or not dtype_name(slots).startswith(("int", "uint")):
        raise TypeError(f"slots is of dtype {dtype_name(slots)} with {slots.ndim} axes; it must be (C,) integers")
    if known is None:
        return
    if known.size and not 0 <= known.min() <= known.max() < capacity:
        raise ValueError(f"slots reach from {known.min()} to {known.max()}; they must lie in 0 … {capacity - 1}")
    if again := known.size - np.unique(known).size:
        raise ValueError(f"slots has {again} slots twice; each token has one of its own")


def _check_like(name: str, x: Any, whose: str, like: Any) -> None:
    """An array of the library, dtype and device of another."""
    check_kind(name, x, kind_of(like))
    given, wanted = dtype_name(x), dtype_name(like)
    if given != wanted:
        raise TypeError(f"{name} has dtype {given}, {whose} {wanted}; they must be equal")
    check_device(name, x, like)
