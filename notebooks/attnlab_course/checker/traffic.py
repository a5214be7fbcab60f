"""What a program on a counting machine moves, and what it holds beside it."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from attnlab_course.checker.exercise import Cost, Function
from attnlab_course.checker.machines import tiled_call
from attnlab_course.checker.promises import Measure, inverse, traced_memory
from attnlab_course.instruments.machine import Machine

import numpy as np


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


def large_call() -> tuple:
    """A call with many keys: K is four times as large as SRAM, and all scores are eight times."""
    return tiled_call(32, 512, 16, 16, 8, 32)


def machine_costs(
    make: Callable[[], tuple], need: int, source: str, about: str, large: Callable[[], tuple] = large_call
) -> tuple[Cost, ...]:
    """A program moves the ``need`` elements of ``source``, no more and no less; ``about``: the call that is counted.

    And what it holds it holds in SRAM, not in plain arrays beside the machine; its blocks are those of the call, the
    last two sizes; and it returns what it has stored.
    """
    return (
        Cost(moved(make, need), 1, f"It moves {{found:.2f}} times the elements of {source}, {about}."),
        Cost(inverse(moved(make, need)), 1, f"{source[0].upper()}{source[1:]} has {{found:.2f}} times the elements "
             "that it moves. It computes with numbers that it did not load, returns some that it did not store, or "
             "leaves a visit out."),
        Cost(beside(large), FREE, "It held {found:.1f} times the size of SRAM in plain arrays, beside the machine. "
             "What a program keeps has to fit into SRAM (eq. 8.7) and be released there."),
        Cost(loaded_blocks(make), 1, "The largest of its blocks of queries or of keys is {found:.1f} times as large or "
             "as small as block_q and block_k say."),
        Cost(after_fetch(make), 0, "{found:.0f}% of the numbers that it returns are nowhere in HBM: they're computed "
             "after machine.fetch, where nothing is counted."),
    )
