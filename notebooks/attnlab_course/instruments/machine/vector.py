"""A vector in slow memory: every element read is a load, every element written is a store."""

from array import array
from collections.abc import Iterable, Iterator
from typing import Any, SupportsFloat


class CountingVector:
    """A vector of floats that counts its loads and stores, one per element and access.

    ``x[i]`` and each step of a loop over ``x`` load an element, ``x[i] = v`` stores one; ``len(x)`` is free. What an
    algorithm keeps in variables of its own is fast memory and is not counted. Slices are refused, so that
    every access is visible.
    """

    def __init__(self, values: Iterable[SupportsFloat]) -> None:
        self._values = array("d", values)
        self.loads = self.stores = 0
        self.temporaries: list[CountingVector] = []

    @classmethod
    def empty(cls, n: int) -> "CountingVector":
        """A vector of ``n`` zeros to write to."""
        return cls([0.0] * n)

    def temporary(self, n: int) -> "CountingVector":
        """A vector of ``n`` zeros beside this one, for what one step leaves in slow memory for the next.

        :func:`traffic` counts it with this one.
        """
        self.temporaries.append(self.empty(n))
        return self.temporaries[-1]

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, i: Any) -> float:
        value = self._values[self._index(i)]
        self.loads += 1
        return value

    def __setitem__(self, i: Any, value: SupportsFloat) -> None:
        self._values[self._index(i)] = float(value)
        self.stores += 1

    def __iter__(self) -> Iterator[float]:
        for i in range(len(self)):
            yield self[i]

    def __copy__(self) -> "CountingVector":
        """The same values, counted from zero."""
        return type(self)(self._values)

    def __repr__(self) -> str:
        return f"CountingVector of length {len(self)}, loads: {self.loads}, stores: {self.stores}"

    def _index(self, i: Any) -> int:
        if not hasattr(i, "__index__"):
            raise TypeError(f"a CountingVector is read one element at a time, by an integer; got {i!r}")
        return i.__index__()

    def values(self) -> list[float]:
        """A copy of the elements, uncounted: for looking at results."""
        return self._values.tolist()


def traffic(*vectors: CountingVector) -> tuple[int, int]:
    """Loads and stores of these vectors and their temporaries, together."""
    loads = stores = 0
    for vector in vectors:
        inner = traffic(*vector.temporaries)
        loads, stores = loads + vector.loads + inner[0], stores + vector.stores + inner[1]
    return loads, stores
