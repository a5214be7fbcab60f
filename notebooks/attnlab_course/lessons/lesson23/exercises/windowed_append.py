"""Lesson 23, ★★: a block manager that gives back what a window has left behind."""

from attnlab_course.checker.exercise import Exercise, Mistake, but
from attnlab_course.checker.inputs import table


def windowed_append(
    table: list[int], length: int, free: list[int], count: int, size: int, window: int
) -> tuple[list[int], list[int]]:
    """(table, free) after a sequence of ``length`` tokens freed the blocks it can't see and got room for ``count``.

    ``table``: the sequence's blocks of ``size`` tokens, in text order, with −1 for a block it already gave back. A
    query sees the last ``window`` keys, including its own, so the first new token sees furthest back. Blocks that no
    new token sees go to the end of ``free``, oldest first. After that, take new blocks from the front of ``free``;
    there are enough.
    """
    table, free = list(table), list(free)
    for b in range((length - window + 1) // size):  # position N − W + 1 is the first that is still seen
        if table[b] >= 0:
            free.append(table[b])
            table[b] = -1
    while len(table) * size < length + count:  # eq. 19.3
        table.append(free.pop(0))
    return table, free


GONE = "(length - window + 1) // size"

EXERCISE = Exercise(
    lesson="23", stars=2, reference=windowed_append, where="section 3",
    cases=table(
        ("the first three tokens, nothing leaves", [], 0, [4, 2], 3, 4, 4),
        ("room in the last block, nothing leaves", [7], 2, [4, 2], 2, 4, 4),
        ("7 tokens, a window of 4: the new one sees the last key of block 0", [5, 3], 6, [4, 2], 1, 4, 4),
        ("8 tokens, a window of 4: the new one sees no key of block 0", [5, 3], 7, [4, 2], 1, 4, 4),
        ("a block was given back before", [-1, 3, 6], 11, [4, 2], 1, 4, 4),
        ("two leave at once, behind one that has left", [-1, 0, 6, 3, 8], 18, [4, 2], 4, 4, 4),
        ("an empty pool: what leaves is all there is", [5, 3], 8, [], 1, 4, 4),
        ("five tokens at once: the first of them sees furthest", [5, 3], 7, [4, 2, 1], 5, 4, 8),
        ("a window longer than the text", [5, 3], 8, [4, 2], 4, 4, 64),
    ),
    hints=(
        "The first new token is at position N and sees the keys from N − W + 1 on. Which blocks are entirely before "
        "that?",
        "⌊(N − W + 1) / S⌋ whole blocks are before it (none if that's negative). Their entries become −1 and stay in "
        "place: the others must still be found at position / S.",
        "Give blocks back first and take new ones afterwards: what you've given back may be all there is.",
    ),
    without={"table[b] >= 0": "You give the same block back twice: someone else may have it by now (lesson 19, "
                              "section 7)."},
    mistakes=(
        Mistake("You ask what the last of the new tokens sees. The first one sees further back (section 3).",
                but("length - window + 1", "length + count - window")),
        Mistake("You give back a block while some of its keys are still seen: round down (section 3).",
                but(GONE, f"-(-{GONE.replace(' // size', '')} // size)")),
        Mistake("Your blocks leave the table, and the others move up. We find a key at position / S, so entries have "
                "to stay in place: write −1 (section 3).",
                but("return table, free", "return [block for block in table if block >= 0], free")),
        Mistake("You take new blocks before you give back old ones: with an empty pool there are none (section 3).",
                but("for b in range", "while len(table) * size < length + count:\n        table.append(free.pop(0))\n"
                    "    for b in range")),
    ),
)
