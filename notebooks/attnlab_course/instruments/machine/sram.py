"""Fast memory: what is held, by name and size, against a capacity."""

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

from attnlab_course.instruments.machine.work import Arithmetic, OnChip, on_chip

import numpy as np


class OutOfSRAM(MemoryError):
    """A tile does not fit; the message says what is held."""


class Held(NamedTuple):
    """A tile in SRAM."""

    name: str
    array: OnChip
    bytes: int


class SRAM:
    """Holds tiles. ``capacity`` in bytes, None unbounded; if ``strict``, it cannot be exceeded."""

    def __init__(self, capacity: int | None, strict: bool) -> None:
        self.capacity, self.strict = capacity, strict
        self.tiles: list[Held] = []
        self.held = self.peak = 0

    def keep(self, name: str, array: np.ndarray, size: int, work: Arithmetic) -> OnChip:
        """Hold a copy of ``array``, counted as ``size`` bytes."""
        if self.strict and self.capacity is not None and self.held + size > self.capacity:
            raise OutOfSRAM(
                f"{name} {array.shape} needs {size:,} bytes of SRAM, and {self.capacity - self.held:,} of "
                f"{self.capacity:,} are free; held are {self.inventory()}"
            )
        self.tiles.append(Held(name, on_chip(np.array(array), work), size))
        self.held += size
        self.peak = max(self.peak, self.held)
        return self.tiles[-1].array

    def free(self, array: np.ndarray) -> None:
        """Release a tile; its numbers become NaN, so that using it later shows."""
        at = self.find(array)
        if at is None:
            raise ValueError(f"an array of shape {array.shape} is freed that is not in SRAM")
        self.held -= self.tiles.pop(at).bytes
        array.fill(np.nan if array.dtype.kind == "f" else 0)

    def find(self, array: np.ndarray) -> int | None:
        """The place of a tile, None if it is not held."""
        return next((i for i, held in enumerate(self.tiles) if held.array is array), None)

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Release at the end whatever was held inside and not yet freed."""
        before = {id(held.array) for held in self.tiles}
        try:
            yield
        finally:
            for held in [held for held in self.tiles if id(held.array) not in before]:
                self.free(held.array)

    def inventory(self) -> str:
        """What is held, by name, shape and size."""
        return ", ".join(f"{name} {array.shape} {size:,}" for name, array, size in self.tiles) or "nothing"
