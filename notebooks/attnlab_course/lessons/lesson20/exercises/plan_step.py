"""Lesson 20, ★★★: a scheduler with a budget and a pool, judged by the percentiles of a simulated load."""

from collections.abc import Callable
from typing import Any

from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.instruments import hardware

import numpy as np

STEPS = 4000  # after so many a simulation ends, whoever is left
SLOWER = 1.25  # times the reference's waits are good enough
FINE, ENTRIES, OVER_BUDGET, TOO_MANY, NO_ROOM, NOBODY, ENDLESS = range(7)


def plan_step(texts: list[tuple[int, int]], budget: int, free: int, size: int) -> list[int]:
    """How many tokens to feed each text in this step, in the order of ``texts``; −1 takes away all its blocks.

    ``texts``: (missing, held) for each text that has arrived and isn't done, oldest first. ``missing`` tokens have to
    be fed before the next one can be sampled: 1 while a text decodes, more for a prompt or a text that has lost its
    blocks. ``held`` tokens are in the pool, in blocks of ``size``. Feed at most ``budget`` tokens, and take no more new
    blocks than are ``free`` or taken away in this step. Every text has to end. We judge the median time to first token
    and the 99th percentile of the time between tokens.
    """
    fed = [0] * len(texts)
    blocks = [-(-held // size) for _, held in texts]
    for i in sorted(range(len(texts)), key=lambda i: texts[i][0] > 1):  # those that decode, then prompts, by age
        missing, held = texts[i]
        count = min(missing, budget)
        if fed[i] < 0 or count == 0:
            continue
        wanted = count if held else missing  # a newcomer waits until its whole prompt fits
        need = -(-(held + wanted) // size) - blocks[i]
        for j in range(len(texts) - 1, i, -1):
            if need > free and held and blocks[j] and fed[j] == 0:
                fed[j] = -1
                free += blocks[j]
        if need > free:
            break
        fed[i] = count
        free -= -(-(held + count) // size) - blocks[i]
        budget -= count
    return fed


def seconds(fed: int, read: int) -> float:
    """Eq. 20.1, for 13 billion weights on an A100."""
    chip, weights = hardware.ACCELERATORS["A100 80 GB"], 13e9
    return max((2 * weights + 819_200 * read) / chip.bandwidth, 2 * weights * fed / chip.flops)


def run(answer: Callable) -> Callable:
    """Serve a load by an answer: a row of what went wrong (code, step, text), then each text's times, from arrival."""
    def served(load: list[tuple[float, int, int]], budget: int, blocks: int, size: int) -> np.ndarray:
        times = np.full((len(load) + 1, max(3, *(length for *_, length in load))), np.nan)
        tokens, held, came = [prompt for _, prompt, _ in load], [0] * len(load), [0] * len(load)
        clock, step = 0.0, 0
        times[0, :3] = FINE, 0, 0
        while live := [i for i, (arrival, _, length) in enumerate(load) if arrival <= clock and came[i] < length] or [
            i for i, (_, _, length) in enumerate(load) if came[i] < length][:1]:  # fmt: skip
            clock = max(clock, load[live[0]][0])
            free = blocks - sum(-(-n // size) for n in held)
            state = [(tokens[i] - held[i], held[i]) for i in live]
            plan = answer(list(state), budget, free, size)
            code, at = broken(plan, state, budget, free, size)
            if step >= STEPS or code:
                times[0, :3] = code or ENDLESS, step, live[at]
                return times
            plan = [int(x) for x in plan]
            clock += seconds(sum(max(x, 0) for x in plan), sum(held[i] + x for i, x in zip(live, plan) if x > 0))
            for i, x in zip(live, plan):
                held[i] = held[i] + x if x >= 0 else 0
                if x > 0 and held[i] == tokens[i]:
                    times[i + 1, came[i]] = clock - load[i][0]
                    tokens[i], came[i] = tokens[i] + 1, came[i] + 1
                    held[i] = held[i] if came[i] < load[i][2] else 0
            step += 1
        return times

    return served


def broken(plan: Any, state: list[tuple[int, int]], budget: int, free: int, size: int) -> tuple[int, int]:
    """Which rule a plan breaks, and at which of the live texts."""
    if np.shape(plan) != (len(state),) or any(int(x) != x for x in plan):
        return ENTRIES, 0
    for i, (x, (missing, _)) in enumerate(zip(plan, state)):
        if x < -1 or x > missing:
            return TOO_MANY, i
    if sum(max(x, 0) for x in plan) > budget:
        return OVER_BUDGET, 0
    more = sum(-(-(held + max(x, 0)) // size) * (x >= 0) - -(-held // size) for x, (_, held) in zip(plan, state))
    if more > free:
        return NO_ROOM, 0
    return (FINE, 0) if any(x > 0 for x in plan) else (NOBODY, 0)


WORDS = {
    ENTRIES: "expected a list with an integer for each text.",
    OVER_BUDGET: "more tokens are fed than the budget has.",
    TOO_MANY: "text {text} is fed more tokens than it misses, or an entry is below −1.",
    NO_ROOM: "more new blocks are needed than are free or taken away.",
    NOBODY: "nobody is fed, and so nothing will ever change: the pool is full, or a prompt is larger than the budget.",
    ENDLESS: f"after {STEPS:,} steps text {{text}} is still not done.",
}


def waits(times: np.ndarray) -> tuple[float, float]:
    """Milliseconds: the median time to first token, the 99th percentile of the time between tokens."""
    gaps = np.diff(times[1:], axis=1)
    gaps = gaps[np.isfinite(gaps)]
    return 1e3 * float(np.median(times[1:, 0])), 1e3 * float(np.percentile(gaps, 99)) if len(gaps) else 0.0


def judge(case: Case, got: Any) -> str | None:
    """What goes wrong, or who waits too long."""
    code, step, text = (int(x) for x in got[0, :3])
    if code:
        return f"step {step}: {WORDS[code].format(text=text)}"
    names = "median time to first token", "99th percentile of the time between tokens"
    for name, found, possible in zip(names, waits(got), waits(run(plan_step)(*case.args))):
        if found > SLOWER * possible:
            return f"the {name} is {found:,.0f} ms; {possible:,.0f} ms are possible."
    return None


def load(count: int, rate: float, seed: int) -> list[tuple[float, int, int]]:
    """Texts that arrive at random: (arrival, prompt, length)."""
    rng = np.random.default_rng(seed)
    arrivals = np.cumsum(rng.exponential(1 / rate, count))
    prompts = np.clip(rng.lognormal(5.0, 0.8, count).astype(int), 8, 600)
    lengths = np.clip(rng.lognormal(3.5, 0.6, count).astype(int), 2, 120)
    return [(float(a), int(p), int(n)) for a, p, n in zip(arrivals, prompts, lengths)]


def cases() -> list[Case]:
    """One text; prompts and a budget; texts that just fit, and that don't; loads with much and with little memory."""
    calls = [
        ("one text of a prompt and three tokens", [(0.0, 5, 3)], 8, 8, 4),
        ("one text that needs the whole pool", [(0.0, 5, 3)], 8, 2, 4),
        ("a prompt longer than the budget", [(0.0, 300, 3)], 128, 64, 16),
        ("somebody decodes, and a long prompt comes", [(0.0, 1, 60), (0.05, 2048, 5)], 128, 256, 16),
        ("five decode, the budget is four", [(0.0, 1, 9)] * 5, 4, 64, 4),
        ("two texts that grow out of the pool", [(0.0, 8, 20), (0.0, 8, 20)], 16, 8, 4),
        ("three that grow out of it, one with a long prompt", [(0.0, 8, 30), (0.01, 4, 30), (0.02, 30, 6)], 8, 12, 4),
        ("a text that fills the pool to its last block, and another one", [(0.0, 20, 13), (0.0, 3, 9)], 8, 8, 4),
        ("two texts that only just fit", [(0.0, 2, 9), (0.0, 4, 13)], 8, 6, 4),
        ("three texts, of which the youngest has to wait", [(0.0, 2, 6), (0.0, 4, 6), (0.01, 4, 9)], 4, 4, 4),
        ("60 texts, memory enough", load(60, 12, 0), 128, 1024, 16),
        ("60 texts, little memory", load(60, 12, 1), 128, 64, 16),
    ]
    return [Case(f"{label}; budget {budget}, {blocks} blocks of {size}", (texts, budget, blocks, size))
            for label, texts, budget, blocks, size in calls]


ORDER = "sorted(range(len(texts)), key=lambda i: texts[i][0] > 1)"
VICTIMS = "range(len(texts) - 1, i, -1)"

EXERCISE = Exercise(
    lesson="20", stars=3, reference=plan_step, where="section 4", cases=cases, judge=judge, run=run,
    hints=(
        "First the texts that decode, in order of age, one token each. What's left of the budget goes to prompts, in "
        "chunks, in order of age. Keep `free` and `budget` up to date.",
        "A text that holds h tokens and is fed c needs ⌈(h + c)/S⌉ − ⌈h/S⌉ new blocks. If they aren't free, give −1 "
        "to the youngest text that's younger than this one, holds some, and isn't fed in this step.",
        "Don't begin a prompt whose tokens don't all fit: it would take blocks from those that decode. And let no "
        "text overtake it.",
    ),
    without={
        "budget -= count": "You give out more tokens than there are: subtract each chunk from the budget (section 3).",
        "free -= -(-(held + count) // size) - blocks[i]":
            "Several texts take the same new blocks: subtract what you give from `free` (section 4).",
        "if need > free and held and blocks[j] and (fed[j] == 0):":
            "When the pool is full, your plan feeds no text. Take blocks from the youngest (section 4).",
    },
    mistakes=(
        Mistake("Prompts come first in your plan, so every text that decodes waits for them: decoding first (section "
                "3).", but(ORDER, "sorted(range(len(texts)), key=lambda i: texts[i][0] == 1)")),
        Mistake("A prompt that's larger than what's left of the budget gets nothing, and one that's larger than the "
                "budget never begins: feed it in chunks (section 3).",
                but("count = min(missing, budget)", "count = missing if missing <= budget else 0")),
        Mistake("You take blocks from the wrong text: one that you feed in the same step has nowhere to put its new "
                "keys, and the oldest has waited longest. Take those of the youngest (section 4).",
                but(" and fed[j] == 0:", ":", "fed[i] < 0 or ", ""), but(VICTIMS, "range(len(texts))")),
        Mistake("You count a new block for each chunk. The last block of a text may have room: ⌈(h + c)/S⌉ − ⌈h/S⌉ "
                "(section 4).",
                but("-(-(held + wanted) // size) - blocks[i]", "-(-wanted // size) + 0 * blocks[i]",
                    "free -= -(-(held + count) // size) - blocks[i]", "free -= -(-count // size)")),
        Mistake("You serve one text at a time. A step reads the weights once for all, so fill it (section 1).",
                but("        budget -= count\n", "        break\n")),
    ),
)
