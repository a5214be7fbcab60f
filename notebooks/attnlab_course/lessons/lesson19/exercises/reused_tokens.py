"""Lesson 19, ★★: how much of a prompt is there already."""

from attnlab_course.checker.exercise import Case, Exercise, Mistake, but


def reused_tokens(prompt: list[int], written: list[tuple[int, list[int]]], size: int) -> int:
    """How many of the first tokens of ``prompt`` need not be computed, as full blocks of ``size`` tokens hold them.

    ``written``: what was put into the blocks, oldest first, as (block, text): its ``size`` tokens, or fewer so far,
    are the last ones of ``text``, and the others came before them. A block that was written twice holds the later
    text. Every block of the prefix must be there, and at least one token of the prompt is left to compute.
    """
    holds = {}
    for block, text in written:
        holds[block] = tuple(text)
    known = set(holds.values())
    count = 0
    while count + size < len(prompt) and tuple(prompt[: count + size]) in known:
        count += size
    return count  # eq. 19.8


def cases() -> list[Case]:
    """What was written: a whole prompt, a part, another one, blocks that were reused; nothing, first and last."""
    a, b = [1, 2, 3, 4, 5, 6], [9, 9, 3, 4, 5, 6]
    whole = [(0, a[:2]), (1, a[:4]), (2, a)]
    calls = [
        ("nothing was written", (a, [], 2)),
        ("the same two blocks, and one token more", ([*a[:4], 7], whole, 2)),
        ("the same prompt: its last token is computed", (a[:4], whole, 2)),
        ("the first block differs, what follows is the same", ([*b, 7], whole, 2)),
        ("the first block is one text's, the second one another's", ([9, 9, 3, 4, 5], [*whole, (3, [9, 9])], 2)),
        ("a block that is partly filled", ([1, 2, 3, 4, 5, 6, 7], [(0, [1, 2, 3, 4]), (1, [1, 2, 3, 4, 5, 6])], 4)),
        ("block 1 was written again: the prefix ends before it", ([*a, 7], [*whole, (1, [8, 8])], 2)),
        ("a prompt shorter than a block", ([1], whole, 2)),
        ("the same tokens in another order", ([1, 2, 3], [(0, [2, 1])], 2)),
        ("1, 0 where 0, 31 was written: 31 · 1 + 0 = 31 · 0 + 31", ([1, 0, 3], [(0, [0, 31])], 2)),
        ("the third block is there, after other tokens two blocks before", ([*a, 7], [*whole[:2], (2, b)], 2)),
        ("block 1 was written again, and is partly filled", ([*a, 7], [*whole, (1, [8])], 2)),
        ("two blocks held the same, and the first was written again", (a, [(0, a[:2]), (1, a[:2]), (0, [8, 8])], 2)),
        ("the first input once more: nothing was written", (a, [], 2)),
    ]
    return [Case(label, args) for label, args in calls]


KNOWN = "set(holds.values())"
FOUND = "tuple(prompt[: count + size]) in known"


def by_index(prompt: list[int], written: list[tuple[int, list[int]]], size: int) -> int:
    """Texts and their blocks; a text is forgotten when one block that held it is written again."""
    index, holds = {}, {}
    for block, text in written:
        index.pop(holds.get(block), None)
        holds[block] = tuple(text)
        index[holds[block]] = block
    return reused_tokens(prompt, list(zip(index.values(), index)), size)


EXERCISE = Exercise(
    lesson="19", stars=2, reference=reused_tokens, where="section 5", cases=cases,
    hints=(
        "First find out what each block holds now: the later text replaces the earlier one.",
        "Go through the prompt block by block. A block can be used if some block holds the same tokens *after the same "
        "tokens*: compare the whole prefix up to its end.",
        "Stop at the first block that isn't there, and before the block with the prompt's last token: count + size < "
        "len(prompt), eq. 19.8.",
    ),
    mistakes=(
        Mistake("You leave out the wrong block. The block with the prompt's last token is never reused, because a "
                "prompt that's there in full would leave no query for the next token. Leave out that block as a whole, "
                "and no other (eq. 19.8).",
                but("count + size < len(prompt)", "count + size <= len(prompt)"),
                but("count + size < len(prompt)", "count + size <= len(prompt)",
                    "return count", "return max(0, min(count, len(prompt) - 1))"),
                but("count + size < len(prompt)", "count + size <= len(prompt)",
                    "return count", "return max(0, count - size)")),
        Mistake("You find texts that are no longer there. What a block held is forgotten as soon as the first token "
                "is written into it again (section 5).",
                but(KNOWN, "{tuple(text) for _, text in written}"),
                but("    for block, text in written:\n",
                    "    for block, text in written:\n        if len(text) % size:\n            continue\n")),
        Mistake("You compare less than the whole prefix: a block's own tokens, it and the one before, or a sum or a "
                "set of them. Keys depend on all earlier tokens (eq. 14.1), so compare all of them, in order, up to "
                "the block's end (section 5).",
                but(KNOWN, "{text[-size:] for text in holds.values()}",
                    FOUND, "tuple(prompt[count : count + size]) in known"),
                but(KNOWN, "{(len(x), x[-2 * size :]) for x in holds.values()}",
                    FOUND, "(count + size, tuple(prompt[: count + size][-2 * size :])) in known"),
                but(KNOWN, "{(len(x), sum(x)) for x in holds.values()}",
                    FOUND, "(count + size, sum(prompt[: count + size])) in known")),
        Mistake("Two blocks can hold the same text. It's there as long as one of them holds it, so the blocks behind "
                "it are still of use (section 5).",
                by_index),
        Mistake("You go on past a block that isn't there, or was written again. What follows it was computed from "
                "different tokens: a prefix ends where it first differs (section 5).",
                but("while count + size < len(prompt) and " + FOUND + ":\n        count += size",
                    "for stop in range(size, len(prompt), size):\n        "
                    "count += size * (tuple(prompt[stop - size : stop]) in {t[-size:] for t in known})")),
    ),
)
