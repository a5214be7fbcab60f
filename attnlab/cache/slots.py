"""Where a rolling cache keeps a token, and which keys a chunk of tokens meets. Array-free.

    slot(p) = p  for p < sinks,   sinks + (p − sinks) mod window  after that

The first ``sinks`` tokens stay for good; the others go around a ring of ``window`` slots, which wraps to ``sinks`` and
never over them. Positions follow from how many tokens were taken, never from the number of a slot.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from attnlab.core.geometry import Band

import numpy as np

PIECE = 512
"""Tokens of a chunk that are worked on at once: memory does not grow with the chunk."""


def slot(position: int, window: int, sinks: int) -> int:
    """The slot of a token's key."""
    return position if position < sinks else sinks + (position - sinks) % window


def position_in_slot(slot: Any, length: Any, window: int, sinks: int, where: Callable = np.where) -> Any:
    """The position that a slot holds after ``length`` tokens, −1 if it's empty. ``slot``: an integer, or an array of
    the library of ``where``."""
    last = length - sinks - 1  # the newest token of the ring, counted from its first
    ringed = last - (last - (slot - sinks)) % window  # the newest one that fell on this slot; negative if none did
    return where(slot < sinks, where(slot < length, slot, -1), where(ringed >= 0, ringed + sinks, -1))


def slots_written(length: int, count: int, window: int, sinks: int) -> tuple[list[int], list[int]]:
    """Which new tokens outlive the chunk, and their slots: the sinks, and the last ``window`` tokens."""
    kept = [i for i in range(count) if length + i < sinks or i >= count - window]
    return kept, [slot(length + i, window, sinks) for i in kept]


class KeyRange(NamedTuple):
    """Keys that stand in a row, ``rows`` of the cache or of the chunk itself, and which queries of the chunk see them.

    Key j of the part stands under query j − offset. ``causal`` where keys may be younger than queries; ``window``
    keys for each query, None for all; ``sinks`` if these are sinks, which no window hides.
    """

    cached: bool
    sinks: bool
    rows: slice
    offset: int
    causal: bool
    window: int | None

    def band(self, count: int) -> Band:
        """What ``count`` queries see of the part."""
        sides = None if self.window is None else (self.window - 1, None)
        return Band.of(count, self.rows.stop - self.rows.start, self.causal, sides, self.offset)


def ranges_before_write(length: int, count: int, window: int, sinks: int) -> Iterator[KeyRange]:
    """The ranges of keys that ``count`` new tokens see before they are written, after ``length`` others: at most four.

    Disjoint, and together what the tokens see: the cached sinks; the older and the newer stretch of the ring, each of
    consecutive positions in consecutive slots; and of the chunk itself the sinks and the rest.
    """
    if length and sinks:
        yield KeyRange(True, True, slice(0, min(length, sinks)), length, causal=False, window=None)
    first = max(length - window + 1, sinks)  # the oldest key of the ring that is still in anybody's window
    turn = sinks + (length - sinks - 1) // window * window  # the newest token that was written to the ring's first slot
    for start, stop in ((first, turn), (max(first, turn), length)):
        if start < stop:
            at = slot(start, window, sinks)
            yield KeyRange(True, False, slice(at, at + stop - start), length - start, causal=False, window=window)
    begin = min(max(sinks - length, 0), count)  # the first token of the chunk that is no sink
    if begin:
        yield KeyRange(False, True, slice(0, begin), 0, causal=True, window=None)
    if begin < count:
        yield KeyRange(False, False, slice(begin, count), -begin, causal=True, window=window)


def ranges_after_write(length: int, window: int, sinks: int, apart: bool) -> Iterator[KeyRange]:
    """The ranges that one token sees once it's written: all filled slots. If ``apart``, sinks and ring are two."""
    filled = min(length + 1, window + sinks)
    border = min(filled, sinks) if apart else 0
    if border:
        yield KeyRange(True, True, slice(0, border), border, causal=False, window=None)
    if border < filled:
        yield KeyRange(True, False, slice(border, filled), filled, causal=False, window=None)
