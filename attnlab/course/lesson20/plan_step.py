"""Lesson 20, ★★: the tokens of a step, within a budget: decoding first, then chunks of prompts."""

from attnlab.check.exercise import Case, Exercise, Mistake, but


def plan_step(missing: list[int], budget: int) -> list[int]:
    """Tokens that each sequence is fed, in order of arrival: ``missing`` 1 decodes, more is a prompt (or its rest)."""
    left = budget - missing.count(1)
    fed = []
    for count in missing:
        fed.append(1 if count == 1 else min(count, max(left, 0)))
        left -= fed[-1] * (count > 1)
    return fed


def cases() -> list[Case]:
    """Decoding alone, prompts alone, both; a budget that is enough, that cuts, that is used up."""
    calls = [
        ([1], 4), ([3], 4), ([6], 4), ([1, 1, 1], 8), ([1, 6], 4), ([6, 1], 4), ([3, 3], 4), ([2, 2, 2], 8),
        ([2, 2, 2], 5), ([1, 5, 1, 5], 8), ([9, 1, 1], 4), ([9, 2], 4), ([1, 1, 1, 1, 7], 4), ([4, 4, 1, 1, 4], 12),
        ([100, 1, 1, 1], 64), ([200, 3], 300), ([5], 4), ([5, 2, 1], 5),
    ]
    return [Case(f"missing {missing}, budget {budget}", (missing, budget)) for missing, budget in calls]


CHUNK, LEFT = "min(count, max(left, 0))", "budget - missing.count(1)"

EXERCISE = Exercise(
    lesson="20", stars=2, reference=plan_step, cases=cases,
    hints=(
        "First count who decodes: each of them gets its one token, whatever else comes.",
        "What is left of the budget goes to the prompts, in order: each takes what it needs or what is left, whichever "
        "is less.",
        "A prompt that gets nothing is fed 0 tokens; the list has an entry for everybody.",
    ),
    mistakes=(
        Mistake("Prompts come first in your plan, and what decodes may get nothing: its reader waits for a whole "
                "prompt of somebody else (section 3).",
                but("1 if count == 1 else min(count, max(left, 0))", CHUNK, LEFT, "budget", " * (count > 1)", "")),
        Mistake("You forget that those who decode use up the budget, too: a token each (section 3).",
                but(LEFT, "budget")),
        Mistake("Your budget counts requests, not tokens: a step with one long prompt then takes as long as the prompt "
                "is (section 3).",
                but(CHUNK, "count * (left > 0)", "fed[-1] * (count > 1)", "(count > 1)"),
                but(CHUNK, "count * (left > 0)")),
        Mistake("A prompt that does not fit whole gets nothing in your plan. Feed it in chunks; else a prompt longer "
                "than the budget waits forever (section 3).",
                but(CHUNK, "(count if count <= left else 0)")),
        Mistake("You share what is left in equal parts. The oldest prompt is served first, or all of them are late "
                "(section 3).",
                but(CHUNK, "min(count, max(left, 0) // max(1, sum(x > 1 for x in missing)))",
                    "left -= fed[-1] * (count > 1)", "pass")),
        Mistake("Each prompt may use the whole budget in your plan: subtract what the ones before it were given "
                "(section 3).",
                but("left -= fed[-1] * (count > 1)", "pass")),
        Mistake("Only the first prompt is fed. What it leaves goes to the next one (section 3).",
                but("left -= fed[-1] * (count > 1)", "left = 0 if count > 1 else left")),
        Mistake("The last prompt is served first. They are served in the order in which they came (section 3).",
                but("for count in missing:", "for count in missing[::-1]:", "return fed", "return fed[::-1]")),
        Mistake("A prompt is fed whole if it fits, its last token, too; only then can the first new one be drawn "
                "(section 3).",
                but(CHUNK, "min(count - 1, max(left, 0))")),
        Mistake("You subtract the decoding sequences twice: once before the loop is enough (section 3).",
                but(" * (count > 1)", "")),
    ),
)
