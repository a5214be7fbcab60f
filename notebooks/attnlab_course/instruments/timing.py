"""A stopwatch: calls are timed in turns, round after round, so that the machine's moods fall on all alike."""

import gc
import math
import statistics
import sys
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

from attnlab.core.dispatch import library_missing

try:
    from tqdm.auto import tqdm
except ModuleNotFoundError as error:
    raise library_missing("tqdm", "bench") from error

Call = Callable[[], object]
Name = TypeVar("Name", bound=Hashable)

FEWEST = 10  # rounds, where there is time for them
THREE, WITHIN = 3, 0.10  # settled: of the medians of three rounds each, the middle half lies within a tenth
SAMPLE = 0.02  # seconds: a shorter call is repeated so long, after an untimed one that meets what others left in caches
SETTLE = 0.15  # seconds in which the threads of the last library stop spinning and those of the next wake up


def wait_for(x: object) -> object:
    """Wait for what returns before it has computed: JAX, and PyTorch on a GPU."""
    jax, torch = sys.modules.get("jax"), sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return x if jax is None else jax.block_until_ready(x)


def interleave(
    calls: Mapping[Name, Call], rounds: int | None = None, seconds: float | int = 12, *, least: int = 3,
    settle: float | int = 0.0, now: Callable[[], float] = time.perf_counter, failed: dict[Name, str] | None = None,
) -> dict[Name, list[float]]:
    """Seconds of each call in every round, after one round that compiles and warms up.

    ``rounds`` None: ten, and more until all have settled; after ``seconds`` it stops anyway, once there are ``least``.
    ``now``: the clock. ``settle``: for so long a call runs untimed where the library, the first word of its name,
    changes. Else one library's threads, still spinning, slow the next one down: seen to cost 25 ms after NumPy, half
    of a call at N = 2048. ``failed``: where given, a call that raises RuntimeError or MemoryError in the first round
    is left out, and noted there.
    """
    with tqdm(unit="call", disable=None, leave=False) as bar:
        taken: dict[Name, list[float]] = {}
        for name, call in calls.items():
            bar.set_description(f"{name}, warming up")
            try:
                call()
                taken[name] = []
            except (RuntimeError, MemoryError) as error:
                if failed is None:
                    raise
                failed[name] = (str(error).splitlines() or [type(error).__name__])[0]
        turn, start, library = 0, time.perf_counter(), ""
        while not _enough(taken, turn, rounds, least, time.perf_counter() - start > seconds):
            for name, values in taken.items():
                bar.set_description(f"{name}")
                last, library = library, str(name).partition(" ")[0]
                until = time.perf_counter() + settle
                while library != last and time.perf_counter() < until:
                    calls[name]()
                values.append(_sample(calls[name], now))
                bar.update()
            turn += 1
    return taken


def _enough(taken: Mapping[Name, list[float]], turn: int, rounds: int | None, least: int, late: bool) -> bool:
    """Whether this was the last round."""
    if rounds is not None:
        return turn >= rounds
    return turn >= (least if late else FEWEST) and (late or all(map(has_settled, taken.values())))


def _sample(call: Call, now: Callable[[], float]) -> float:
    """Seconds of one call; of a short one, the mean of as many as fill a sample."""
    taken = _seconds(call, now, 1)
    return taken if taken >= SAMPLE else _seconds(call, now, math.ceil(SAMPLE / max(taken, 1e-7)))


def _seconds(call: Call, now: Callable[[], float], times: int) -> float:
    gc.collect(0)
    gc.disable()
    start = now()
    for _ in range(times):
        call()
    taken = (now() - start) / times
    gc.enable()
    return taken


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Lower quartile, median, upper quartile."""
    return tuple(statistics.quantiles(values, method="inclusive")) if len(values) > 1 else (values[0],) * 3


def has_settled(values: Sequence[float]) -> bool:
    """Whether the middle half of the medians of three rounds each lies within a tenth of their median.

    Fewer than ten rounds are taken as they are.
    """
    if len(values) >= FEWEST:
        values = [statistics.median(values[i : i + THREE]) for i in range(0, len(values) - THREE + 1, THREE)]
    low, middle, high = quartiles(values)
    return high - low <= WITHIN * middle
