"""Times that can be compared: interleaved rounds, and whether the machine was quiet enough to believe them."""

import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from attnlab.call import missing

try:
    from tqdm import tqdm
except ModuleNotFoundError as error:
    raise missing("tqdm", "bench") from error

Call = Callable[[], object]

FEWEST, MOST = 3, 31  # rounds, unless they are asked for
LIMIT = 0.10  # spread or drift of a yardstick above which the machine counts as noisy
SETTLE = 0.15  # seconds in which the threads of the last library stop spinning and those of the next wake up
SHORT = 0.02  # seconds: a shorter call is repeated so long, and the median taken


def ready(x: object) -> object:
    """Wait for what returns before it has computed: JAX, and PyTorch on a GPU."""
    jax, torch = sys.modules.get("jax"), sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return x if jax is None else jax.block_until_ready(x)


def interleave(
    calls: Mapping[str, Call], rounds: int | None = None, seconds: float | int = 12, settle: bool = True
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Seconds of each call, round after round, after one round that compiles and warms up; and why others failed.

    ``rounds`` None: as many as ``seconds`` allow, 3 at the least and 31 at the most. A call that raises
    RuntimeError or MemoryError in the first round is left out of the others. ``settle``: where the library,
    the first word of a name, changes, call untimed for a while, and repeat short calls. Else one library's threads,
    still spinning, slow the next one down: seen to cost 25 ms after NumPy, half of a call at N = 2048.
    """
    with tqdm(total=(1 + (rounds or FEWEST)) * len(calls), disable=None, leave=False) as bar:
        failed = _warm_up(calls, bar)
        calls = {name: call for name, call in calls.items() if name not in failed}
        taken: dict[str, list[float]] = {name: [] for name in calls}
        turn, wanted, start = 0, rounds, time.perf_counter()
        while turn < (wanted or 1):
            _one_round(calls, taken, bar, settle)
            turn += 1
            if wanted is None:
                wanted = min(max(round(seconds / (time.perf_counter() - start)), FEWEST), MOST)
                bar.total = bar.n + (wanted - 1) * len(calls)
    return taken, failed


def _warm_up(calls: Mapping[str, Call], bar: tqdm) -> dict[str, str]:
    """Call everything once; the first line of what was raised, by name."""
    failed = {}
    for name, call in calls.items():
        bar.set_description(f"{name}, warming up")
        try:
            call()
        except (RuntimeError, MemoryError) as error:
            failed[name] = (str(error).splitlines() or [type(error).__name__])[0]
        bar.update()
    return failed


def _one_round(calls: Mapping[str, Call], taken: dict[str, list[float]], bar: tqdm, settle: bool) -> None:
    """Time each call once."""
    library = ""
    for name, call in calls.items():
        bar.set_description(name)
        if settle and name.partition(" ")[0] != library:
            library = name.partition(" ")[0]
            _seconds_of(call, SETTLE)
        taken[name].append(_seconds_of(call, SHORT if settle else 0))
        bar.update()


def _seconds_of(call: Call, least: float | int) -> float:
    """Seconds of a call; the median if several fit into ``least``."""
    taken, begin = [], time.perf_counter()
    while not taken or time.perf_counter() - begin < least:
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def spread(values: Sequence[float]) -> float:
    """Interquartile range over median; 0 for a single value."""
    if len(values) < 2:
        return 0.0
    low, middle, high = statistics.quantiles(values, method="inclusive")
    return (high - low) / middle


def drift(values: Sequence[float]) -> float:
    """How much the second half took longer than the first, by medians; 0 for fewer than four values."""
    if len(values) < 4:
        return 0.0
    half = len(values) // 2
    return statistics.median(values[-half:]) / statistics.median(values[:half]) - 1
