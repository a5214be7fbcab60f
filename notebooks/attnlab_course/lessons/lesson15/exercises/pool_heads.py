"""Lesson 15, ★: a matrix for fewer key heads, by averaging those that will be shared."""

from attnlab_course.checker.exercise import Case, Exercise, Mistake, but

import numpy as np

Array = np.ndarray


def pool_heads(w: Array, heads: int, kv_heads: int) -> Array:
    """The mean of consecutive heads: w (width, heads · D), head h in columns h·D … → (width, kv_heads · D)."""
    width, group = len(w), heads // kv_heads
    return w.reshape(width, kv_heads, group, -1).mean(2).reshape(width, -1)


def constants(width: int, heads: int, d: int) -> Array:
    """A matrix whose columns of head h are all h + 1."""
    return np.repeat(np.arange(1.0, heads + 1), d) * np.ones((width, 1))


def cases() -> list[Case]:
    """Heads told apart by a constant, then random ones."""
    rng = np.random.default_rng(152)
    w = rng.normal(size=(3, 12))
    return [
        Case("ROWS: two heads, 1 and 2, of one column, to one: 1.5", (constants(1, 2, 1), 2, 1)),
        Case("ROWS: four heads, 1 to 4, of two columns, to two: 1.5 and 3.5", (constants(2, 4, 2), 4, 2)),
        Case("the same to one head: 2.5", (constants(2, 4, 2), 4, 1)),
        Case("one head whose columns are 1, 2, 3: they stay apart", (np.array([[1.0, 2.0, 3.0]]), 1, 1)),
        Case("a head of zeros counts: 0 and 2 to one head: 1", (np.array([[0.0, 2.0]]), 2, 1)),
        Case("random: width 3, six heads of two columns to three", (w, 6, 3)),
        Case("random: the same to two", (w, 6, 2)),
    ]


POOLED = "w.reshape(width, kv_heads, group, -1).mean(2)"
AXIS = ".mean(2)"

EXERCISE = Exercise(
    lesson="15", stars=1, reference=pool_heads, where="eq. 15.5", cases=cases,
    hints=(
        "Query heads g·G to g·G + G − 1 share key head g, so average those (eq. 15.5).",
        "Give the heads their own axes: w.reshape(width, kv_heads, G, D).",
        "Take the mean over the axis of length G, and flatten the last two axes again.",
    ),
    mistakes=(
        Mistake("You average heads that are kv_heads apart. Consecutive query heads share a key head, h // G, so heads "
                "0 to G − 1 are pooled into the first one (eq. 15.5). Any other grouping gives a query the keys of "
                "heads it has never met.",
                but(POOLED, "w.reshape(width, group, kv_heads, -1).mean(1)")),
        Mistake("You keep the first head of each group. That's another way to start, and the lesson compares it; here "
                "we want the mean (eq. 15.5).",
                but(AXIS, "[:, :, 0]")),
        Mistake("You restore the norm that averaging takes away, a factor of √G. The mean of eq. 15.5 has no such "
                "factor: heads that agree keep their norm, and only those that disagree lose it.",
                but(POOLED, f"({POOLED} * group**0.5)")),
        Mistake("You average the columns of one head. The D columns of a head are its coordinates and stay separate; "
                "average heads, column by column (eq. 15.5).",
                but(POOLED, "w.reshape(width, kv_heads, -1, group).mean(3)")),
    ),
)
