"""Lesson 26, ★★: a sequence in pages forgets its wrong guesses: which blocks go, and which one is stale."""

from attnlab_course.checker.exercise import Exercise, Mistake, but
from attnlab_course.checker.inputs import table


def cut_back(table: list[int], references: dict[int, int], length: int, size: int) -> tuple[list[int], list[int], bool]:
    """(kept, freed, stale): what happens to the blocks of a sequence that forgets its tokens from ``length`` on.

    table: the sequence's blocks of ``size`` slots, in order, all full; references[block]: how many sequences hold a
    block, including this one. kept: its blocks afterwards. freed: blocks that no sequence holds now, last block first.
    stale: whether its next token overwrites a slot of a block that others could still find by its old tokens. (A block
    that others hold is copied first, so it isn't touched.)
    """
    count = -(-length // size)
    kept, left = table[:count], table[count:]
    freed = [block for block in reversed(left) if references[block] == 1]
    stale = length % size > 0 and references[kept[-1]] == 1
    return kept, freed, stale


OWN = dict.fromkeys(range(10), 1)
COUNT = "-(-length // size)"
STALE = "length % size > 0 and references[kept[-1]] == 1"

EXERCISE = Exercise(
    lesson="26", stars=2, reference=cut_back, where="section 5",
    cases=table(
        ("three blocks of 4, cut to 9 tokens", [7, 2, 5], OWN, 9, 4),
        ("cut to 8, the end of a block", [7, 2, 5], OWN, 8, 4),
        ("nothing is forgotten", [7, 2, 5], OWN, 12, 4),
        ("everything is forgotten", [7, 2, 5], OWN, 0, 4),
        ("the last block is shared", [7, 2, 5], OWN | {5: 2}, 8, 4),
        ("all are shared, cut within the second", [7, 2, 5], OWN | {7: 3, 2: 2, 5: 2}, 6, 4),
        ("the block of the cut is shared, the next one not", [7, 2, 5], OWN | {2: 2}, 6, 4),
        ("one block of 16, cut to 3", [6], OWN, 3, 16),
        ("five blocks, cut to 1", [9, 8, 6, 4, 2], OWN | {9: 2, 8: 2}, 1, 3),
    ),
    hints=(
        "How many blocks do `length` tokens need? That many stay; the others are given back, the last one first.",
        "A block is free when no sequence holds it: this sequence was one of references[block].",
        "A block is stale if it was full, is partly filled now, and is written in place. When is it copied instead?",
    ),
    without={
        "references[kept[-1]] == 1": "A block that another sequence holds, too, is copied before anyone writes into "
                                     "it, so it isn't stale (section 5).",
        "reversed(left)": "You give the first block of the tail back first, so it's reused first. Give the last one "
                          "back first: a prefix should outlive what followed it (section 5, lesson 19).",
    },
    mistakes=(
        Mistake("A partly filled block stays: the tokens before the cut are in it. Round up (section 5).",
                but(COUNT, "length // size", STALE, "length % size > 0 and bool(kept) and references[kept[-1]] == 1")),
        Mistake("You free blocks that others still hold: their keys would be overwritten. Free what no one holds "
                "(section 5).",
                but("if references[block] == 1", "")),
        Mistake("After a cut at the end of a block, the next token goes to a new one, and no old block is overwritten "
                "(section 5).",
                but(STALE, "len(kept) > 0 and references[kept[-1]] == 1")),
        Mistake("The block of the cut can still be found by tokens that it's about to lose. Whoever found it later "
                "would read someone else's keys: it's stale (section 5).",
                but(STALE, "False")),
    ),
)
