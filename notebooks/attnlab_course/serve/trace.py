"""StepRecord of a step. Array-free."""

from typing import NamedTuple

from attnlab.paged import BlockManager
from attnlab_course.serve.request import Sequence, Timestamp
from attnlab_course.serve.scheduler import Plan, num_unfed_tokens


class StepRecord(NamedTuple):
    """A step, as it stood when its batch was fed: before samples parted, and before those that were done left.

    tokens: fed; decoded: sequences of which no token is missing now. running, waiting: sequences with and without
    blocks. blocks: held; filled: slots of them that hold a key, shared ones counted once; reserved: slots, had each
    running sequence its longest length reserved. preempted: sequences that lost their blocks; reused: tokens that were
    found in the cache and had not to be fed; copies: of shared blocks. guessed: tokens fed that were guesses;
    accepted: those of them that the model kept. seconds: since the engine was made.
    """

    step: int
    seconds: float
    tokens: int
    decoded: int
    running: int
    waiting: int
    blocks: int
    filled: int
    reserved: int
    preempted: int
    reused: int
    copies: int
    guessed: int
    accepted: int = 0


def record_step(
    now: Timestamp, plan: Plan, live: list[Sequence], held: set[Sequence], manager: BlockManager
) -> StepRecord:
    """The record of a step that has fed ``plan``; ``held``: those that had blocks before it."""
    running = [sequence for sequence in live if sequence in manager]
    fill: dict[int, int] = {}  # block -> slots that hold a key
    for sequence in running:
        length, size, table = manager.length(sequence), manager.block_size, manager.table(sequence)
        fill.update((block, min(size, length - i * size)) for i, block in enumerate(table) if block >= 0)
    reserved = sum(len(sequence.request.prompt) + sequence.request.max_tokens - 1 for sequence in running)
    return StepRecord(
        *now, sum(len(chunk.tokens) for chunk in plan.chunks),
        sum(num_unfed_tokens(chunk.sequence, manager) <= 0 for chunk in plan.chunks),
        len(running), len(live) - len(running), len(fill), sum(fill.values()), reserved, len(plan.preempted),
        sum(chunk.start for chunk in plan.chunks if chunk.sequence not in held), len(plan.copies),
        sum(len(chunk.guess) for chunk in plan.chunks),
    )  # fmt: skip
