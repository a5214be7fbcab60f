"""Who holds what, and which of it is visible: tokens on devices in a ring, in integers. Array-free.

A sequence of N tokens is cut into P shards of equal length, one a rank. Its keys and values travel: at step t rank r
holds the block that rank (r − t) mod P owns, and sends it on to rank r + 1.

    contiguous  rank r has the r-th of P pieces of the sequence
    striped     rank r has tokens r, r + P, r + 2P, …
    zigzag      rank r has the r-th and the (2P − 1 − r)-th of 2P pieces

Every shard is one or two runs of tokens at equal distances, so what a run of queries sees of a run of keys is a band.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from attnlab.core.geometry import Band

Layout = Literal["contiguous", "striped", "zigzag"]
LAYOUTS = get_args(Layout)


class Run(NamedTuple):
    """Tokens of a shard at equal distances: slots at, at + 1, … hold positions start, start + stride, …."""

    at: int
    start: int
    stride: int
    count: int  # tokens; the slots after them, up to the next run or the end of the shard, are padding

    @property
    def slots(self) -> slice:
        """Where the tokens are in the shard."""
        return slice(self.at, self.at + self.count)


class Part(NamedTuple):
    """Work of one step: queries in the slots ``rows`` see of keys in the slots ``cols`` what ``band`` says."""

    rows: slice
    cols: slice
    band: Band


@dataclass(frozen=True)
class Schedule:
    """The ring of one call: ``length`` tokens on ``devices`` ranks. Hashable, the same on every rank.

    ``left``, ``right``: the window by position, None unbounded; causal is right = 0.
    """

    length: int
    devices: int
    layout: str = "contiguous"
    left: int | None = None
    right: int | None = None

    @property
    def size(self) -> int:
        """Slots of a shard: ⌈N / P⌉, for zigzag 2⌈N / 2P⌉."""
        pieces = 2 if self.layout == "zigzag" else 1
        return pieces * -(-self.length // (pieces * self.devices))

    def runs(self, rank: int) -> list[Run]:
        """What the shard of ``rank`` holds: one run, for zigzag two."""
        if self.layout == "striped":
            return [self._run(0, rank, self.devices, self.size)]
        if self.layout == "contiguous":
            return [self._run(0, rank * self.size, 1, self.size)]
        half = self.size // 2
        return [self._run(at, piece * half, 1, half) for at, piece in ((0, rank), (half, 2 * self.devices - 1 - rank))]

    def _run(self, at: int, start: int, stride: int, slots: int) -> Run:
        return Run(at, start, stride, min(max(-(-(self.length - start) // stride), 0), slots))

    def holder(self, rank: int, step: int) -> int:
        """The owner of the keys that ``rank`` holds at ``step``."""
        return (rank - step) % self.devices

    def parts(self, rank: int, holder: int) -> list[Part]:
        """What the queries of ``rank`` see of the keys of ``holder``, parts without a visible pair left out."""
        pairs = ((rows, cols) for rows in self.runs(rank) for cols in self.runs(holder))
        found = ((rows, cols, band(rows, cols, self.left, self.right)) for rows, cols in pairs)
        return [Part(rows.slots, cols.slots, seen) for rows, cols, seen in found if seen is not None]

    def last(self, holder: int) -> int:
        """The last step at which any rank sees a key of ``holder``: its block travels that far."""
        steps = range(self.devices - 1, 0, -1)
        return next((t for t in steps if self.parts((holder + t) % self.devices, holder)), 0)

    def sends(self, rank: int, step: int) -> bool:
        """Whether ``rank`` sends the block it holds at ``step`` on to rank + 1, as somebody further on needs it."""
        return step < self.last(self.holder(rank, step))

    def receives(self, rank: int, step: int) -> bool:
        """Whether ``rank`` gets, at the end of ``step``, the block of the next one from rank − 1."""
        return self.sends((rank - 1) % self.devices, step)


def band(rows: Run, cols: Run, left: int | None, right: int | None) -> Band | None:
    """What a run of queries sees of a run of keys of the same stride; None if nothing is visible.

    Query i stands at a + d·i, key j at b + d·j, so i sees j iff
    i − ⌊(left − (a − b)) / d⌋ ≤ j ≤ i + ⌊(right + a − b) / d⌋: a band with offset ⌊(a − b) / d⌋, whose left side may be
    negative, as a window may end short of the diagonal at the offset.
    """
    d, apart, n, m = rows.stride, rows.start - cols.start, rows.count, cols.count
    low = 1 - n if left is None else max(-((left - apart) // d), 1 - n)
    high = m - 1 if right is None else min((right + apart) // d, m - 1)
    if min(n, m) == 0 or low > high:
        return None
    offset = apart // d
    return Band(n, m, None if low == 1 - n else offset - low, None if high == m - 1 else high - offset, offset)


def positions_of(ring: Schedule) -> list[list[int]]:
    """Position of the token in every slot of every shard, one list a rank; −1 is padding."""
    found = [[-1] * ring.size for _ in range(ring.devices)]
    for rank, slots in enumerate(found):
        for run in ring.runs(rank):
            slots[run.slots] = range(run.start, run.start + run.stride * run.count, run.stride)
    return found
