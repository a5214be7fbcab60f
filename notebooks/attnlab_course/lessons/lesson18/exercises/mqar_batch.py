"""Lesson 18, ★★★: a batch of the task of recall."""

import copy
import math
from collections.abc import Callable
from typing import Any

from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.library import to_numpy

import numpy as np
from numpy import ndarray as Array


def mqar_batch(rng: np.random.Generator, size: int, pairs: int, length: int, half: int) -> tuple[Array, Array]:
    """(tokens, targets), integers, both (size, length): each row lists pairs and then asks for them.

    Tokens 0 … 2·pairs − 1 are key, value, key, value, …; all others are keys of that row, drawn at random. Keys are
    tokens 0 … half − 1, drawn at random, all different in a row; values are half … 2·half − 1, each drawn by itself.
    Every row has keys, values and questions of its own. The target of a question is the value of its key; in the
    pairs targets are −1. All that is random is drawn from ``rng``: the next call gives another batch.
    """
    row = np.arange(size)[:, None]
    keys = rng.permuted(np.tile(np.arange(half), (size, 1)), axis=1)[:, :pairs]
    values = rng.integers(half, 2 * half, size=(size, pairs))
    asked = rng.integers(pairs, size=(size, length - 2 * pairs))
    tokens = np.full((size, length), -1)
    targets = tokens.copy()
    tokens[:, 0 : 2 * pairs : 2], tokens[:, 1 : 2 * pairs : 2] = keys, values
    tokens[:, 2 * pairs :], targets[:, 2 * pairs :] = keys[row, asked], values[row, asked]
    return tokens, targets


def judge(case: Case, got: Any) -> str | None:
    """What is wrong with a batch: its pairs, its questions, its targets, or a way to be right without recall."""
    _, size, pairs, length, half = case.args
    try:
        got, *again = got if size in AGAIN else (got,)
        tokens, targets = (np.asarray(to_numpy(x)) for x in got)
    except (TypeError, ValueError):
        return "expected two arrays, (tokens, targets)."
    for name, x in (("tokens", tokens), ("targets", targets)):
        if x.shape != (size, length) or x.dtype.kind not in "iu":
            return f"{name}: expected integers of shape ({size}, {length}), got {x.dtype} {x.shape}."
        if np.iinfo(x.dtype).max < 2 * half - 1:
            return f"{name}: {x.dtype} ends at {np.iinfo(x.dtype).max}, and tokens go up to {2 * half - 1}."
    tokens = tokens.astype(int)
    keys, values, questions = tokens[:, 0 : 2 * pairs : 2], tokens[:, 1 : 2 * pairs : 2], tokens[:, 2 * pairs :]
    wrong = pairs_wrong(keys, values, half) or questions_wrong(keys, values, questions, targets)
    if wrong or not again:
        return wrong or guess(keys, values, questions, half)
    same, other, later = (shared(tokens, np.asarray(to_numpy(batch[0])), pairs) for batch in again)
    if len(same) < 3:
        return "a generator in the same state gives a different batch: draw it all from rng."
    repeated = {"a generator with another seed": other, "the next call with the same generator": later}
    for who, parts in repeated.items():
        if len(parts) == 3:
            return f"{who} gives the same batch: draw it all from rng, and not from a copy of it."
    rules = [f"{who} gives {' and '.join(parts)}: draw it all from rng." for who, parts in repeated.items() if parts]
    return guess(keys, values, questions, half) or next(iter(rules), None)


AGAIN = (48, 256)  # batches so large that two are never the same


def again(answer: Callable) -> Callable:
    """The answer, which gives a large batch again: from the same generator, another seed, and the one it has used."""

    def batches(rng: np.random.Generator, size: int, *rest: int) -> Any:
        generators = (rng, copy.deepcopy(rng), np.random.default_rng(99), rng) if size in AGAIN else (rng,)
        got = [answer(generator, size, *rest) for generator in generators]
        return got if size in AGAIN else got[0]

    return batches


def shared(tokens: Array, others: Array, pairs: int) -> list[str]:
    """Which parts two batches have in common: keys, values, and the pairs asked for."""
    def parts(x: Array) -> tuple[Array, Array, Array]:
        keys = x[:, 0 : 2 * pairs : 2]
        return keys, x[:, 1 : 2 * pairs : 2], (x[:, 2 * pairs :, None] == keys[:, None, :]).argmax(-1)

    names = "the same keys", "the same values", "the same pairs asked for"
    return [name for name, a, b in zip(names, parts(tokens), parts(others)) if np.array_equal(a, b)]


