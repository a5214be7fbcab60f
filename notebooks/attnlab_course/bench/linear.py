"""Linear attention (``--linear``): its three forms beside tiled and PyTorch's own softmax attention, causal, elu + 1.

For each pass a table of times by length and library, and one of crossovers: the length from which a form is faster
than another, found between two measured lengths by a straight line in both logarithms. What would not fit into memory,
or takes longer than a call may, is left out with a line that says so; its time is foreseen from lengths before.
"""

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from attnlab import costs
from attnlab.linear import FORMS, linear_attention
from attnlab.measure import GRADIENTS
from attnlab_course.bench.calls import inputs, prepare
from attnlab_course.bench.contestants import ORDER, UNIT, Contestant, available
from attnlab_course.bench.setting import Setting
from attnlab_course.bench.table import grid, remarks
from attnlab_course.instruments import hardware
from attnlab_course.instruments.timing import interleave, medians, ready

LENGTHS = (256, 1024, 4096, 16384, 65536)
PASSES = Setting(causal=True), Setting(causal=True, gradient=True)
LONGEST = 30  # seconds of a call
METHODS = ("tiled", *reversed(FORMS))
HEAD = ("N", "", "sdpa", *METHODS, "chunked ÷ sdpa", "fastest")


def print_tables(lengths: Sequence[int] | None, rounds: int | None, seconds: float | int) -> None:
    """Measure every library that is installed, and print a table and the crossovers of each pass."""
    libraries, _ = available("cpu", ORDER)
    for work in PASSES:
        found: dict[int, dict[str, float]] = {}
        rows, left = [], []
        for n in sorted(lengths or LENGTHS):
            setting = replace(work, n=n)
            everyone = contestants(libraries, work)
            notes = {c.name: why for c in everyone if (why := left_out(c, setting, found))}
            calls = {c.name: call(c, setting) for c in everyone if c.name not in notes}
            taken, failed = interleave(calls, rounds, seconds)
            found[n] = medians(taken)
            notes |= {name: f"failed: {why}" for name, why in failed.items()}
            rows += lines(libraries, n, found[n])
            left += remarks({f"{name} at N = {n:,}": why for name, why in notes.items()})
        print(*title(work), *grid(HEAD, rows), *left, "", sep="\n")
        head = "faster from N on than", "sdpa", *METHODS
        print(*grid(head, crossovers(libraries, found)), "", sep="\n", flush=True)


def contestants(libraries: Sequence[str], work: Setting) -> list[Contestant]:
    """PyTorch's own; tiled and the forms in each library. NumPy has no gradient of the forms, and stays out of it."""
    able = [x for x in libraries if not (work.gradient and x == "numpy")]
    return [UNIT] * (UNIT.library in able) + [Contestant(x, method) for x in able for method in METHODS]


def call(contestant: Contestant, setting: Setting) -> Callable[[], object]:
    """The call to time, compiled in JAX, which ends when the result is there."""
    if contestant.method not in FORMS:
        return prepare(contestant, setting)
    *arrays, _ = inputs(contestant, setting)
    run: Callable = functools.partial(linear_attention, causal=True, form=contestant.method)
    if setting.gradient:
        run = functools.partial(GRADIENTS[contestant.library], run)
    if contestant.library == "jax":
        import jax

        run = jax.jit(run)
    return lambda: ready(run(*arrays))


def left_out(contestant: Contestant, setting: Setting, found: Mapping[int, Mapping[str, float]]) -> str | None:
    """Why a contestant does not run at this length, if it does not."""
    n, form = setting.n, contestant.method
    if form in FORMS:
        size = costs.linear_extra_elements(form, n, n, setting.d, setting.d, gradient=setting.gradient)
        if 4 * setting.heads * size > hardware.memory_size() / 16:  # copies of it are held, too
            return f"left out, because it holds at least {4 * setting.heads * size / 2**30:.1f} GiB"
    before = [m for m in found if contestant.name in found[m]]
    if found and not before:
        return "left out, as before"
    power = 1 if form in ("recurrent", "chunked") else 2
    took = found[max(before)][contestant.name] * (n / max(before)) ** power if before else 0
    return f"left out, because a call would take about {took:.0f} s" if took > LONGEST else None


def title(work: Setting) -> Iterator[str]:
    """What a table is about."""
    yield "softmax (sdpa, tiled) and linear attention (elu + 1, three forms); times in ms"
    yield f"{work.work}, causal, {work.heads} heads of size {work.d}, {work.dtype}"


def lines(libraries: Sequence[str], n: int, middle: Mapping[str, float]) -> Iterator[list[str]]:
    """Rows for one length, a library each: medians in ms, – what did not run, and which is the fastest."""
    unit = middle.get(UNIT.name)
    for library in libraries:
        times = {x: middle[f"{library} {x}"] for x in METHODS if f"{library} {x}" in middle}
        if not times:
            continue
        ratio = f"{times['chunked'] / unit:.3f}" if unit and "chunked" in times else "–"
        cells = [f"{n:,}", library, _ms(unit), *(_ms(times.get(x)) for x in METHODS), ratio]
        times |= {} if unit is None else {"sdpa": unit}
        yield [*cells, min(times, key=times.__getitem__)]


def _ms(seconds: float | None) -> str:
    """A time in ms, or –."""
    return "–" if seconds is None else f"{1e3 * seconds:,.2f}"


def crossovers(libraries: Sequence[str], found: Mapping[int, Mapping[str, float]]) -> Iterator[list[str]]:
    """Rows, one for each form: from which length on it is faster than sdpa, tiled and the other forms."""
    for library in libraries:
        for form in FORMS:
            name, cells = f"{library} {form}", []
            for other in (UNIT.name, *(f"{library} {x}" for x in METHODS)):
                both = [n for n in sorted(found) if other != name and {name, other} <= set(found[n])]
                cells.append(crossover_length({n: found[n][name] / found[n][other] for n in both}) if both else "–")
            if set(cells) != {"–"}:
                yield [name, *cells]


def crossover_length(ratios: Mapping[int, float]) -> str:
    """The length from which on a ratio stays below 1, between lengths by log ratio against log N; ≤ and > the ends."""
    above = [n for n, ratio in ratios.items() if ratio >= 1]
    if not above:
        return f"≤ {min(ratios):,}"
    low = max(above)
    if low == max(ratios):
        return f"> {low:,}"
    high = min(n for n in ratios if n > low)
    share = math.log(ratios[low]) / math.log(ratios[low] / ratios[high])
    return f"{low * (high / low) ** share:,.0f}"
