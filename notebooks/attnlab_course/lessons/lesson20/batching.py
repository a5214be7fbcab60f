"""Static and continuous batches of lesson 20, in integers, and prompts that begin alike."""

from collections.abc import Sequence


def bars(lengths: Sequence[int], slots: int, continuous: bool) -> list[tuple[int, int, int, int]]:
    """(slot, first step, steps, request) of requests that are taken in order, a token a step: eqs. 20.2 and 20.3."""
    free, found = [0] * slots, []
    for number, length in enumerate(lengths):
        if not continuous and number % slots == 0:
            free = [max(free)] * slots
        slot = min(range(slots), key=free.__getitem__)
        found.append((slot, free[slot], length, number))
        free[slot] += length
    return found


def found_by_tree(prompts: Sequence[Sequence[int]]) -> list[int]:
    """Tokens of each prompt that a tree of all earlier prompts holds: the longest common beginning, to the token."""
    root, found = {}, []
    for prompt in prompts:
        node, shared = root, 0
        for token in prompt:
            shared += token in node
            node = node.setdefault(token, {})
        found.append(min(shared, len(prompt) - 1))  # at least one is left to feed
    return found