def pairs_wrong(keys: Array, values: Array, half: int) -> str | None:
    """Keys and values in their places and ranges, and no key twice."""
    if keys.min() < 0 or keys.max() >= half:
        return f"the even places of the pairs must hold keys, 0 … {half - 1}; the first row has {shown(keys[0])}."
    if values.min() < half or values.max() >= 2 * half:
        return f"the odd places must hold values, {half} … {2 * half - 1}; the first row has {shown(values[0])}."
    twice = [n for n, row in enumerate(keys) if len(set(row.tolist())) < len(row)]
    return f"row {twice[0]} has a key twice, with two values: which one is right?" if twice else None


def questions_wrong(keys: Array, values: Array, questions: Array, targets: Array) -> str | None:
    """Every question is a key of its row, and its target the value of that key."""
    count = 2 * keys.shape[1]
    same = questions[:, :, None] == keys[:, None, :]
    if not same.any(-1).all():
        n, place = np.argwhere(~same.any(-1))[0]
        return f"row {n} asks for {questions[n, place]}, which is none of its keys."
    right = (same * values[:, None, :]).sum(-1)
    wanted = np.hstack([np.full((len(keys), count), -1), right])
    if np.array_equal(targets[:, :-1], wanted[:, 1:]) or np.array_equal(targets[:, 1:], wanted[:, :-1]):
        return "all targets are one place off: the answer is asked for at the question itself."
    if (targets[:, :count] != -1).any():
        return "nothing is asked in the pairs, so their targets must be −1."
    if (right != targets[:, count:]).any():
        n, place = np.argwhere(right != targets[:, count:])[0]
        return (f"row {n} asks for key {questions[n, place]}, whose value is {right[n, place]}; the target is "
                f"{targets[n, count + place]}.")
    return None


def guess(keys: Array, values: Array, questions: Array, half: int) -> str | None:
    """In a large batch: no rule that needs no recall gives the answers."""
    if len(keys) < 32:
        return None
    if (keys == keys[:1]).all() or len({tuple(np.sort(row)) for row in keys}) == 1 < keys.shape[1]:
        return "all rows have the same keys."
    if (values == values[:1]).all():
        return "all rows have the same values."
    known = {(int(k), int(v)) for k, v in zip(keys.flat, values.flat)}
    if len(known) == len({k for k, _ in known}):
        return "a key has the same value in all rows: a model can learn the values by heart and doesn't have to look."
    place = (questions[:, :, None] == keys[:, None, :]).argmax(-1)
    pairs, fixed = keys.shape[1], (place == place[:1]).all(0)
    if fixed.all() and len(set(place[0])) > 1:
        return "all rows ask for their pairs in the same order: a model can answer by counting."
    if left_out := set(range(pairs)) - set(place.flat):
        return f"pair {max(left_out) + 1} of {pairs} is never asked for, in any row."
    if fixed.any():
        n = int(fixed.argmax())
        return f"question {n + 1} is about pair {place[0, n] + 1} in every row: a model can answer by counting."
    return too_regular(keys, values, place, half) if len(keys) > 200 else None


