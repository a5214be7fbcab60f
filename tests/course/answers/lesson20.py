"""Answers to the exercises of lesson 20: right ones, written in other ways, and ones to refuse."""

import itertools

import numpy as np
from attnlab_course.serve import choose, uniform

from tests.course.answers import edited


def steps_one_by_one(lengths, slots, continuous):
    """Step by step, as a server does it."""
    waiting, running, steps = list(lengths), [], 0
    while waiting or running:
        if continuous or not running:
            while waiting and len(running) < slots:
                running.append(waiting.pop(0))
        running = [left - 1 for left in running if left > 1]
        steps += 1
    return steps


def steps_by_argmin(lengths, slots, continuous):
    free = np.zeros(slots, int)
    for i, length in enumerate(lengths):
        if not continuous and i % slots == 0:
            free[:] = free.max()
        free[free.argmin()] += length
    return free.max()


def plan_in_two_passes(texts, budget, free, size):
    """Decoding, then prompts; blocks are counted in a list."""
    fed, held = [0] * len(texts), [-(-have // size) for _, have in texts]

    def give(i, count):
        nonlocal free, budget
        more = -(-(texts[i][1] + count) // size) - held[i]
        younger = [j for j in range(i + 1, len(texts)) if fed[j] == 0 and held[j]]
        while more > free and younger:
            j = younger.pop()
            fed[j], free, held[j] = -1, free + held[j], 0
        if more <= free:
            fed[i], free, budget = count, free - more, budget - count
        return more <= free or fed[i] > 0

    for i, (missing, have) in enumerate(texts):
        if missing == 1 and have and fed[i] == 0 and budget:
            give(i, 1)
    for i, (missing, have) in enumerate(texts):
        if fed[i] == 0 and budget and not (missing == 1 and have):
            if not have and -(-missing // size) > free:
                break
            if not give(i, min(missing, budget)):
                break
    return fed


def plan_as_a_tuple(texts, budget, free, size):
    return tuple(map(float, plan_in_two_passes(texts, budget, free, size)))


def plan_without_chunks(texts, budget, free, size):
    """What fits as a whole."""
    whole = [(missing, have) if missing <= budget else (0, have) for missing, have in texts]
    return plan_in_two_passes(whole, budget, free, size)


def draw_by_choose(chances, seeds, positions):
    """By the engine's own."""
    draws = map(uniform, seeds, itertools.repeat(0), positions)
    with np.errstate(divide="ignore"):
        return [choose(np.log(p), u, 1.0) for p, u in zip(chances, draws)]


def draw_in_columns(chances, seeds, positions):
    u = np.array([uniform(seed, 0, position) for seed, position in zip(seeds, positions)])
    return (np.cumsum(chances, 1) <= u[:, None]).sum(1)


RIGHT = [
    ("plan_step", plan_as_a_tuple),
    ("steps_needed", steps_one_by_one),
    ("steps_needed", steps_by_argmin),
    ("plan_step", plan_in_two_passes),
    ("next_tokens", draw_by_choose),
    ("next_tokens", draw_in_columns),
]

def draw_in_float32(chances, seeds, positions):
    sums = np.cumsum(np.float32(chances), axis=1)
    draws = [np.float32(uniform(seed, 0, position)) for seed, position in zip(seeds, positions)]
    return [int(np.searchsorted(row, u, side="right")) for row, u in zip(sums, draws)]


DRAWN = "uniform(seed, 0, position)"
steps_in_int16 = edited("steps_needed", "return max(free)", "return (max(free) + 2**15) % 2**16 - 2**15")
plan_of_short_chunks = edited("plan_step", "min(missing, budget)", "min(missing, budget, 8)")
draw_of_the_likely = edited("next_tokens", "np.cumsum(p)", "np.cumsum(np.where(p < 1e-3, 0, p))")
draw_but_sure = edited("next_tokens", "np.searchsorted", "p.argmax() if p.max() > 0.99 else np.searchsorted")
draw_by_short_seeds = edited("next_tokens", DRAWN, "uniform(seed % 2**16, 0, position)")
draw_in_a_window = edited("next_tokens", DRAWN, "uniform(seed, 0, position % 1024)")


REFUSED = [
    ("plan_step", plan_without_chunks, "nobody is fed"),
    ("plan_step", plan_of_short_chunks, "are possible"),
    ("next_tokens", draw_in_float32, "u + 10⁻⁹"),
    ("steps_needed", steps_in_int16, "lengths [40000, 2, 3]"),
    ("next_tokens", draw_of_the_likely, "2,000 tokens"),
    ("next_tokens", draw_but_sure, "a token of chance 0.995"),
    ("next_tokens", draw_by_short_seeds, "65,536 apart"),
    ("next_tokens", draw_in_a_window, "1,024 apart"),
]
