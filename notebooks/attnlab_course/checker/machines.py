"""Counting machines as arguments, fresh ones for each answer; what a program moves on one, and holds beside it."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from attnlab_course.checker.exercise import Case, Cost, Function
from attnlab_course.checker.fingerprints import DEEP, levels, lifted
from attnlab_course.checker.promises import Measure, inverse, traced_memory
from attnlab_course.instruments.machine import Machine, Ref

import numpy as np


class Handed(Ref):
    """A reference that keeps its identity when the checker copies the arguments."""

    def __deepcopy__(self, memo: Any) -> "Handed":
        return self

    __call__ = Ref._refuse  # the checker does not compare what can be called


class Bench(Machine):
    """A strict machine with arrays in HBM. A copy is a fresh one: its inputs under the same references."""

    def __init__(self, inputs: dict[Ref, np.ndarray], capacity: int) -> None:
        super().__init__(capacity, itemsize=1, strict=True)
        self.inputs = inputs
        for ref, array in inputs.items():
            self._hbm[ref] = array.copy()

    def __deepcopy__(self, memo: Any) -> "Bench":
        return Bench(self.inputs, self.sram.capacity)

    def __eq__(self, other: object) -> bool:
        """Whether the inputs are the same still; NaN counts as equal to itself."""
        return isinstance(other, Bench) and all(
            np.array_equal(self._hbm[r], other._hbm[r], equal_nan=True) for r in self.inputs
        )

    __hash__ = None


def bench(inputs: dict[str, np.ndarray], capacity: int) -> tuple:
    """A machine whose SRAM holds ``capacity`` elements, and a reference to each of the named inputs in its HBM."""
    refs = {Handed(name, array.shape, array.dtype): array for name, array in inputs.items()}
    return Bench(refs, capacity), *refs


def tiled_call(
    n: int, m: int, d: int, dv: int, block_q: int, block_k: int, scale: float = 1.0, level: Any = None
) -> tuple:
    """A machine, references to random Q (n, d), multiplied by ``scale``, K (m, d) and V (m, dv), and the two blocks.

    ``level``: where all scores lie, one number for each query. SRAM holds eq. 8.8, a second tile of scores and a
    second block of Q and O.
    """
    rng = np.random.default_rng(n + 100 * m)
    inputs = {"Q": scale * rng.normal(size=(n, d)), "K": rng.normal(size=(m, d)), "V": rng.normal(size=(m, dv))}
    if level is not None:
        inputs["Q"], inputs["K"] = lifted(inputs["Q"], inputs["K"], level)
    return *bench(inputs, tiled_capacity(d + dv, block_q, block_k)), block_q, block_k


def tiled_capacity(width: int, block_q: int, block_k: int) -> int:
    """Elements of SRAM for eq. 8.8 with D + Dv = ``width``, a second tile of scores and a second block of Q and O."""
    return 2 * block_q * block_k + (2 * block_q + block_k) * width + 10 * block_q


def tiled_cases() -> list[Case]:
    """From one query and one key to two blocks of either; scores far from 0."""
    return [
        Case("ONE: one query, one key, tiles of 1 by 1", tiled_call(1, 1, 1, 1, 1, 1)),
        Case("one tile: N = 2, M = 3, D = Dv = 2, tiles of 2 by 3", tiled_call(2, 3, 2, 2, 2, 3)),
        Case("two blocks of keys: N = 2, M = 6, D = 4, Dv = 2, tiles of 2 by 3", tiled_call(2, 6, 4, 2, 2, 3)),
        Case("two blocks of queries: N = 4, M = 3, D = Dv = 4, tiles of 2 by 3", tiled_call(4, 3, 4, 4, 2, 3)),
        *[Case(f"{label}; N = 4, M = 6, tiles of 2 by 3", tiled_call(4, 6, 4, 4, 2, 3, level=level))
          for label, level in levels(4).items()],
        Case("LOW: one query, one key, score −10¹²", tiled_call(1, 1, 2, 2, 1, 1, level=DEEP)),
    ]  # fmt: skip


def moved(make: Callable[[], tuple], need: int) -> Measure:
    """Elements that an answer loads and stores on the machine of ``make()``, over ``need``."""

    def found(answer: Function, library: str) -> float:
        machine, *rest = make()
        answer(machine, *rest)
        return machine.elements / need

    return found


def loaded_blocks(make: Callable[[], tuple]) -> Measure:
    """How far the largest loads of Q and K are from the blocks of ``make()``, its last two sizes: 1 if they agree."""

    def found(answer: Function, library: str) -> float:
        machine, q, k, *rest = make()
        most = largest_loads(answer, machine, q, k, *rest)
        ratios = [most[ref.name] / (size * ref.shape[1]) for ref, size in zip((q, k), rest[-2:])]
        return max(max(ratio, 1 / ratio) if ratio else float("inf") for ratio in ratios)

    return found


def largest_loads(answer: Function, machine: Machine, *args: Any) -> Counter[str]:
    """How many elements the largest load of each array has in a call, by the array's name."""
    most: Counter[str] = Counter()

    def watch(kind: str, name: str, index: Any, elements: int) -> None:
        if kind == "load":
            most[name] = max(most[name], elements)

    machine.watch = watch
    answer(machine, *args)
    return most


