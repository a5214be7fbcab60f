"""Lesson 16, ★: which token's key is in a slot of a rolling cache."""

from attnlab_course.checker.exercise import Case, Exercise, Mistake, but


def token_in(slot: int, length: int, window: int, sinks: int) -> int:
    """Position of the token whose key is in a slot of a rolling cache after ``length`` tokens; −1 if it's empty."""
    if slot < sinks:
        return slot if slot < length else -1
    last = length - 1 - sinks  # of the tokens that roll, counted from 0
    rolled = last - (last - (slot - sinks)) % window  # the last of them that came to this slot, eq. 16.5
    return sinks + rolled if rolled >= 0 else -1


def cases() -> list[Case]:
    """Without sinks, with them, before and after the ring is full."""
    calls = [
        (0, 1, 4, 0), (0, 4, 4, 0), (0, 5, 4, 0), (3, 5, 4, 0), (2, 12, 4, 0), (3, 3, 4, 0),
        (1, 9, 4, 4), (3, 3, 4, 4), (4, 4, 4, 4), (4, 5, 4, 4), (7, 20, 4, 4), (5, 8, 4, 4), (7, 5, 4, 4),
        (3, 10, 4, 1), (3, 24, 5, 2), (3, 6, 1, 3), (9, 12, 8, 6), (9, 16, 8, 6), (6, 6, 8, 6),
        (1000, 131_072, 4096, 4), (8, 2**60 + 5, 4096, 4),
    ]
    return [Case(f"slot {r} after {n} tokens, window {w}, {s} sink{'s' * (s != 1)}", (r, n, w, s))
            for r, n, w, s in calls]


LAST = "last = length - 1 - sinks"
RING = "last - (last - (slot - sinks)) % window"
FULL = "sinks + rolled if rolled >= 0 else -1"

EXERCISE = Exercise(
    lesson="16", stars=1, reference=token_in, where="eq. 16.5", cases=cases,
    hints=(
        "Two kinds of slots: the first `sinks` of them, and the ring. A sink's slot holds the token of its own number.",
        "In the ring, number the tokens and the slots from the first that isn't a sink. By eq. 16.5, slot r then holds "
        "one of the tokens r, r + window, r + 2 · window, …",
        "Which of them is the last that has come? Go back from the last token, by less than `window` steps, until the "
        "remainder is right. If that leads to before the beginning, the slot is empty.",
    ),
    without={"1": "After `length` tokens the last one has the position length − 1: you count one too many (eq. 16.5)."},
    mistakes=(
        Mistake("You return the first token that came to the slot. Later ones have overwritten it: the last one with "
                "the right remainder counts (eq. 16.5).",
                but(RING, "slot - sinks if slot - sinks <= last else -1")),
        Mistake("You forget that a slot can be empty: return −1 if no token has come to it yet, in the ring or among "
                "the sinks (eq. 16.6).",
                but(FULL, "sinks + rolled"), but("slot if slot < length else -1", "slot"),
                but(FULL, "sinks + rolled", "slot if slot < length else -1", "slot")),
        Mistake("Your ring has window + sinks slots. It has `window`, and the first `sinks` slots keep their tokens "
                "for good (eq. 16.5).",
                but("slot < sinks", "slot < 0", LAST, "sinks, window = 0, window + sinks; last = length - 1"),
                but("% window", "% (window + sinks)")),
        Mistake("Your ring begins at token 0 of the text. Its first token is token `sinks`, so its slots are in a "
                "different order: eq. 16.5.",
                but(LAST, "last = length - 1", FULL, "rolled if rolled >= sinks else -1")),
    ),
)
