"""Generators take turns: each runs until it waits, and goes on when what it waits for is there. Array-free."""

from collections.abc import Callable
from inspect import isgenerator
from typing import Any, NamedTuple


class Receive(NamedTuple):
    """A program that yields this goes on when a message of ``source`` is there."""

    source: int

    def __str__(self) -> str:
        return f"waits for rank {self.source}"


class Agree(NamedTuple):
    """A program that yields this goes on when all ranks have said the same words."""

    words: str

    def __str__(self) -> str:
        return "waits for all ranks to compare their arguments"


class Deadlock(RuntimeError):
    """Every rank that has not ended waits; the message says who waits for whom."""


def take_turns(programs: list[Any], deliver: Callable[[int, int], Any]) -> list:
    """What the programs of the ranks return; one that is no generator is its own result.

    deliver(rank, source) gives the next message of ``source`` to ``rank``, None if there is none yet.
    """
    results, waits = list(programs), {}

    def go_on(rank: int, value: Any) -> None:
        try:
            wish = programs[rank].send(value)
        except StopIteration as end:
            results[rank] = end.value
            waits.pop(rank, None)
            return
        except Exception as error:
            error.add_note(f"in the program of rank {rank}")
            raise
        if not isinstance(wish, Receive | Agree):
            raise TypeError(f"rank {rank} yielded {wish!r}; a program yields rank.receive(source) or rank.agree(words)")
        waits[rank] = wish

    for rank, program in enumerate(programs):
        if isgenerator(program):
            go_on(rank, None)
    while waits:
        moved = False
        for rank, wish in list(waits.items()):
            message = deliver(rank, wish.source) if isinstance(wish, Receive) else None
            if message is not None:
                moved = True
                go_on(rank, message)
        if not moved:
            compare(waits, len(programs))
            for rank in list(waits):
                go_on(rank, None)
    return results


def compare(waits: dict[int, Receive | Agree], devices: int) -> None:
    """Nobody can go on: fine if all have come to compare and say the same, else an error."""
    if len(waits) < devices or not all(isinstance(wish, Agree) for wish in waits.values()):
        ended = [f"rank {rank} has ended" for rank in range(devices) if rank not in waits]
        raise Deadlock("deadlock: " + "; ".join([f"rank {rank} {wish}" for rank, wish in waits.items()] + ended))
    check_agreement([wish.words for wish in waits.values()])


def check_agreement(words: list[str]) -> None:
    """Raise a ValueError that names the ranks whose words differ from rank 0's."""
    for rank, said in enumerate(words):
        if said != words[0]:
            raise ValueError(f"the ranks disagree: rank 0 has {words[0]}; rank {rank} has {said}")
