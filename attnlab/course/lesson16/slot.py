"""Lesson 16, ★: in which slot of a rolling cache a token's key is kept."""

from attnlab.check.exercise import Case, Exercise, Mistake, but


def slot(position: int, window: int, sinks: int) -> int:
    """The slot, from 0 to window + sinks − 1, that keeps the key of a token; the first ``sinks`` stay for good."""
    if position < sinks:
        return position
    return sinks + (position - sinks) % window  # eq. 16.5


def cases() -> list[Case]:
    """Without sinks, with them, before and after the ring is full."""
    calls = [
        (0, 4, 0), (3, 4, 0), (4, 4, 0), (11, 4, 0), (0, 4, 4), (3, 4, 4), (4, 4, 4), (7, 4, 4), (8, 4, 4), (19, 4, 4),
        (9, 4, 1), (10, 3, 2), (23, 5, 2), (5, 1, 3), (6, 8, 6), (131_072, 4096, 4), (2**60 + 5, 4096, 4),
    ]
    return [Case(f"position {p}, window {w}, {s} sink{'s' * (s != 1)}", (p, w, s)) for p, w, s in calls]


RING = "sinks + (position - sinks) % window"

EXERCISE = Exercise(
    lesson="16", stars=1, reference=slot, cases=cases,
    hints=(
        "Two kinds of tokens: the first `sinks` of the text, and all others.",
        "A sink keeps its own number. For the others, count from the first token that isn't a sink: position − sinks.",
        "That count wraps around `window` slots, which start after the sinks' slots: eq. 16.5.",
    ),
    mistakes=(
        Mistake("Your pointer returns to slot 0. That slot belongs to the first sink, and the next one to the second, "
                "so the sinks are overwritten as soon as the buffer is full. The ring begins at slot `sinks`: eq. "
                "16.5.",
                but(RING, "position % (window + sinks)")),
        Mistake("Your ring has window + sinks slots and begins at `sinks`, so it writes past the end of the buffer. "
                "The ring has `window` slots: eq. 16.5.",
                but("% window", "% (window + sinks)")),
        Mistake("Your ring has window − sinks slots. Here `window` counts the keys that roll, and the sinks have slots "
                "of their own, window + sinks in all: eq. 16.5.",
                but("% window", "% max(window - sinks, 1)")),
        Mistake("You count from the first token of the text. The first token of the ring is token `sinks`, so your "
                "ring begins in the middle and its slots are in a different order: position − sinks in eq. 16.5.",
                but(RING, "sinks + position % window")),
        Mistake("You leave no slots for the sinks: the ring uses theirs, too. Add `sinks` to the place in the ring: "
                "eq. 16.5.",
                but(RING, "(position - sinks) % window")),
        Mistake("You ignore the sinks: every token rolls. The first `sinks` tokens keep the slot of their position for "
                "good, eq. 16.5.",
                but("if position < sinks", "if position < 0", RING, "position % window")),
        Mistake("Your boundary is one too far: token number `sinks` is the first of the ring, because positions begin "
                "at 0 (eq. 16.5). The slot is the same now, but one turn later the two differ.",
                but("position < sinks", "position <= sinks", RING, "sinks + 1 + (position - sinks - 1) % window")),
        Mistake("You never reduce the position, so the slots would grow with the text. The ring has `window` slots, "
                "eq. 16.5.",
                but(RING, "position")),
    ),
)
