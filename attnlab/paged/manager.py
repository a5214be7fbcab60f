"""Who holds which block: the bookkeeping of a paged cache, in integers. Array-free.

A sequence has a table of blocks; token t lies in block table[t // S] at place t % S, in all in slot
table[t // S] · S + t % S. Sequences may share blocks, as each counts the tables that hold it. A shared block is
copied when somebody is about to write into it, which only the last block of a sequence can suffer, and only while it
is partly filled. After every operation: free blocks + blocks in tables = blocks.
Source: Kwon et al. 2023, "PagedAttention", sections 4.3 and 4.4.
"""

import operator
from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import NamedTuple

from attnlab.core.arguments import integer
from attnlab.paged.prefix import Prefix, Prefixes


GONE = -1  # in a table: a block that has left the window


class OutOfBlocks(RuntimeError):
    """More blocks are needed than are free; nothing has been changed."""


class Appended(NamedTuple):
    """What an append asks for. slots: where each new token goes. copies: pairs (from block, to block), done first."""

    slots: list[int]
    copies: list[tuple[int, int]]


@dataclass
class Holding:
    """What a sequence holds: its blocks, its length, its last full block, and the tokens after it.

    The last full block knows the ones before. The tokens are None once an id is unknown. The first ``num_evicted``
    blocks have left the window.
    """

    table: list[int] = field(default_factory=list)
    length: int = 0
    last_full_block: Prefix | None = None
    open_tokens: list[int] | None = field(default_factory=list)
    num_evicted: int = 0