def too_regular(keys: Array, values: Array, place: Array, half: int) -> str | None:
    """In a batch of hundreds: what random draws do not leave out. ``place``: which pair each question is about."""
    for x, first in ((keys, 0), (values, half)):
        left_out = set(range(first, first + half)) - set(x.flat)
        if left_out:
            return f"token {max(left_out)} is never drawn; {first} … {first + half - 1} are all possible there."
    if all(len(set(row)) == len(row) for row in values.tolist()):
        return "no row has a value twice: draw each value independently of the others."
    if (values == values[:, :1]).all():
        return "every row has one value for all of its keys: a model doesn't have to look at the key."
    if rare(half * values[:, 0] + values[:, 1], half**2):
        return "the values of a row depend on each other: draw each value independently."
    if rare(2 * half * keys + values, half**2):
        return "each key has only some of the values: draw each value independently of its key."
    if rare(np.sort(keys[:, :2]) @ [half, 1], half * (half - 1) // 2):
        return "the keys of a row depend on each other: draw keys at random."
    if any((step > 0).all() for step in (np.diff(keys), -np.diff(keys))):
        return "the keys are sorted in every row: draw keys at random."
    asked = (place[:, :, None] == np.arange(keys.shape[1])).sum(1)
    if asked.sum(0).max() > 1.4 * asked.sum(0).min():
        return f"the pairs are asked for {shown(asked.sum(0))} times: each should be as likely as any other."
    if (asked == asked[:1]).all():
        return "every row asks for its pairs equally often: by counting, a model knows the last question."
    alike = (place[:, :, None] == place[:, None, :]).mean(0)
    np.fill_diagonal(alike, 0.5)
    for share, about in ((1, "the same pair"), (0, "different pairs")):
        if (alike == share).any():
            n, other = np.argwhere(alike == share)[0] + 1
            return f"questions {n} and {other} are about {about} in every row: draw each question independently."
    if rare(place @ keys.shape[1] ** np.arange(place.shape[1]), keys.shape[1] ** place.shape[1]):
        return "the questions of different rows depend on each other: draw each question independently."
    return None


def rare(drawn: Array, possible: int) -> bool:
    """Whether numbers ``drawn`` are of far fewer kinds than those that are drawn from ``possible`` kinds at random."""
    return len(set(drawn.flat)) < 0.75 * possible * (1 - math.exp(-drawn.size / possible))


def shown(row: Array) -> str:
    """The first numbers of a row."""
    return ", ".join(map(str, row[:6].tolist())) + (", …" if len(row) > 6 else "")


def cases() -> list[Case]:
    """From one pair to the task of the lesson."""
    calls = [
        ("ONE: one row, one pair, one question", (1, 1, 3, 4)),
        ("two rows, three pairs, six questions", (2, 3, 12, 8)),
        ("as many pairs as there are keys", (4, 8, 20, 8)),
        ("five rows of three pairs, 80,000 tokens to choose from", (5, 3, 12, 40_000)),
        ("256 rows of two pairs and eight questions", (256, 2, 12, 16)),
        ("48 rows of 16 pairs and 64 questions, as in the lesson", (48, 16, 96, 64)),
    ]
    return [Case(label, (np.random.default_rng(n), *args)) for n, (label, args) in enumerate(calls)]


KEYS = "rng.permuted(np.tile(np.arange(half), (size, 1)), axis=1)[:, :pairs]"
VALUES = "rng.integers(half, 2 * half, size=(size, pairs))"

EXERCISE = Exercise(
    lesson="18", stars=3, reference=mqar_batch, where="section 4", cases=cases, judge=judge, run=again, writes=(0,),
    hints=(
        "Draw three things for each row: its keys, their values, and which pair each question is about, a number from "
        "0 to pairs − 1.",
        "Different keys in a row: shuffle 0 … half − 1 in every row and take the first `pairs`; rng.permuted with "
        "axis=1 shuffles each row by itself.",
        "keys[row, asked] with row = np.arange(size)[:, None] picks the keys of the questions, values[row, asked] the "
        "targets.",
    ),
    mistakes=(
        Mistake("You draw the keys independently, so a row can have a key twice, with two values, and then no model "
                "can be right: draw without replacement (section 4).",
                but(KEYS, "rng.integers(half, size=(size, pairs))")),
        Mistake("You draw one row of pairs for the whole batch. A model can learn that by heart; for recall, every "
                "row has to be new (section 4).",
                but(KEYS, "np.tile(rng.permutation(half)[:pairs], (size, 1))",
                    VALUES, "np.tile(rng.integers(half, 2 * half, size=pairs), (size, 1))")),
        Mistake("A key's value is always the same, key + half. Then the question gives away the answer, and there's "
                "nothing to recall (section 4).",
                but(VALUES, "keys + half")),
        Mistake("Your targets are in the wrong places. We ask for the answer at the question itself, not one token "
                "before, and in the pairs the model has nothing to recall yet: −1 (section 4).",
                but("return tokens, targets", "return tokens, np.roll(targets, -1, 1)"),
                but("    return", "    targets[:, 1 : 2 * pairs : 2] = values\n    return"),
                but("targets = tokens.copy()", "targets = np.zeros_like(tokens)")),
        Mistake("Your questions come in the order of the pairs, in every row: the place gives away the answer, and no "
                "key needs comparing (section 4).",
                but("rng.integers(pairs, size=(size, length - 2 * pairs))",
                    "np.tile(np.arange(length - 2 * pairs) % pairs, (size, 1))")),
    ),
)
