"""Which slot serves which request when, in static and in continuous batches: integers of lesson 20."""

from collections.abc import Sequence


def bars(lengths: Sequence[int], slots: int, continuous: bool) -> list[tuple[int, int, int, int]]:
    """(slot, first step, steps, request) of requests that are taken in order, a token a step: section 2."""
    free, found = [0] * slots, []
    for number, length in enumerate(lengths):
        if not continuous and number % slots == 0:
            free = [max(free)] * slots
        slot = min(range(slots), key=free.__getitem__)
        found.append((slot, free[slot], length, number))
        free[slot] += length
    return found
