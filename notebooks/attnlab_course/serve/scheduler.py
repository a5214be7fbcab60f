"""Who is fed what in a step: the scheduler. Array-free.

One rule of seniority: sequences are served in the order in which their requests arrived, and where blocks run out
the youngest loses its own, which costs only time. The oldest request is therefore fed in every step, whatever
comes after it; and as it is done some day, every request is the oldest some day.
Source: Kwon et al. 2023, section 4.5 (recomputation); Agrawal et al. 2024, section 4 (a budget, decoding first).
"""

from collections.abc import Sequence as Many
from typing import NamedTuple

from attnlab.paged import Appended, BlockManager, OutOfBlocks
from attnlab_course.serve.request import Sequence


class Chunk(NamedTuple):
    """Tokens ``start`` … of a sequence that are fed in a step, the ``guess`` last, and the slots for their keys."""

    sequence: Sequence
    start: int
    tokens: list[int]
    slots: list[int]
    guess: Many[int] = ()


class Plan(NamedTuple):
    """A step. copies: pairs of blocks (from, to), done first. preempted: sequences that have lost their blocks."""

    chunks: list[Chunk]
    copies: list[tuple[int, int]]
    preempted: list[Sequence]


def num_unfed_tokens(sequence: Sequence, manager: BlockManager) -> int:
    """Tokens that must still be fed before the next can be drawn: 1 while it decodes, 0 for a beam that waits."""
    if sequence.row is not None:
        return 0
    return len(sequence.tokens) - (manager.length(sequence) if sequence in manager else 0)


def schedule(sequences: list[Sequence], manager: BlockManager, budget: int) -> Plan:
    """Plan a step for the ``sequences`` that are not done, given in order of seniority, and append its tokens.

    Those that decode get their token, the others share what is left of ``budget``, in order, at least one token. A
    sequence that holds no blocks is admitted if all its tokens would fit, and nobody overtakes one that does not fit.
    """
    plan = Plan([], [], [])
    decoding = sum(sequence in manager and num_unfed_tokens(sequence, manager) == 1 for sequence in sequences)
    left, spare = budget, max(budget - decoding, 1)
    for sequence in sequences:
        decodes = sequence in manager and num_unfed_tokens(sequence, manager) == 1
        if not (num_unfed_tokens(sequence, manager) and left and (decodes or spare)):
            continue
        if sequence not in manager and not admit(sequence, sequences, manager, plan):
            break
        start = manager.length(sequence)
        count = 1 if decodes else min(num_unfed_tokens(sequence, manager), spare, left)
        tokens = sequence.tokens[start : start + count]
        step = append(sequence, tokens, sequences, manager, plan)
        if step is None:
            break
        plan.chunks.append(Chunk(sequence, start, tokens, step.slots))
        plan.copies.extend(step.copies)
        left, spare = left - count, spare - count * (not decodes)
    return plan


def admit(sequence: Sequence, sequences: list[Sequence], manager: BlockManager, plan: Plan) -> bool:
    """Begin a sequence with the blocks that hold its first tokens already, if there is room for all the others."""
    manager.add(sequence, sequence.tokens)
    blocks = -(-len(sequence.tokens) // manager.block_size) - len(manager.table(sequence))
    while blocks > manager.free_blocks:
        if not preempt(sequence, sequences, manager, plan):
            manager.free(sequence)
            return False
    return True


def append(
    sequence: Sequence, tokens: list[int], sequences: list[Sequence], manager: BlockManager, plan: Plan
) -> Appended | None:
    """Make room for tokens, at the cost of younger sequences; None where there is none, and it has to wait."""
    while True:
        try:
            return manager.append(sequence, tokens)
        except OutOfBlocks:
            if not preempt(sequence, sequences, manager, plan):
                return None


def preempt(sequence: Sequence, sequences: list[Sequence], manager: BlockManager, plan: Plan) -> bool:
    """Take the blocks of the youngest sequence that may suffer it for ``sequence``; False if there is none.

    None that is fed in this step may, as its new slots count as written: the turn of younger ones has not come. Then
    come beams of the same search that wait for ``sequence`` alone, as what they have to say is known.
    """
    younger = sequences[sequences.index(sequence) + 1 :]
    beams = [one for one in sequence.request.sequences if one.row is not None]
    for victim in (*reversed(younger), *reversed(beams)):
        if victim in manager:
            manager.free(victim)
            plan.preempted.append(victim)
            return True
    return False