class BlockManager:
    """Gives ``blocks`` blocks of ``block_size`` tokens to sequences, which are named by anything hashable.

    Methods raise KeyError for a sequence that is unknown or freed, ValueError for a name that exists already.
    Blocks are reused in this order: those whose contents cannot be found, then the others by oldest release, in one
    release the last block of the sequence first, so that a prefix outlives what followed it.

    ``window``: of layers whose queries see the last so many keys, their own included. Then an append first gives back
    the blocks that none of its queries sees, nor any later one; in the table they become -1. A sequence holds at most
    ⌈(window + count − 2) / S⌉ + 1 blocks after an append of ``count`` tokens, however long it is.
    """

    def __init__(self, blocks: int, block_size: int, window: int | None = None) -> None:
        self.blocks, self.block_size = integer("blocks", blocks, 1), integer("block_size", block_size, 1)
        self.window = None if window is None else integer("window", window, 1)
        self._sequences: dict[Hashable, Holding] = {}
        self._references = [0] * self.blocks
        self._prefixes = Prefixes()
        self._free, self._findable = deque(range(self.blocks)), dict[int, None]()  # both by release, oldest first

    @property
    def free_blocks(self) -> int:
        """Blocks that no sequence holds; all may be taken, those whose contents can still be found too."""
        return len(self._free) + len(self._findable)

    def __contains__(self, name: Hashable) -> bool:
        """Whether there is a sequence ``name``."""
        return name in self._sequences

    def references(self, block: int) -> int:
        """How many tables hold ``block``."""
        if integer("block", block, 0) >= self.blocks:
            raise ValueError(f"block is {block}; it must be less than {self.blocks}")
        return self._references[block]

    def table(self, name: Hashable) -> tuple[int, ...]:
        """The blocks of a sequence, in the order of its tokens; -1 for those that have left the window."""
        return tuple(self._sequence(name).table)

    def length(self, name: Hashable) -> int:
        """Tokens of a sequence."""
        return self._sequence(name).length

    def add(self, name: Hashable, tokens: Iterable[int] = ()) -> int:
        """Begin a sequence; returns how many of its first ``tokens`` are there already: S times the blocks it shares.

        Shared are full blocks that hold the same tokens after the same tokens, of any sequence, freed ones too until
        their blocks are needed; never the block of the last token: at least one must be left to compute. Nothing else
        of the prompt is kept: append the rest. A block can be found from the append that fills it, so its keys
        must be written before anybody reads.
        """
        self._check_new(name)
        table, last = self._prefixes.find(_ids(tokens), self.block_size)
        for block in table:
            self._findable.pop(block, None)
        self._share(name, Holding(table, len(table) * self.block_size, last))
        return len(table) * self.block_size

    def num_cached_tokens(self, tokens: Iterable[int]) -> int:
        """How many of the first ``tokens`` ``add`` would find."""
        return len(self._prefixes.find(_ids(tokens), self.block_size)[0]) * self.block_size

    def fork(self, name: Hashable, child: Hashable) -> None:
        """Begin ``child`` with all that ``name`` has; they share every block."""
        parent = self._sequence(name)
        self._check_new(child)
        tokens = None if parent.open_tokens is None else list(parent.open_tokens)
        self._share(child, replace(parent, table=list(parent.table), open_tokens=tokens))

    def free(self, name: Hashable) -> None:
        """End a sequence; blocks that nobody else holds become free, and can be found until they are reused."""
        table = self._sequence(name).table
        del self._sequences[name]
        for block in reversed(table):
            self._release(block)

    def fits(self, name: Hashable, count: int) -> bool:
        """Whether there is room for ``count`` more tokens of a sequence."""
        return self._num_needed(self._sequence(name), count) <= self.free_blocks

    def append(self, name: Hashable, tokens: int | Iterable[int]) -> Appended:
        """Make room for more tokens of a sequence: their number, or their ids, by which full blocks can be found.

        A last block that is partly filled and shared is copied, as the new tokens are written into it. After a bare
        number the further blocks of the sequence cannot be found. Raises OutOfBlocks before anything has changed.
        """
        sequence = self._sequence(name)
        ids = None if isinstance(tokens, Integral) else _ids(tokens)
        count = integer("tokens", tokens, 0) if ids is None else len(ids)
        needed = self._num_needed(sequence, count)
        if needed > self.free_blocks:
            raise OutOfBlocks(
                f"{count} more tokens of {name!r} need {needed} blocks; {self.free_blocks} of {self.blocks} are free"
            )
        for index in self._outside_window(sequence, count):
            self._release(sequence.table[index])
            sequence.table[index], sequence.num_evicted = GONE, index + 1
        written = sequence.table[-1] if count and sequence.length % self.block_size else None
        copies = [self._own_last(sequence)] if self._must_copy(sequence, count) else []
        if not copies and written in self._prefixes:  # it was full before a truncate, and now gets other tokens
            self._prefixes.forget(written)
        more = -(-(sequence.length + count) // self.block_size) - len(sequence.table)
        sequence.table += [self._take() for _ in range(more)]
        places = [divmod(sequence.length + k, self.block_size) for k in range(count)]
        sequence.length += count
        if count:
            self._remember_tokens(sequence, ids)
        return Appended([sequence.table[index] * self.block_size + place for index, place in places], copies)

    def truncate(self, name: Hashable, length: int) -> None:
        """Forget the tokens of a sequence from ``length`` on, as after guesses that were wrong.

        Whole blocks beyond it are released, as in ``free``. The last block that stays may have been full: it can be
        found by the tokens that it still holds until an append writes into it. Raises ValueError unless
        0 ≤ length ≤ the sequence's length.
        """
        sequence = self._sequence(name)
        if integer("length", length, 0) > sequence.length:
            raise ValueError(f"length is {length}; {name!r} has {sequence.length} tokens")
        if sequence.num_evicted * self.block_size > max(length - (self.window or length) + 1, 0):
            raise ValueError(f"length is {length}; keys that {name!r} needs there have left the window")
        if sequence.open_tokens is not None:
            start = sequence.length - len(sequence.open_tokens)
            while start > length and sequence.last_full_block:
                full = sequence.last_full_block
                sequence.open_tokens, sequence.last_full_block = list(full.tokens), full.parent
                start -= self.block_size
            sequence.open_tokens = sequence.open_tokens[: length - start]
        sequence.length, kept = length, -(-length // self.block_size)
        leaving, sequence.table = sequence.table[kept:], sequence.table[:kept]
        for block in reversed(leaving):
            self._release(block)

    def _sequence(self, name: Hashable) -> Holding:
        if name not in self._sequences:
            raise KeyError(f"there is no sequence {name!r}: it was never added, or it was freed")
        return self._sequences[name]

    def _num_needed(self, sequence: Holding, count: int) -> int:
        """How many free blocks an append takes, less those that it gives back."""
        more = -(-(sequence.length + count) // self.block_size) - len(sequence.table)
        back = sum(self._references[sequence.table[index]] == 1 for index in self._outside_window(sequence, count))
        return more + self._must_copy(sequence, count) - back

    def _outside_window(self, sequence: Holding, count: int) -> range:
        """Which blocks of the table no query sees from the next one on."""
        if self.window is None or count == 0:
            return range(0)
        return range(sequence.num_evicted, max(sequence.length - self.window + 1, 0) // self.block_size)

    def _must_copy(self, sequence: Holding, count: int) -> bool:
        """Whether an append writes into a block that somebody else holds, too."""
        partly = count > 0 and sequence.length % self.block_size > 0
        return partly and self._references[sequence.table[-1]] > 1

    def _check_new(self, name: Hashable) -> None:
        if name in self._sequences:
            raise ValueError(f"there is a sequence {name!r} already")

    def _share(self, name: Hashable, sequence: Holding) -> None:
        for block in sequence.table[sequence.num_evicted :]:
            self._references[block] += 1
        self._sequences[name] = sequence

    def _take(self) -> int:
        if self._free:
            block = self._free.popleft()
        else:
            block = next(iter(self._findable))
            del self._findable[block]
            self._prefixes.forget(block)
        self._references[block] = 1
        return block

    def _release(self, block: int) -> None:
        if block == GONE:
            return
        self._references[block] -= 1
        if self._references[block] == 0 and block in self._prefixes:
            self._findable[block] = None
        elif self._references[block] == 0:
            self._free.append(block)

    def _own_last(self, sequence: Holding) -> tuple[int, int]:
        """Exchange the last block for one that no other sequence holds."""
        shared, own = sequence.table[-1], self._take()
        self._references[shared] -= 1
        sequence.table[-1] = own
        return shared, own

    def _remember_tokens(self, sequence: Holding, ids: list[int] | None) -> None:
        """Remember the tokens of a sequence, by full blocks, as long as all are known."""
        if sequence.open_tokens is None or ids is None:
            sequence.open_tokens = None
            return
        size, tokens = self.block_size, sequence.open_tokens + ids
        first = (sequence.length - len(tokens)) // size
        for index in range(len(tokens) // size):
            longer = Prefix(sequence.last_full_block, tuple(tokens[index * size : (index + 1) * size]))
            sequence.last_full_block = self._prefixes.record(sequence.table[first + index], longer)
        sequence.open_tokens = tokens[len(tokens) // size * size :]


def _ids(tokens: Iterable[int]) -> list[int]:
    try:
        return [operator.index(token) for token in tokens]
    except TypeError:
        raise TypeError(f"tokens is {tokens!r}; it must be a number of tokens or their ids, integers") from None
