"""Simulate memory policies on requests of given lengths. Array-free.

Requests wait in a queue that never runs dry. A step admits as many as the memory takes and gives each running request
one token; one that is finished leaves.

    reserve the maximum    a contiguous piece of the longest length allowed
    powers of two          a piece of the prompt and the next power of two of the output
    oracle                 a piece of what will be used, known before
    pages                  blocks as tokens come; if none is left, the newest request goes back to be computed again

Pieces come from a buddy allocator, which rounds to a power of two. Source: Kwon et al. 2023, sections 3.1 and 6.1.
"""

import math
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from attnlab.paged.manager import BlockManager, OutOfBlocks
from attnlab_course.lessons.lesson19.buddy_allocator import Buddy


class Lengths(NamedTuple):
    """Tokens of a prompt, and tokens that will be written."""

    prompt: int
    output: int


class Shares(NamedTuple):
    """How the slots of a memory are used, as shares, and how many requests run, on average over the steps."""

    tokens: float
    reserved: float  # will be used by the request that holds them
    unused: float  # never will
    outside: float  # belong to no request, or were added by rounding
    running: float


def draw(count: int, prompt: float, output: float, seed: int, longest: int = 2048) -> list[Lengths]:
    """Requests of lognormal lengths with these means, whose standard deviations are as large, cut at ``longest``."""
    generator, sigma = random.Random(seed), math.sqrt(math.log(2))

    def length(mean: float) -> int:
        return max(1, round(generator.lognormvariate(math.log(mean) - sigma**2 / 2, sigma)))

    pairs = ((min(length(prompt), longest - 1), length(output)) for _ in range(count))
    return [Lengths(before, min(after, longest - before)) for before, after in pairs]


class Reserved:
    """A contiguous piece for each request, of as many slots as ``room`` says, at the beginning and for good."""

    def __init__(self, slots: int, room: Callable[[Lengths], int]) -> None:
        self.slots, self.room = slots, room
        self._buddy, self._pieces = Buddy(slots), dict[int, tuple[int, int]]()

    def admit(self, name: int, request: Lengths, tokens: int) -> bool:
        """Whether there is room for a request."""
        piece = self._buddy.take(self.room(request))
        if piece is not None:
            self._pieces[name] = piece
        return piece is not None

    def append(self, name: int) -> bool:
        """There is room for one more token always."""
        return True

    def held(self, name: int, request: Lengths) -> int:
        """Slots that belong to a request."""
        return self.room(request)

    def free(self, name: int) -> None:
        """A request ends."""
        self._buddy.give(*self._pieces.pop(name))


class PagedMemory:
    """Blocks, as tokens come. A request is admitted if its tokens and one more find room."""

    def __init__(self, slots: int, block_size: int) -> None:
        self.manager = BlockManager(slots // block_size, block_size)
        self.slots = slots

    def admit(self, name: int, request: Lengths, tokens: int) -> bool:
        """Whether there is room for the tokens of a request so far, and one more."""
        if -(-(tokens + 1) // self.manager.block_size) > self.manager.free_blocks:
            return False
        self.manager.add(name)
        self.manager.append(name, tokens)
        return True

    def append(self, name: int) -> bool:
        """Whether there is room for one more token, which is taken."""
        try:
            self.manager.append(name, 1)
        except OutOfBlocks:
            return False
        return True

    def held(self, name: int, request: Lengths) -> int:
        """Slots of the blocks of a request."""
        return len(self.manager.table(name)) * self.manager.block_size

    def free(self, name: int) -> None:
        """A request ends, or is sent back."""
        self.manager.free(name)


def policies(slots: int, block_size: int = 16, longest: int = 2048) -> dict[str, Reserved | PagedMemory]:
    """A memory of ``slots`` tokens under each of the four policies."""
    return {
        "reserve the maximum": Reserved(slots, lambda request: longest),
        "powers of two": Reserved(slots, lambda x: min(x.prompt + (1 << (x.output - 1).bit_length()), longest)),
        "oracle": Reserved(slots, sum),
        "pages": PagedMemory(slots, block_size),
    }


def simulate(memory: Reserved | PagedMemory, requests: Iterable[Lengths]) -> Shares:
    """Run requests through a memory until none is left to wait; averages over the steps until then.

    ValueError if they all fit in at once, or if one never does.
    """
    requests = list(requests)
    steps = list(_steps(memory, requests))
    if not steps:
        raise ValueError(f"all {len(requests)} requests fit into {memory.slots} slots at once; give more of them")
    return Shares(*(sum(values) / len(steps) for values in zip(*steps)))


def _steps(memory: Reserved | PagedMemory, requests: list[Lengths]) -> Iterator[Shares]:
    waiting, tokens = deque(range(len(requests))), [request.prompt for request in requests]
    running = list[int]()
    while True:
        while waiting and memory.admit(waiting[0], requests[waiting[0]], tokens[waiting[0]]):
            running.append(waiting.popleft())
        if not waiting:
            return
        if not running:
            raise ValueError(f"{requests[waiting[0]]} finds no room in an empty memory of {memory.slots} slots")
        grown = 0
        while grown < len(running):
            if memory.append(running[grown]):
                tokens[running[grown]] += 1
                grown += 1
            else:
                waiting.appendleft(running.pop())
                memory.free(waiting[0])
        yield _shares(memory, [(memory.held(x, requests[x]), tokens[x], sum(requests[x])) for x in running])
        for name in [x for x in running if tokens[x] == sum(requests[x])]:
            running.remove(name)
            memory.free(name)


def _shares(memory: Reserved | PagedMemory, rows: list[tuple[int, int, int]]) -> Shares:
    """Of one step: slots that are held, tokens so far and tokens at the end, by request."""
    tokens = sum(now for _, now, _ in rows)
    reserved = sum(min(held, end) - now for held, now, end in rows)
    unused = sum(max(held - end, 0) for held, _, end in rows)
    parts = tokens, reserved, unused, memory.slots - tokens - reserved - unused
    return Shares(*(part / memory.slots for part in parts), len(rows))
