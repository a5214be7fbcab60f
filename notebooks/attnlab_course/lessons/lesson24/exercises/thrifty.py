"""Lesson 24, ★★★: measure and decide: a cache of a given size that the model hardly notices."""

import functools
from typing import Any

from attnlab_course import model
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.inputs import table
from attnlab_course.lessons.lesson24.cuts import GROUP, LENGTH, planned, price, share

from threadpoolctl import threadpool_limits

LAYERS, FIRST, ROWS, AGAIN = 4, 7000, 4, 0.75


def thrifty(budget: float, extra: float) -> list[tuple[int, int]]:
    """A plan for the course's model: for each of its four layers a pair (window, bits).

    ``bits`` of each number of the cache: 2, 4, 8, or 16 for in full; ``window``: how many keys the layer keeps, a
    multiple of 32, 512 for all. Up to 512 tokens the cache may hold at most ``budget`` of the bytes of the whole one,
    (24.10), at most ``extra`` bits per byte more may be paid, and at most .75 for repeated text. The text is half of
    section 6's "elsewhere".
    """
    return [(32, 16), (64, 4), (64, 4), (512 if budget > 0.15 else 256, 4)]


@functools.cache
def paid(plan: tuple[tuple[int, int], ...]) -> tuple[float, float]:
    """Bits per byte, of text and of repeated text."""
    with threadpool_limits(1):  # on a busy machine threads wait for one another
        found = price(model.load(), planned(plan), FIRST, ROWS)
    return found["bits"], found["again"]


def read(got: Any) -> tuple[tuple[int, int], ...] | str:
    """A plan, or what is wrong with its form."""
    try:
        plan = tuple((int(window), int(bits)) for window, bits in got)
    except (TypeError, ValueError):
        return f"expected a list of {LAYERS} pairs (window, bits), got {got!r}."
    if len(plan) != LAYERS:
        return f"expected {LAYERS} pairs, one for each layer, got {len(plan)}."
    for layer, (window, bits) in enumerate(plan):
        if bits not in (2, 4, 8, 16) or window % GROUP or not 0 < window <= LENGTH:
            return (f"layer {layer} has {(window, bits)}: bits must be 2, 4, 8 or 16, and the window a multiple of "
                    f"{GROUP} up to {LENGTH}.")
    return plan


def judge(case: Case, got: Any) -> str | None:
    """What is wrong with a plan: its size, its bits, what it forgets."""
    budget, extra = case.args
    plan = read(got)
    if isinstance(plan, str):
        return plan
    if share(plan) > budget:
        return f"it holds {share(plan):.3f} of the whole cache; {budget} are allowed."
    bits, again = paid(plan)
    beyond = bits - paid(((LENGTH, 16),) * LAYERS)[0]
    if again > AGAIN:
        return f"repeated text costs {again:.2f} bits per byte, where {AGAIN} are allowed."
    if beyond > extra:
        return f"it costs {beyond:.3f} bits per byte more, where {extra} are allowed."
    return None


PLAN = "[(32, 16), (64, 4), (64, 4), (512 if budget > 0.15 else 256, 4)]"

EXERCISE = Exercise(
    lesson="24", stars=3, reference=thrifty, judge=judge,
    cases=table(
        ("half of the bytes", 0.5, 0.01),
        ("16% of the bytes", 0.16, 0.02),
        ("12% of the bytes", 0.12, 0.02),
    ),
    hints=(
        "Count first: `cuts.share(plan)`. Four bits alone leave 35% of the cache, windows of 64 alone 13%.",
        "Which layer must look far, and how far is far? What returns in this test returns after 152 bytes.",
        "Where bits are few, 31 keys per layer stay in full, so a window of 32 is smaller at 16 bits. Price "
        "your plan with `cuts.price(lm, cuts.planned(plan))`.",
    ),
    mistakes=(
        Mistake("Four bits everywhere: the text doesn't notice, but that's a third of the bytes, as 31 keys per layer "
                "stay in full and each group has its step: eq. 24.5. You also need fewer keys.",
                but(PLAN, "[(512, 4)] * 4")),
        Mistake("Windows of 32 in all three layers: recall holds, and the text pays more than it may. With layer 3 "
                "at 4 bits there's room for longer windows in two of them: count with eq. 24.10.",
                but(PLAN, "[(32, 4), (32, 4), (32, 4), (512, 4)]")),
        Mistake("A window in every layer: none can find repeated text (section 6). One of them must look far.",
                but(PLAN, "[(64, 16)] * 4"), but(PLAN, "[(32, 4)] * 4")),
        Mistake("You keep all keys in the first layer. In this model, the last one finds what returns: section 6.",
                but(PLAN, "[(512, 4), (64, 4), (64, 4), (64, 4)]")),
        Mistake("Two bits in the layer that must find what returns: its keys are the ones that matter, section 3. Save "
                "on the others.",
                but(PLAN, "[(64, 4), (64, 4), (64, 4), (512, 2)]")),
    ),
)
