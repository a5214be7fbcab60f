"""A right answer to steps_needed, lesson 20, kept by the checker: delete it as you like."""

from __future__ import annotations


def steps_needed(lengths, slots, continuous):
    """Steps until all requests, taken in order, have their ``lengths`` tokens; a request gets one token per step."""
    ### BEGIN SOLUTION
    if not continuous:
        return sum(max(lengths[i : i + slots]) for i in range(0, len(lengths), slots))
    free = [0] * slots
    for length in lengths:
        first = free.index(min(free))
        free[first] += length
    return max(free)
    ### END SOLUTION
