"""Lesson 20, ★: how many steps a batch takes, static or continuous."""

from attnlab_course.checker.exercise import Case, Exercise, Mistake, but


def steps_needed(lengths: list[int], slots: int, continuous: bool) -> int:
    """Steps until all requests, taken in order, have their ``lengths`` tokens; a request gets one token per step."""
    if not continuous:
        return sum(max(lengths[i : i + slots]) for i in range(0, len(lengths), slots))  # eq. 20.3
    free = [0] * slots  # when each slot is free again
    for length in lengths:
        free[free.index(min(free))] += length  # section 2
    return max(free)


def cases() -> list[Case]:
    """One request, as many as slots, more; equal lengths and others."""
    calls = [
        ([5], 1), ([5], 3), ([2, 3], 2), ([2, 3], 1), ([4, 4, 4, 4], 2), ([4, 1, 1, 1], 2), ([1, 1, 1, 4], 2),
        ([1, 6, 2, 3, 1], 2), ([2, 3, 2, 3, 2], 2), ([9, 2, 2, 2, 2, 9], 3), ([3, 8, 1, 1, 7, 2, 2, 5], 3),
        ([40_000, 2, 3], 2),
    ]
    return [
        Case(f"lengths {lengths}, {slots} slot{'s' * (slots > 1)}, {'continuous' if mode else 'static'}",
             (lengths, slots, mode))
        for lengths, slots in calls for mode in (False, True)
    ]  # fmt: skip


STATIC = "sum(max(lengths[i : i + slots]) for i in range(0, len(lengths), slots))"
NEXT = "free[free.index(min(free))] += length"

EXERCISE = Exercise(
    lesson="20", stars=1, reference=steps_needed, where="section 2", cases=cases,
    hints=(
        "Static: cut the list into batches of `slots` requests. A batch takes as many steps as its longest request.",
        "Continuous: keep a list with the step at which each slot is free. The next request goes to the slot that's "
        "free first.",
        "That slot is free again `length` steps later. At the end, the latest of all slots counts.",
    ),
    without={"if not continuous:": "Your static batches begin as soon as a slot is free. A static batch begins when "
                                   "the whole batch before it is done: eq. 20.3."},
    mistakes=(
        Mistake("You give the average work, tokens over slots, which doesn't count waiting slots: eq. 20.3 takes the "
                "longest of each batch.",
                but(STATIC, "-(-sum(lengths) // slots)"),
                but(STATIC, "-(-sum(lengths) // slots)", "max(free)", "-(-sum(lengths) // slots)"),
                but("max(free)", "-(-sum(lengths) // slots)")),
        Mistake("You give a bound, the larger of the average work and the longest request. Follow the requests in "
                "order, each to the slot that's free first (section 2).",
                but("max(free)", "max(-(-sum(lengths) // slots), max(lengths))")),
        Mistake("The requests of a batch run side by side, and each batch takes as many steps as its own longest: not "
                "the longest of all, not their sum, and not the shortest (eq. 20.3).",
                but(STATIC, "-(-len(lengths) // slots) * max(lengths)"), but("sum(max(", "sum(sum("),
                but("sum(max(", "sum(min(")),
        Mistake("In continuous batches a request goes to the slot that's free *first*. It waits for no other slot and "
                "isn't dealt out in turn, and if your result is the sum of all lengths, one slot did all the work "
                "(section 2).",
                but("if not continuous", "if True"), but(NEXT, "free.append(free.pop(0) + length)"),
                but("max(free)", "sum(lengths)")),
        Mistake("You sort the requests by length. They're served in the order they came (section 2).",
                but("free = [0]", "lengths = sorted(lengths); free = [0]"),
                but("free = [0]", "lengths = sorted(lengths)[::-1]; free = [0]"),
                but("if not continuous", "lengths = sorted(lengths)\n    if not continuous"),
                but(STATIC, STATIC.replace("lengths[", "sorted(lengths)[::-1]["))),
    ),
)
