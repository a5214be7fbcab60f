"""What a program on a counting machine moves, and what it holds beside it."""

from collections.abc import Callable

from attnlab.check.exercise import Cost, Function
from attnlab.check.machines import tiled_call
from attnlab.check.promises import Measure, inverse, traced_memory


def moved(make: Callable[[], tuple], need: int) -> Measure:
    """Elements that an answer loads and stores on the machine of ``make()``, over ``need``."""

    def found(answer: Function, library: str) -> float:
        machine, *rest = make()
        answer(machine, *rest)
        return machine.elements / need

    return found


FREE = 4  # SRAM's size so often: its tiles, and what one expression computes


def beside(make: Callable[[], tuple]) -> Measure:
    """Python's memory at the peak, without HBM and the results, over the bytes of the machine's SRAM; at least FREE."""

    def found(answer: Function, library: str) -> float:
        machine, *rest = make()
        with traced_memory() as high:
            results = answer(machine, *rest)
            held = high()
        hbm = sum(x.nbytes for ref, x in machine._hbm.items() if ref not in machine.inputs)
        own = sum(x.nbytes for x in (results if isinstance(results, tuple | list) else [results]))
        return max(FREE, (held - hbm - own) / (8 * machine.sram.capacity))

    return found


def large_call() -> tuple:
    """A call with many keys: K is four times as large as SRAM, and all scores are eight times."""
    return tiled_call(32, 512, 16, 16, 8, 32)


def machine_costs(
    make: Callable[[], tuple], need: int, source: str, about: str, large: Callable[[], tuple] = large_call
) -> tuple[Cost, ...]:
    """A program moves the ``need`` elements of ``source``, no more and no less; ``about``: the call that is counted.

    And what it holds it holds in SRAM, not in plain arrays beside the machine.
    """
    return (
        Cost(moved(make, need), 1, f"It moves {{found:.2f}} times the elements of {source}, {about}."),
        Cost(inverse(moved(make, need)), 1, f"{source[0].upper()}{source[1:]} has {{found:.2f}} times the elements "
             "that it moves: it computes with numbers that it did not load, or returns some that it did not store."),
        Cost(beside(large), FREE, "It held {found:.1f} times the size of SRAM in plain arrays, beside the machine. "
             "What a program keeps must fit into SRAM (eq. 8.7), and there it is released."),
    )
