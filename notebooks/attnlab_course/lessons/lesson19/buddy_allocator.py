"""A buddy allocator: contiguous pieces of slots whose sizes are powers of two. Array-free."""


class Buddy:
    """Slots that are given out in pieces of powers of two; a piece is halved, and rejoined with its other half."""

    def __init__(self, slots: int) -> None:
        self.free = [set[int]() for _ in range(slots.bit_length())]  # first slots of the free pieces of 2 ** k
        for k in range(slots.bit_length()):
            if slots >> k & 1:
                self.free[k].add(slots >> (k + 1) << (k + 1))

    def take(self, slots: int) -> tuple[int, int] | None:
        """(first slot, k) of a piece of 2 ** k slots, the smallest that is large enough; None if none is free."""
        k = (slots - 1).bit_length()
        found = next((j for j in range(k, len(self.free)) if self.free[j]), None)
        if found is None:
            return None
        first = min(self.free[found])
        self.free[found].remove(first)
        for j in range(k, found):
            self.free[j].add(first + (1 << j))
        return first, k

    def give(self, first: int, k: int) -> None:
        """Take a piece back."""
        while k < len(self.free) and first ^ (1 << k) in self.free[k]:
            self.free[k].remove(first ^ (1 << k))
            first, k = first & ~(1 << k), k + 1
        self.free[k].add(first)
