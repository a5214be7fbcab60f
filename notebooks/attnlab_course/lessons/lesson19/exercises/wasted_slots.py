"""Lesson 19, ★: slots that are held and never filled, under three policies."""

from attnlab_course.checker.exercise import Case, Exercise, Mistake, but


def wasted_slots(lengths: list[int], block: int, policy: str) -> int:
    """How many slots requests of these ``lengths``, all written to their end, hold and have not filled, all together.

    ``policy`` "maximum": each holds as many slots as the longest of them has tokens; "powers": as many as the next
    power of two, which is 16 for 16 tokens; "pages": whole blocks of ``block`` slots. A request has at least one token.
    """
    held = 0
    for n in lengths:
        if policy == "maximum":
            held += max(lengths)
        elif policy == "powers":
            held += 1 << (n - 1).bit_length()
        else:
            held += -(-n // block) * block  # eq. 19.3
    return held - sum(lengths)


def cases() -> list[Case]:
    """Lengths below, at and above a block and a power of two; one length of several requests."""
    several, twice = [15, 16, 17, 32, 33, 100], [6, 6, 10, 6]
    calls = [
        ([5], 4, "pages"), ([8], 4, "pages"), (several, 16, "pages"), ([3, 5], 64, "pages"), ([5], 4, "powers"),
        ([8], 4, "powers"), ([1, 2], 4, "powers"), (several, 16, "powers"), (several, 16, "maximum"),
        *((twice, 10, policy) for policy in ("pages", "powers", "maximum")),
    ]
    return [
        *(Case(f"lengths {lengths}, blocks of {block}, {policy}", (lengths, block, policy))
          for lengths, block, policy in calls),
        Case("lengths 3000, powers", ([3000], 4, "powers")),
        Case("300 lengths of 1 and one of 10⁷, maximum: more than 2³¹ slots", ([1] * 300 + [10**7], 4, "maximum")),
    ]


PAGES = "-(-n // block) * block"
POWER = "1 << (n - 1).bit_length()"

EXERCISE = Exercise(
    lesson="19", stars=1, reference=wasted_slots, where="eq. 19.3", cases=cases,
    hints=(
        "Waste is what's held minus what's filled, and what's filled is the sum of the lengths under every policy.",
        "A request of n tokens has ⌈n / block⌉ blocks: −(−n // block) in Python, eq. 19.3.",
        "The smallest power of two not below n is 1 << (n − 1).bit_length(): 8 for 8, and 16 for 9.",
    ),
    without={"sum(lengths)": "You return what's held, tokens included. We ask for the slots that are empty (section "
                             "1)."},
    mistakes=(
        Mistake("You always add one. If nothing is left over, that's one block too many: -(-a // b) rounds "
                "up (eq. 19.3).",
                but(PAGES, "(n // block + 1) * block")),
        Mistake("You give every request as much as the longest one. Each has its own blocks, or its own power of two: "
                "pages are taken as tokens come (section 1, eq. 19.3).",
                but(PAGES, "-(-max(lengths) // block) * block"), but(POWER, "1 << (max(lengths) - 1).bit_length()")),
        Mistake("You pack the requests into blocks together. A block belongs to one sequence, and no other can use its "
                "empty slots: eq. 19.3.",
                but("return held - sum(lengths)", "filled = sum(lengths)\n"
                    "    return held - filled if policy != 'pages' else -(-filled // block) * block - filled")),
        Mistake("Your power of two isn't the smallest that holds the request. 8 tokens fit into 8, and the power "
                "below may hold too few (section 1).",
                but(POWER, "1 << n.bit_length()"), but(POWER, "1 << (n.bit_length() - 1)")),
        Mistake("You round up with bits, which is right if the block is a power of two. Here it can have any size: ⌈n "
                "/ block⌉, eq. 19.3.",
                but(PAGES, "n + block - 1 & -block")),
    ),
)
