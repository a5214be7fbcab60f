"""Memory as a GPU's programs see it: one number after another, behind offsets and masks (lesson 12)."""

from typing import Any

import numpy as np


class FlatMemory:
    """Flat memory that counts what masks let through. A copy is a fresh one; no offset may lie outside: IndexError."""

    def __init__(self, *arrays: np.ndarray) -> None:
        self.inputs = np.concatenate([np.ravel(x) for x in arrays])
        self.numbers, self.loads, self.stores = self.inputs.copy(), 0, 0

    def load(self, offsets: np.ndarray, mask: Any = True, other: float = 0.0) -> np.ndarray:
        """The numbers at these offsets; ``other`` where the mask is False, and nothing is read there."""
        offsets, mask = np.broadcast_arrays(offsets, mask)
        self.check(offsets[mask])
        self.loads += int(mask.sum())
        return np.where(mask, self.numbers[np.where(mask, offsets, 0)], other)

    def store(self, offsets: np.ndarray, x: Any, mask: Any = True) -> None:
        """Write x at these offsets where the mask is True."""
        offsets, x, mask = np.broadcast_arrays(offsets, x, mask)
        self.check(offsets[mask])
        self.stores += int(mask.sum())
        self.numbers[offsets[mask]] = x[mask]

    def fetch(self, base: int, shape: tuple[int, ...]) -> np.ndarray:
        """The array that begins at base, for us to look at."""
        return self.numbers[base : base + int(np.prod(shape))].reshape(shape).copy()

    def check(self, offsets: np.ndarray) -> None:
        """Refuse what is outside; a negative offset does not count from the end."""
        outside = offsets[(offsets < 0) | (offsets >= self.numbers.size)]
        if outside.size:
            raise IndexError(f"offset {outside[0]} is outside the memory of {self.numbers.size} numbers")

    def __deepcopy__(self, memo: Any) -> "FlatMemory":
        return FlatMemory(self.inputs)

    def __call__(self) -> None:
        """What can be called is not compared with its copy: this one is written to."""
        raise TypeError("memory is not a function: use memory.load and memory.store")
