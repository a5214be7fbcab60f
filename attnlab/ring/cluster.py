"""Many devices in one process: ranks are generators, and every byte between them is counted.

A program is a generator function. It runs until it needs a message, yields, and goes on when the message is there, in
the order of the ranks: the same every time. What is counted does not depend on that order, nor does the clock:

    a message leaves when its sender has computed so far and the link from sender to receiver is free; it occupies the
    link for bytes / bandwidth and arrives ``latency`` later (the α–β model); sending and computing go on side by side
    a rank that receives waits for the message; work takes flops / rate

    def shift(rank, x):
        rank.send(x, to=(rank.index + 1) % rank.size)
        (x,) = yield rank.receive((rank.index - 1) % rank.size)
        return x

    cluster = Cluster(3)
    cluster.run(shift, [a, b, c])                        # [c, a, b]
    cluster.bytes, cluster.links[0, 1], cluster.messages, cluster.work, cluster.time
"""

import math
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from attnlab.core.arguments import integer
from attnlab.ring.rank import Rank
from attnlab.ring.turns import take_turns

from numpy import ndarray as Array

Link = float | Callable[[int, int], float]


class Message(NamedTuple):
    """Arrays that went from ``source`` to ``to``: in which step of the sender, bytes, seconds of departure, arrival."""

    source: int
    to: int
    step: int
    bytes: int
    start: float
    end: float


class Work(NamedTuple):
    """What a rank computed: in which of its steps, visible pairs of one head, operations, seconds of start and end."""

    rank: int
    step: int
    pairs: int
    flops: float
    start: float
    end: float


class Cluster:
    """``devices`` ranks with links between any two of them, one each way. Several runs add up.

    ``latency`` of a link in seconds, ``bandwidth`` in bytes per second and direction: numbers, or functions of
    (source, to). ``rate`` of a rank in operations per second.
    ``messages`` and ``work`` list what happened; ``bytes``, ``links`` {(source, to): bytes} and ``steps`` {step: bytes}
    sum it up; ``time`` is the clock of the slowest rank.
    """

    def __init__(self, devices: int, *, latency: Link = 0, bandwidth: Link = math.inf, rate: float = math.inf) -> None:
        self.devices = integer("devices", devices, 1)
        self.latency, self.bandwidth, self.rate = latency, bandwidth, rate
        self.ranks = [Rank(index, devices, self._carry, self._compute) for index in range(devices)]
        self.messages: list[Message] = []
        self.work: list[Work] = []
        self._free: Counter[tuple[int, int]] = Counter()  # when each link has carried what it was given
        self._mail: dict[tuple[int, int], deque[tuple[Message, tuple[Array, ...]]]] = {}

    @property
    def bytes(self) -> int:
        """All bytes sent."""
        return sum(message.bytes for message in self.messages)

    @property
    def links(self) -> Counter[tuple[int, int]]:
        """Bytes by link (source, to)."""
        return self._sum(lambda message: (message.source, message.to))

    @property
    def steps(self) -> Counter[int]:
        """Bytes by step."""
        return self._sum(lambda message: message.step)

    @property
    def time(self) -> float:
        """Seconds until the last rank is done."""
        return max(rank.time for rank in self.ranks)

    def _sum(self, by: Callable[[Message], Any]) -> Counter:
        found = Counter()
        for message in self.messages:
            found[by(message)] += message.bytes
        return found

    def run(self, program: Callable, *shards: Sequence, **options: Any) -> list:
        """What program(rank, *its shards, **options) returns on each rank; ``shards``: sequences of one item a rank.

        Raises Deadlock, what a program raises (which ends the others), and RuntimeError for a message that nobody
        received.
        """
        for place, given in enumerate(shards):
            if len(given) != self.devices:
                raise ValueError(f"shards[{place}] has {len(given)} items; there are {self.devices} ranks")
        self._mail.clear()
        for rank in self.ranks:
            rank.step = 0
        programs = [program(rank, *(given[rank.index] for given in shards), **options) for rank in self.ranks]
        results = take_turns(programs, self._deliver)
        for (source, to), left in self._mail.items():
            if left:
                count = f"{len(left)} message" + "s" * (len(left) > 1)
                raise RuntimeError(f"rank {source} sent rank {to} {count} that it never received")
        return results

    def _carry(self, rank: Rank, to: int, arrays: tuple[Array, ...]) -> None:
        """Put a message on its link, which is busy until it's through."""
        link, size = (rank.index, to), sum(x.nbytes for x in arrays)
        start = max(rank.time, self._free[link])
        self._free[link] = start + size / _at(self.bandwidth, *link)
        message = Message(*link, rank.step, size, start, self._free[link] + _at(self.latency, *link))
        self.messages.append(message)
        self._mail.setdefault(link, deque()).append((message, arrays))

    def _deliver(self, index: int, source: int) -> tuple[Array, ...] | None:
        """The next message of ``source`` for a rank, whose clock moves on to its arrival."""
        mail, rank = self._mail.get((source, index)), self.ranks[index]
        if not mail:
            return None
        message, arrays = mail.popleft()
        rank.time, rank.step = max(rank.time, message.end), rank.step + 1
        return arrays

    def _compute(self, rank: Rank, pairs: int, flops: float) -> None:
        """Note work of a rank, and move its clock on."""
        start, rank.time = rank.time, rank.time + flops / self.rate
        self.work.append(Work(rank.index, rank.step, pairs, flops, start, rank.time))


def _at(place: Link, source: int, to: int) -> float:
    """A property of one link: a number for all links, or a function of its ends."""
    return place(source, to) if callable(place) else place
