"""Lesson 19, ★★: an append that writes into a block of its sibling, fixed."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but


def fixed_append(
    table: list[int], length: int, references: list[int], free: list[int], count: int, size: int
) -> tuple[list[int], list[tuple[int, int]], list[int], list[int]]:
    """(slots, copies, table, references): room for ``count`` more tokens of a sequence of ``length`` tokens.

    ``references``: how many tables hold each block. ``free``: blocks that may be taken, the first one first; there are
    enough. Return the slot of each new token, the pairs (from block, to block) to copy before anything is written,
    and the new table and references. A copy takes its block before new tokens do.
    """
    table, references, free = list(table), list(references), list(free)
    copies = []
    if count and length % size and references[table[-1]] > 1:  # eq. 19.6
        shared, own = table[-1], free.pop(0)
        references[shared] -= 1
        references[own] += 1
        table[-1] = own
        copies.append((shared, own))
    while len(table) * size < length + count:
        table.append(free.pop(0))
        references[table[-1]] += 1
    slots = [size * table[t // size] + t % size for t in range(length, length + count)]
    return slots, copies, table, references


def call(length: int, holders: int, count: int, last: int = 0) -> tuple:
    """A sequence of this length in blocks of 4, all of which have ``holders``; the last one ``last``, if given."""
    table = [5, 2, 7][: -(-length // 4)]
    references = [0, 0, 0, 0, 0, 0, 0, 0, 0]
    for block in table:
        references[block] = holders
    if last:
        references[table[-1]] = last
    return table, length, references, [b for b in (1, 8, 0, 3, 4, 6) if b not in table], count, 4


def cases() -> list[Case]:
    """Lengths of S − 1, S and S + 1; alone, with one sibling and with two; no token, one and several."""
    calls = [
        ("4 tokens, a full block of its own, 1 more", (4, 1, 1)),
        ("3 tokens, its own block, 1 more: it is written in place", (3, 1, 1)),
        ("4 tokens, a full block shared by two, 1 more: nothing is copied", (4, 2, 1)),
        ("3 tokens, a block shared by two, 1 more", (3, 2, 1)),
        ("3 tokens, a block shared by three, 1 more", (3, 3, 1)),
        ("5 tokens, two blocks shared by two, 1 more: the last one is copied", (5, 2, 1)),
        ("3 tokens, a block shared by three, 6 more: a copy and two blocks", (3, 3, 6)),
        ("7 tokens, a block shared by two, then its own: 1 more is written in place", (7, 2, 1, 1)),
        ("3 tokens, a block shared by two, no more", (3, 2, 0)),
        ("an empty sequence, 5 more", (0, 1, 5)),
    ]
    return [Case(f"{label}; blocks of 4", call(*args)) for label, args in calls]


SHARED = "references[table[-1]] > 1"
OWN = """    if count and length % size and references[table[-1]] > 1:  # eq. 19.6
        shared, own = table[-1], free.pop(0)
        references[shared] -= 1
        references[own] += 1
        table[-1] = own
        copies.append((shared, own))
"""
GROW = """    while len(table) * size < length + count:
        table.append(free.pop(0))
        references[table[-1]] += 1
"""

EXERCISE = Exercise(
    lesson="19", stars=2, reference=fixed_append, where="eq. 19.6", cases=cases,
    hints=(
        "Fork a sequence of 3 tokens in blocks of 4, then let both append one token. Into which slot does each of "
        "them write?",
        "Both write into place 3 of the same block, so the second overwrites the first one's key. When can a sequence "
        "write into its last block, and when can't it?",
        "Before the loop, which stays: if there's something to write, the last block is partly filled, and more than "
        "one table holds it, take a free block, note the pair, replace the table's entry, and move one reference.",
    ),
    without={
        "references[shared] -= 1": phrases.old_reference("section 5"),
        "references[own] += 1": "The copy has no reference. It counts as free while your table holds it, so the next "
                                "request will take it (section 5).",
        "table[-1] = own": phrases.writes_shared("eq. 19.2"),
    },
    mistakes=(
        Mistake("This is still the broken append: it writes into a block that a sibling holds, and the sibling reads a "
                "key that isn't its own. Copy a shared, partly filled block first: eq. 19.6.",
                but(OWN, ""),
                but(OWN + GROW, GROW + OWN.replace("count and", "count and len(table) * size <= length and"))),
        Mistake("You copy only if the new tokens fit into the last block. The first of them is written there anyway: "
                "eq. 19.6.",
                but("if count and length", "if length + count <= len(table) * size and count and length")),
        Mistake("You copy only if two tables hold the block. There may be more, and one fewer after each copy: eq. "
                "19.6.",
                but(SHARED, SHARED.replace("> 1", "== 2"))),
        Mistake("You take blocks in a different order. Take them from the front of the list, and the copy's before "
                "those of the new tokens (section 5).",
                but("free.pop(0)", "free.pop()")),
    ),
)
