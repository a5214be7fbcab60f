"""The project's own targets on a CPU (``--targets``): 8 heads of size 64, float32, N = M; target, reached, verdict.

Times are compared with PyTorch's scaled_dot_product_attention, and of one library among themselves: causal and a
window with the full call, two key heads with eight, a padding mask with none, chunked with tiled. Extra memory must
not depend on N.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from attnlab.core.geometry import tile_sizes
from attnlab_course.bench.calls import flops, prepare
from attnlab_course.bench.contestants import ORDER, UNIT, Contestant
from attnlab_course.bench.extra_memory import extra_memory
from attnlab_course.bench.setting import Setting
from attnlab_course.bench.table import grid
from attnlab_course.instruments.timing import medians, noise, timed

LONG = 2**20  # JAX's memory is known without running: at this length too
VARIANTS = {
    "causal": {"causal": True},
    "window of 512 keys": {"window": (511, 0)},
    "2 key heads": {"kv_heads": 2},
    "padding mask": {"padding": True},
}


@dataclass(frozen=True)
class Target:
    """``what`` takes at most ``bound`` times as long as ``unit``; ``at``: only at this length."""

    what: str
    unit: str
    bound: float
    gradient: bool = False
    at: int | None = None


TARGETS = [
    Target("jax tiled", UNIT.name, 0.55),
    Target("torch tiled", UNIT.name, 1.10),
    Target("numpy tiled", UNIT.name, 1.60),
    Target("jax tiled", UNIT.name, 0.70, gradient=True),
    Target("torch tiled", UNIT.name, 1.05, gradient=True),
    *[Target(f"{x} tiled, causal", f"{x} tiled", 0.60) for x in ORDER],
    *[Target(f"{x} tiled, window of 512 keys", f"{x} tiled", 0.08, at=16384) for x in ORDER],
    *[Target(f"{x} tiled, 2 key heads", f"{x} tiled", 1.05) for x in ORDER],
    *[Target(f"{x} tiled, padding mask", f"{x} tiled", 1.15) for x in ORDER],
    *[Target(f"{x} chunked", f"{x} tiled", 1.50) for x in ORDER],
]
GOAL = 0.80  # of the library's own matrix products, in the forward


@dataclass(frozen=True)
class TargetResult:
    """One line of the result."""

    what: str
    target: str
    reached: str
    met: bool

    @property
    def cells(self) -> tuple[str, ...]:
        """A row of the table."""
        return self.what, self.target, self.reached, "met" if self.met else "MISSED"


def print_verdicts(lengths: Sequence[int], rounds: int | None, seconds: float | int) -> None:
    """Measure everything and print the verdicts."""
    for n in lengths:
        for gradient in (False, True):
            taken = timed(timed_calls(n, gradient), rounds, seconds)
            times = medians(taken)
            setting = Setting(n, gradient=gradient)
            print(f"{setting}: medians of {len(taken[UNIT.name])} rounds; sdpa took {times[UNIT.name] * 1e3:.1f} ms")
            loud = noise(taken, [name for name in taken if name == UNIT.name or name.endswith("products")])
            print(*listed(judge(times, n, gradient)), *([loud] if loud else []), "", sep="\n", flush=True)
    print("Extra memory, in units of block_q · block_k · heads numbers; equal but for lse, with the gradient also D")
    print(*listed(memory_verdicts(lengths)), sep="\n")


def listed(found: Sequence[TargetResult]) -> Iterator[str]:
    """Lines to print."""
    return grid(("", "target", "reached", ""), (result.cells for result in found))


def timed_calls(n: int, gradient: bool) -> dict[str, Callable[[], object]]:
    """What the targets of one length and pass compare, and the products."""
    plain = Setting(n, gradient=gradient)
    wanted = [t for t in TARGETS if t.gradient == gradient and t.at in (None, n)]
    names = {name for t in wanted for name in (t.what, t.unit)} | {f"{x} products" for x in ORDER}
    found = {}
    for name in sorted(names, key=_run_order):
        contestant, _, variant = name.partition(", ")
        setting = dataclasses.replace(plain, **VARIANTS.get(variant, {}))
        found[name] = prepare(Contestant(*contestant.split(" ")), setting)
    return found


def _run_order(name: str) -> tuple[int, bool, str]:
    """Sort key: libraries together, products first, because their first call warms up the library's threads."""
    library, method = name.split(" ", 1)
    return ORDER.index(library), method != "products", method


def judge(times: Mapping[str, float], n: int, gradient: bool) -> list[TargetResult]:
    """Targets of time for one length and pass, from the seconds of each call."""
    found = []
    for t in TARGETS:
        if t.gradient == gradient and t.at in (None, n):
            ratio = times[t.what] / times[t.unit]
            found.append(TargetResult(f"{t.what} ÷ {t.unit}", f"≤ {t.bound:.2f}", f"{ratio:.3f}", ratio <= t.bound))
    if not gradient:
        setting = Setting(n)
        for library in ORDER:
            rate = flops(Contestant(library, "products"), setting) / times[f"{library} products"]
            fraction = setting.flops / times[f"{library} tiled"] / rate
            found.append(TargetResult(f"goal: {library} tiled, of its products", f"≥ {GOAL:.0%}", f"{fraction:.1%}",
                                      fraction >= GOAL))
    return found


def memory_verdicts(lengths: Sequence[int]) -> list[TargetResult]:
    """Extra memory of tiled at two lengths or more."""
    lengths = sorted(lengths) if len(lengths) > 1 else [lengths[0] // 2, lengths[0]]
    plan = {
        (library, gradient): [*lengths, LONG] if library == "jax" else lengths
        for gradient in (False, True) for library in ORDER
    }  # fmt: skip
    tasks = [(Contestant(x, "tiled"), Setting(n, gradient=g)) for (x, g), where in plan.items() for n in where]
    sizes = iter(extra_memory(tasks))
    found = []
    for (library, gradient), where in plan.items():
        found.append(equal_memory(f"{library} tiled", {n: next(sizes) for n in where}, gradient))
    return found


def equal_memory(name: str, sizes: Mapping[int, int], gradient: bool) -> TargetResult:
    """Whether extra memory is equal at all lengths but for lse, with the gradient also D: a number a query and head."""
    heads, shortest, longest = Setting().heads, min(sizes), max(sizes)
    block_q, block_k = tile_sizes((heads, 1), None, None)
    unit = 4 * block_q * block_k * heads
    growth = sizes[longest] - sizes[shortest] - 4 * (1 + gradient) * heads * (longest - shortest)
    what = f"{name}, {Setting(gradient=gradient).work}, N = {', '.join(str(n) for n in sizes)}"
    reached = ", ".join(f"{size / unit:.2f}" for size in sizes.values())
    return TargetResult(what, "equal", reached, growth <= 0.01 * unit)
