"""Lesson 23, ★★: which plan to serve, and how many sequences at a time."""

from typing import Any

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.inputs import table

Plan = tuple[float, float, float]


def choose_deployment(
    plans: list[Plan], memory: float, bandwidth: float, flops: float, wait: float, bits: float
) -> tuple[int, int]:
    """(index of the plan, batch size) with the most tokens per second; (−1, 0) if no plan can be served.

    A plan is (bytes of its weights, bytes of one sequence's cache, bits per byte of text). Weights and caches have to
    fit into ``memory``, a step can take ``wait`` seconds, and the text can cost ``bits``. A step gives each sequence
    one token. It takes the longer of two times: reading weights and caches at ``bandwidth`` bytes per second, or
    computing, at ``flops``, one operation per byte of weights and sequence (two per weight of two bytes; we leave out
    those of attention).
    """
    best, found = 0.0, (-1, 0)
    for index, (weights, cache, paid) in enumerate(plans):
        batch = 1
        while paid <= bits and weights + batch * cache <= memory:
            seconds = max((weights + batch * cache) / bandwidth, batch * weights / flops)  # eq. 23.3
            if seconds <= wait and batch / seconds > best * (1 + 1e-9):
                best, found = batch / seconds, (index, batch)
            batch += 1
    return found


def rate(case: Case, index: int, batch: int) -> float:
    """Tokens a second of a choice."""
    plans, _, bandwidth, flops, *_ = case.args
    weights, cache, _ = plans[index]
    return batch / max((weights + batch * cache) / bandwidth, batch * weights / flops)


def judge(case: Case, got: Any) -> str | None:
    """What is wrong with a choice: a limit that it breaks, or that another one is faster."""
    plans, memory, _, _, wait, bits = case.args
    right = choose_deployment(*case.args)
    try:
        index, batch = map(int, got)
    except (TypeError, ValueError):
        return f"expected the index of a plan and a number of sequences, got {got!r}."
    if right[0] == -1:
        return None if (index, batch) == right else f"no plan can be served, so (-1, 0) is right; got {(index, batch)}."
    if (index, batch) == (-1, 0):
        return f"it says that no plan can be served; plan {right[0]} with {right[1]} sequences can."
    if not 0 <= index < len(plans) or batch < 1:
        return f"expected an index from 0 to {len(plans) - 1} and at least one sequence, got {(index, batch)}."
    weights, cache, paid = plans[index]
    needed, seconds = weights + batch * cache, batch / rate(case, index, batch)
    if paid > bits:
        return f"plan {index} costs {paid} bits per byte; {bits} are allowed."
    if needed > memory:
        return f"plan {index} with {batch} sequences needs {needed:g} bytes; there are {memory:g}."
    if seconds > wait * (1 + 1e-9):
        return f"plan {index} with {batch} sequences takes {seconds:g} s per step; {wait:g} s are allowed."
    if rate(case, index, batch) < rate(case, *right) * (1 - 1e-6):
        return (f"plan {index} with {batch} sequences gives {rate(case, index, batch):.1f} tokens per second; "
                f"plan {right[0]} with {right[1]} gives {rate(case, *right):.1f}.")
    return None


WHOLE, SHARED, NARROW, SMALL = (100.0, 10.0, 1.2), (100.0, 5.0, 1.5), (100.0, 1.0, 2.5), (40.0, 8.0, 1.4)
SECONDS = "max((weights + batch * cache) / bandwidth, batch * weights / flops)"

EXERCISE = Exercise(
    lesson="23", stars=2, reference=choose_deployment, where="eq. 23.3", judge=judge,
    cases=table(
        ("one plan, the memory binds", [WHOLE], 165, 1e3, 1e6, 10.0, 9.0),
        ("one plan that fills the memory exactly", [WHOLE], 160, 1e3, 1e6, 10.0, 9.0),
        ("one plan, the wait binds", [WHOLE], 1e4, 1e3, 1e6, 0.25, 9.0),
        ("one plan, the arithmetic binds the wait", [WHOLE], 1e4, 1e6, 1e3, 0.55, 9.0),
        ("the arithmetic of one sequence fits into the wait, of two not", [WHOLE], 1e4, 1e6, 1e3, 0.15, 9.0),
        ("weights alone are larger than the memory", [WHOLE], 90, 1e3, 1e6, 10.0, 9.0),
        ("one sequence takes longer than the wait", [WHOLE], 1e4, 1e3, 1e6, 0.1, 9.0),
        ("three plans, all good enough", [WHOLE, SHARED, NARROW], 200, 1e3, 1e6, 10.0, 9.0),
        ("three plans, the smallest is not good enough", [WHOLE, SHARED, NARROW], 200, 1e3, 1e6, 10.0, 2.0),
        ("nothing is good enough", [NARROW, SHARED], 200, 1e3, 1e6, 10.0, 1.0),
        ("fewer weights with a larger cache, much memory", [SHARED, SMALL], 1500, 1e3, 1e6, 10.0, 9.0),
        ("fewer weights pay where the arithmetic binds", [NARROW, SMALL], 2000, 1e6, 1e3, 1e3, 9.0),
        ("a slow memory: less than a token a second", [WHOLE], 200, 10, 1e6, 100.0, 9.0),
        ("a short wait", [NARROW, SMALL], 2000, 1e3, 1e6, 0.06, 9.0),
        ("the wait is a thousandth too short for 16 sequences", [WHOLE], 1e4, 1e3, 1e6, 0.25985, 9.0),
        ("1.204 bits per byte where 1.2 are allowed", [WHOLE, (100.0, 5.0, 1.204)], 200, 1e3, 1e6, 10.0, 1.2),
    ),
    hints=(
        "For one plan: which batches are allowed at all? Memory bounds them, and so does the wait.",
        "A step with B sequences takes max((weights + B · cache) / bandwidth, B · weights / flops) seconds and yields "
        "B tokens: eq. 23.3.",
        "B / seconds never falls when B grows, but looping over all allowed batches of all plans is fine, too. Skip "
        "plans with too many bits, and return (−1, 0) if nothing is left.",
    ),
    without={
        "batch * weights / flops": "You leave out one of a step's two times. Arithmetic grows with the batch, because "
                                   "every sequence is multiplied by all weights, so with many sequences it takes "
                                   "longer than reading (eq. 23.3).",
        "paid <= bits": "We want the most tokens per second among the plans that are good enough: at most `bits` "
                        "(section 2, section 3).",
        "seconds <= wait": "Your plan keeps readers waiting: a step can't take longer than `wait`, so only smaller "
                           "batches are allowed (section 3).",
    },
    mistakes=(
        Mistake("You only try the largest batch. Where its step takes too long, a smaller one may be allowed, and a "
                "plan with a smaller batch and less to read can yield more tokens per second (section 3, eq. 23.3).",
                but("        batch = 1\n", "        batch = max(int((memory - weights) // cache), 1)\n"),
                but("batch / seconds > best * (1 + 1e-9)", "batch > best", "best, found = batch / seconds",
                    "best, found = batch")),
        Mistake(phrases.adds_times("eq. 23.3"),
                but(SECONDS, "(weights + batch * cache) / bandwidth + batch * weights / flops")),
        Mistake("You serve one sequence at a time, as if each read the weights for itself, or you look for the "
                "shortest step. A batch reads the weights once, and we want tokens per second: eq. 23.3.",
                but("(weights + batch * cache) / bandwidth", "batch * (weights + cache) / bandwidth"),
                but("batch / seconds > best * (1 + 1e-9)", "1 / seconds > best",
                    "batch / seconds, (", "1 / seconds, (")),
    ),
)
