"""Lesson 26, ★★: guesses that cost nothing, from the text itself."""

from attnlab_course.checker.exercise import Exercise, Mistake, but
from attnlab_course.checker.inputs import table


def prompt_lookup(tokens: list[int], k: int, most: int, least: int) -> list[int]:
    """What followed the last tokens the last time they occurred: at most ``k`` tokens, [] if they never did.

    Of the suffixes of ``most`` to ``least`` tokens that occur earlier in ``tokens``, the longest counts, and its latest
    earlier occurrence, which may overlap the suffix itself.
    """
    for size in range(min(most, len(tokens) - 1), least - 1, -1):
        suffix = tokens[-size:]
        for start in range(len(tokens) - size - 1, -1, -1):
            if tokens[start : start + size] == suffix:
                return tokens[start + size : start + size + k]
    return []


SIZES, STARTS = "range(min(most, len(tokens) - 1), least - 1, -1)", "range(len(tokens) - size - 1, -1, -1)"

EXERCISE = Exercise(
    lesson="26", stars=2, reference=prompt_lookup, where="section 1",
    cases=table(
        ("the last two tokens, seen once", [1, 2, 7, 1, 2], 1, 3, 2),
        ("seen twice: the latest", [1, 2, 7, 1, 2, 8, 1, 2], 1, 3, 2),
        ("a longer suffix, earlier, comes first", [5, 1, 2, 7, 9, 1, 2, 8, 5, 1, 2], 1, 3, 2),
        ("longer than most: the latest of most tokens", [5, 1, 2, 7, 9, 1, 2, 8, 5, 1, 2], 1, 2, 2),
        ("fewer than k tokens follow", [1, 2, 3, 1, 2], 9, 3, 2),
        ("it overlaps itself", [4, 4, 4, 4], 3, 8, 2),
        ("a text of period two", [1, 2, 1, 2, 1, 2], 4, 8, 2),
        ("a single token isn't enough", [1, 2, 3, 1], 2, 8, 2),
        ("two equal tokens", [4, 4], 2, 8, 1),
        ("nothing was there before", [1, 2, 3, 4], 2, 8, 1),
        ("one token", [1], 2, 8, 1),
        ("an empty text", [], 2, 8, 1),
        ("the occurrence is the very beginning", [3, 1, 9, 3, 1], 2, 8, 2),
    ),
    hints=(
        "Two loops: the size of the suffix, from the longest down, and the place where it occurs, from the latest "
        "back.",
        "The suffix occurs at its own place, too. The latest start that counts is len(tokens) − size − 1.",
        "What follows begins at start + size; a slice that runs over the end is simply shorter.",
    ),
    without={"most": "You try suffixes of any length: most says where to begin (section 1)."},
    mistakes=(
        Mistake("You take the earliest occurrence. What was said last is nearest to what comes now (section 1).",
                but(STARTS, "range(len(tokens) - size)")),
        Mistake("You take the shortest suffix first. The longest one that occurred before knows most (section 1).",
                but(SIZES, "range(least, min(most, len(tokens) - 1) + 1)")),
        Mistake("You drop an occurrence after which fewer than k tokens are left. A shorter guess is a guess, too "
                "(section 1).",
                but(STARTS, "range(len(tokens) - size - k, -1, -1)")),
        Mistake("You leave out occurrences that overlap the suffix: in a run of equal tokens those are the best guess "
                "(section 1).",
                but(STARTS, "range(len(tokens) - 2 * size, -1, -1)")),
    ),
)
