"""Clocks that can't contradict the text: how the lessons time code, and what their sentences claim of the times.

    clock = timed({"naive": {512: call, 1024: call}}, claims=[Slope("naive", 1.7, 2.3)])
    plots.show(figures.times(clock), clock=clock)

The seconds and the claims are stored beside the picture. ``make notebooks`` repeats a measurement that contradicts a
claim, or didn't settle and contradicts one at a quartile, and refuses to store it; a test reads what is stored once
more. On a reader's own machine the figure says where that machine disagrees with the text.
"""

import contextlib
import math
import os
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from attnlab_course.instruments.timing import FEWEST, Call, has_settled, interleave, quartiles, wait_for

from threadpoolctl import threadpool_limits

KEY = "attnlab_clock"  # where the record stands in the metadata of an output

Point = tuple[str, float]  # a name and a size


@dataclass(frozen=True)
class Slope:
    """Claim: the time of ``of`` grows as size to a power between ``low`` and ``high``, from ``start`` to ``stop``."""

    of: str
    low: float
    high: float
    start: float = 0
    stop: float = math.inf

    def fault(self, seconds: "Seconds", lean: int = 0) -> str:
        """What contradicts the claim; empty if nothing does. ``lean`` ±1: at the steepest, flattest quartiles."""
        points = [(x, row) for x, row in seconds[self.of].items() if self.start <= x <= self.stop]
        logs = [(math.log(x), math.log(row[1 + (lean if i >= len(points) / 2 else -lean)]))
                for i, (x, row) in enumerate(points)]
        slope = statistics.linear_regression(*zip(*logs, strict=True)).slope
        if self.low <= slope <= self.high:
            return ""
        return f"the time of {self.of} grows as size to the {slope:.2f}; the text says {self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class Ratio:
    """Claim: the time at point ``of`` over the time at point ``to`` is between ``low`` and ``high``."""

    of: Point
    to: Point
    low: float = 0
    high: float = math.inf

    def fault(self, seconds: "Seconds", lean: int = 0) -> str:
        """What contradicts the claim; empty if nothing does. ``lean`` ±1: at the largest, smallest quartiles."""
        (a, at_a), (b, at_b) = self.of, self.to
        ratio = seconds[a][at_a][1 + lean] / seconds[b][at_b][1 - lean]
        if self.low <= ratio <= self.high:
            return ""
        text = f"at least {self.low:g}" if self.high == math.inf else f"{self.low:g} to {self.high:g}"
        return f"{a} at {at_a:g} takes {ratio:.2f} times as long as {b} at {at_b:g}; the text says {text}"


Claim = Slope | Ratio
Seconds = Mapping[str, Mapping[float, tuple[float, float, float]]]


@dataclass(frozen=True)
class Clock:
    """Seconds of calls, and what the text claims of them.

    ``seconds``: name → size → lower quartile, median, upper quartile of the rounds, in seconds.
    """

    seconds: Seconds
    claims: Sequence[Claim] = ()
    rounds: int = FEWEST
    settled: bool = True
    threads: int = 1

    def median(self, name: str) -> dict[float, float]:
        """Size → median seconds."""
        return {size: row[1] for size, row in self.seconds[name].items()}

    def faults(self) -> list[str]:
        """The claims that these seconds contradict, a sentence for each."""
        return [said for claim in self.claims if (said := claim.fault(self.seconds))]

    def scatters(self) -> bool:
        """Whether the times haven't settled, and at their quartiles a claim fails that may hold at their medians."""
        unsure = any(claim.fault(self.seconds, lean) for claim in self.claims for lean in (-1, 1))
        return not self.settled and (unsure or not self.claims)

    def record(self) -> dict:
        """What is stored beside the picture, in JSON's types."""
        return {
            "rounds": self.rounds,
            "settled": self.settled,
            "threads": self.threads,
            "seconds": {name: [[x, *row] for x, row in rows.items()] for name, rows in self.seconds.items()},
            "claims": [
                {"kind": type(claim).__name__, **{k: v for k, v in asdict(claim).items() if v != math.inf}}
                for claim in self.claims  # JSON has no infinity
            ],
        }

    def metadata(self) -> dict[str, dict]:
        """The record as metadata of an output."""
        return {KEY: self.record()}


def from_record(record: Mapping) -> Clock:
    """The clock that was stored."""
    kinds = {"Slope": Slope, "Ratio": Ratio}
    claims = [kinds[said["kind"]](**{k: v for k, v in said.items() if k != "kind"}) for said in record["claims"]]
    seconds = {name: {x: tuple(row) for x, *row in rows} for name, rows in record["seconds"].items()}
    return Clock(seconds, claims, record["rounds"], record["settled"], record["threads"])


def stored_faults(output: Mapping) -> list[str]:
    """What is wrong with the times that an output of a stored notebook shows; nothing where it shows none."""
    record = output.get("metadata", {}).get(KEY)
    if record is None:
        return []
    clock = from_record(record)
    few = [f"the times are of {clock.rounds} rounds; it takes {FEWEST}"] if clock.rounds < FEWEST else []
    return clock.faults() + few + [f"the times still scatter after {clock.rounds} rounds"] * clock.scatters()


def timed(
    calls: Mapping[str, Mapping[float, Call]],
    claims: Sequence[Claim] = (),
    seconds: float | int = 20,
    threads: int = 1,
) -> Clock:
    """Time ``calls`` (name → size → call) in interleaved rounds: ten, and more until the medians settle.

    It stops after ``seconds`` in any case. With one thread, which is what the lessons time unless they are about
    threads, seconds are those in which this process computes: what else the machine does isn't counted. ``threads``
    above 1 counts seconds on the wall. The environment variable ATTNLAB_ROUNDS fixes the number of rounds (the tests
    run each call once, and look at no clock).
    """
    points = {
        (name, size): lambda call=call: wait_for(call())
        for name, sizes in calls.items() for size, call in sizes.items()
    }  # fmt: skip
    rounds = int(os.environ.get("ATTNLAB_ROUNDS", 0)) or None
    with one_thread() if threads == 1 else contextlib.nullcontext():
        now = time.process_time if threads == 1 else time.perf_counter
        taken = interleave(points, rounds, seconds, least=FEWEST, now=now)
    found = {name: {size: quartiles(taken[name, size]) for size in sizes} for name, sizes in calls.items()}
    return Clock(found, claims, min(map(len, taken.values())), all(map(has_settled, taken.values())), threads)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """NumPy and PyTorch compute with one thread, and where the system allows it all threads share one core (JAX)."""
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else 0
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_setaffinity") else set()
    with threadpool_limits(1):
        if torch:
            torch.set_num_threads(1)
        _pin({max(cores)} if cores else cores)
        try:
            yield
        finally:
            _pin(cores)
            if torch:
                torch.set_num_threads(before)


def _pin(cores: set[int]) -> None:
    """Keep all threads of this process on these cores; an empty set changes nothing."""
    for thread in os.listdir("/proc/self/task") if cores and os.path.isdir("/proc/self/task") else []:
        with contextlib.suppress(OSError):  # a thread that has just ended
            os.sched_setaffinity(int(thread), cores)