def after_fetch(make: Callable[[], tuple]) -> Measure:
    """Percent of the finite numbers returned that lie nowhere in HBM; −∞ may be put in where nothing was seen."""

    def found(answer: Function, library: str) -> float:
        machine, *rest = make()
        results = answer(machine, *rest)
        results = np.concatenate([np.ravel(x) for x in (results if isinstance(results, tuple | list) else [results])])
        results = results[np.isfinite(results)]
        return 100 * float(1 - np.isin(results, np.concatenate([x.ravel() for x in machine._hbm.values()])).mean())

    return found


FREE = 4  # SRAM's size so often: its tiles, and what one expression computes


def beside(make: Callable[[], tuple]) -> Measure:
    """Python's memory at the peak, without HBM and the results, over the bytes of the machine's SRAM; at least FREE.

    The least of some calls: the first ones also allocate what is kept for good.
    """

    def held_by(answer: Function) -> float:
        machine, *rest = make()
        with traced_memory() as high:
            results = answer(machine, *rest)
            held = high()
        hbm = sum(x.nbytes for ref, x in machine._hbm.items() if ref not in machine.inputs)
        own = sum(x.nbytes for x in (results if isinstance(results, tuple | list) else [results]))
        return (held - hbm - own) / (8 * machine.sram.capacity)

    def found(answer: Function, library: str) -> float:
        least = float("inf")
        for _ in range(4):
            least = min(least, held_by(answer))
            if least <= FREE:
                return FREE
        return least

    return found


def machine_costs(
    make: Callable[[], tuple], need: int, source: str, about: str,
    large: Callable[[], tuple] = lambda: tiled_call(32, 512, 16, 16, 8, 32),
) -> tuple[Cost, ...]:
    """A program moves the ``need`` elements of ``source``, no more and no less; ``about``: the call that is counted.

    And what it holds it holds in SRAM, not in plain arrays beside the machine; its blocks are those of the call, the
    last two sizes; and it returns what it has stored. ``large``: a call whose K is four times as large as SRAM.
    """
    return (
        Cost(moved(make, need), 1, f"It moves {{found:.2f}} times the elements of {source}, {about}."),
        Cost(inverse(moved(make, need)), 1, f"{source[0].upper()}{source[1:]} has {{found:.2f}} times the elements "
             "that it moves. It computes with numbers that it did not load, returns some that it did not store, or "
             "leaves a visit out."),
        Cost(beside(large), FREE, "It held {found:.1f} times the size of SRAM in plain arrays, beside the machine. "
             "What a program keeps has to fit into SRAM (eqs. 8.6 and 8.8) and be released there."),
        Cost(loaded_blocks(make), 1, "The largest of its blocks of queries or of keys is {found:.1f} times as large or "
             "as small as block_q and block_k say."),
        Cost(after_fetch(make), 0, "{found:.0f}% of the numbers that it returns are nowhere in HBM: they're computed "
             "after machine.fetch, where nothing is counted."),
    )
