"""Lesson 12, ★: a tile of a strided array in flat memory, its rows beyond the end masked."""

from typing import Any

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Cost, Exercise, Function, Mistake, but

import numpy as np

Array = np.ndarray
Strides = tuple[int, int]


def tile_load(memory: Array, base: int, strides: Strides, start: int, block: int, length: int, width: int) -> Array:
    """Rows start, …, start + block − 1 of a (length, width) array in flat memory; 0, and not read, from length on."""
    rows, cols = start + np.arange(block)[:, None], np.arange(width)
    live = rows < length
    offsets = base + rows * strides[0] + cols * strides[1]  # eq. 12.2
    return np.where(live, memory[np.where(live, offsets, 0)], 0.0)


class Flat(np.ndarray):
    """Flat memory that notes in ``read`` which of its numbers are read one by one; a slice is a view, not a read."""

    read: set[int] | None = None

    def __getitem__(self, key: Any) -> Any:
        if self.read is not None and not isinstance(key, slice):
            self.read |= set(np.arange(self.size)[key].ravel().tolist())
        return np.asarray(self)[key]

    def take(self, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
        """The numbers at ``indices``, read as by an index."""
        return self[np.arange(self.size).take(indices, mode=mode)]


def strange(answer: Function, library: str) -> float | None:
    """How many numbers are read of rows 6 and 7, which belong to the next array; NumPy only."""
    if library != "numpy":
        return None
    memory = np.arange(44.0).view(Flat)  # it ends with row 7
    memory.read = set()
    answer(memory, 12, (4, 1), 4, 4, 6, 4)
    return len(memory.read & set(range(36, 44)))


def cases() -> list[Case]:
    """Rows together, a transpose, heads side by side; a last block in the middle and at the end of memory."""
    rng = np.random.default_rng(12)
    numbers, poison = np.round(rng.normal(size=48), 2), np.arange(12.0)
    poison[8:] = np.nan
    infinite = np.where(np.isnan(poison), np.inf, poison)
    large = np.arange(70_000.0)
    calls = [
        ("ONE: a single number", (np.array([5.0]), 0, (1, 1), 0, 1, 1, 1)),
        ("rows of 3 numbers, one after another; the tile begins at row 0", (numbers, 0, (3, 1), 0, 2, 4, 3)),
        ("the same array, the tile begins at row 2", (numbers, 0, (3, 1), 2, 2, 4, 3)),
        ("the array begins at memory[7]", (numbers, 7, (3, 1), 2, 2, 4, 3)),
        ("four heads side by side: rows are 12 numbers apart, head 2 begins at 6", (numbers, 6, (12, 1), 1, 2, 4, 3)),
        ("transposed: columns are 8 numbers apart", (numbers, 5, (1, 8), 4, 4, 8, 3)),
        ("RAGGED: row 3 would be the first of the next array", (numbers, 6, (4, 1), 2, 2, 3, 4)),
        ("RAGGED: 5 rows, blocks of 4, the next array follows", (numbers, 3, (4, 1), 4, 4, 5, 4)),
        ("RAGGED: a block longer than the array", (numbers, 3, (4, 1), 0, 8, 3, 4)),
        ("RAGGED: the array ends where memory ends", (numbers, 24, (6, 1), 2, 4, 4, 6)),
        ("RAGGED: the same, transposed", (numbers, 24, (1, 4), 2, 4, 4, 6)),
        ("POISON: what follows the array is NaN", (poison, 0, (2, 1), 2, 4, 4, 2)),
        ("POISON: what follows the array is infinite", (infinite, 0, (2, 1), 2, 4, 4, 2)),
        ("POISON: a NaN in the array itself must show", (poison, 4, (2, 1), 0, 4, 4, 2)),
        ("EMPTY: the block begins behind the end", (numbers, 30, (6, 1), 4, 2, 3, 6)),
        ("EMPTY: the block begins behind the end, the next array follows", (numbers, 6, (6, 1), 4, 2, 3, 6)),
        ("70,000 numbers, rows 7000 apart", (large, 5000, (7000, 1), 6, 4, 9, 3)),
    ]
    return [Case(label, args) for label, args in calls]


READ, ROWS = "np.where(live, memory[np.where(live, offsets, 0)], 0.0)", "start + np.arange(block)"

EXERCISE = Exercise(
    lesson="12", stars=1, reference=tile_load, where="eq. 12.2", cases=cases,
    hints=(
        "Rows as a column, start + np.arange(block)[:, None]; columns as a row, np.arange(width). Eq. 12.2 then gives "
        "the offset of every number of the tile at once.",
        "A row is live if it's smaller than length. Where it isn't, don't use its offset, not even to throw the number "
        "away afterward.",
        "Put offset 0 in their place: np.where(live, offsets, 0); read; and put 0 over what came back.",
    ),
    without=dict.fromkeys(
        ("base", "start"),
        "Your tile begins in the wrong place: the array begins at memory[base], the tile at row start (eq. 12.2).",
    ),
    mistakes=(
        Mistake(phrases.load_unmasked("eq. 12.2 and section 1"),
                but(READ, "memory[offsets]"), but(READ, "memory[np.minimum(offsets, memory.size - 1)]")),
        Mistake("You read rows that the array doesn't have, and mask afterward. At the end of memory, the read itself "
                "fails, and 0 · NaN is NaN: give what's masked an offset that exists, such as 0, and then put 0 "
                "(section 1).",
                but(READ, "np.where(live, memory[offsets], 0.0)"), but(READ, "memory[offsets] * live"),
                but(READ, "np.where(live, memory[np.minimum(offsets, memory.size - 1)], 0.0)")),
        Mistake("Your rows beyond the end repeat the last row, as in a clamped slice (lesson 05). They'd be counted "
                "twice; they have to be 0 here and hidden later (section 1).",
                but(ROWS, "np.minimum(start + np.arange(block), length - 1)")),
        Mistake("Your strides are swapped: strides[0] is the step from row to row, strides[1] the one from column to "
                "column (eq. 12.2).",
                but("rows * strides[0] + cols * strides[1]", "rows * strides[1] + cols * strides[0]")),
        Mistake("You treat the array as contiguous, with steps of width and 1. If it's a head among others, or "
                "transposed, its strides say otherwise: eq. 12.2.",
                but("rows * strides[0] + cols * strides[1]", "rows * width + cols")),
    ),
    costs=(Cost(strange, 0, "it reads {found:.0f} numbers of rows that do not exist."),),
)
