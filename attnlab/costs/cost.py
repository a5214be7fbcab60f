"""What one pass of an algorithm costs."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from attnlab.core.arguments import check_choice, integer


def check_sizes(least: int = 0, **sizes: int) -> None:
    """Refuse numbers of queries, keys and so on that aren't integers of at least ``least``."""
    for name, size in sizes.items():
        integer(name, size, least)


def of_method(method: str, forms: Mapping[str, Any], name: str = "method") -> Any:
    """What ``forms`` has for a method; KeyError if it has nothing."""
    return forms[check_choice(name, method, forms, KeyError)]


@dataclass(frozen=True)
class PassCost:
    """Arithmetic in floating-point operations, traffic in elements, of all heads together.

    products: of matrix products, 2·r·x·c for (r, x) by (x, c). exponentials: with logarithms, one each. rest: one for
    every number that any other operation computes, or that a sum or maximum reads. reads, writes: elements
    loaded from HBM and stored to it, by the name of the array. fills: elements of HBM set to a constant
    beforehand. itemsize: bytes of a number; elements of "mask" are one byte.
    """

    products: int
    exponentials: int
    rest: int
    reads: dict[str, int]
    writes: dict[str, int]
    fills: dict[str, int] = field(default_factory=dict)
    itemsize: int = 2

    @property
    def flops(self) -> int:
        """All arithmetic, an exponential counted as one operation."""
        return self.products + self.exponentials + self.rest

    @property
    def elements(self) -> int:
        """Elements read and written, without fills."""
        return sum(self.reads.values()) + sum(self.writes.values())

    @property
    def bytes(self) -> int:
        """Bytes read and written, without fills."""
        mask = self.reads.get("mask", 0)
        return self.itemsize * (self.elements - mask) + mask

    @property
    def intensity(self) -> float:
        """Arithmetic intensity: operations of matrix products for each byte moved, fills not counted."""
        return self.products / self.bytes

    def spilled(self, scores: int) -> "PassCost":
        """The cost where tiles do not stay on chip: S and P, ``scores`` elements each, are written and read."""
        crossing = {"S": scores, "P": scores}
        return replace(self, reads=self.reads | crossing, writes=self.writes | crossing)

    def times(self, heads: int) -> "PassCost":
        """The cost of that many heads."""
        moved = ({name: heads * count for name, count in x.items()} for x in (self.reads, self.writes, self.fills))
        return PassCost(heads * self.products, heads * self.exponentials, heads * self.rest, *moved, self.itemsize)
