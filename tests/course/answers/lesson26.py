"""Answers to the exercises of lesson 26: right ones, written in other ways, and ones to refuse."""

from fractions import Fraction

import numpy as np

from tests.course.answers import edited


def tokens_by_counts(alphas):
    """How many tokens with which probability."""
    tokens, before = 0, Fraction(1) if all(isinstance(a, Fraction) for a in alphas) else 1.0
    for j, alpha in enumerate(alphas):
        tokens, before = tokens + (j + 1) * before * (1 - alpha), before * alpha
    return tokens + (len(alphas) + 1) * before


def tokens_by_recursion(alphas):
    return 1 + alphas[0] * tokens_by_recursion(alphas[1:]) if alphas else 1


def accept_by_counts(draft, draft_chances, chances, draws):
    """In lists of cumulative sums."""
    k, out = len(draft), []
    for j, x in enumerate(draft):
        if draft_chances[j][x] * draws[j] < chances[j][x]:
            out.append(x)
            continue
        weights = [max(Fraction(0), a - b) for a, b in zip(chances[j], draft_chances[j])]
        return [*out, looked_up(weights, draws[k + j])]
    return [*out, looked_up(chances[k], draws[2 * k])]


def looked_up(weights, u):
    sums = np.cumsum(np.array(weights, dtype=float))
    return int(np.searchsorted(sums, float(u) * sums[-1], side="right"))


def accept_in_floats(draft, draft_chances, chances, draws):
    k = len(draft)
    p, u = np.array(chances, float), np.array(draws, float)
    for j in range(k):
        q = np.array(draft_chances[j], float)
        if u[j] >= min(1, p[j, draft[j]] / q[draft[j]]):
            return [*draft[:j], looked_up(np.maximum(p[j] - q, 0), u[k + j])]
    return [*draft, looked_up(p[k], u[2 * k])]


def accept_the_first_only(draft, draft_chances, chances, draws):
    """Right, and it looks at one guess at most."""
    k = len(draft)
    if k < 2:
        return accept_by_counts(draft, draft_chances, chances, draws)
    return accept_by_counts(draft[:1], draft_chances[:1], chances[:2], [draws[0], draws[k], draws[2 * k]])


def lookup_by_text(tokens, k, most, least):
    """As strings of characters: find from the right."""
    text = "".join(map(chr, tokens))
    for size in range(min(most, len(text) - 1), least - 1, -1):
        at = text[:-1].rfind(text[-size:])
        if at >= 0:
            return tokens[at + size :][:k]
    return []


def lookup_by_ends(tokens, k, most, least):
    """The end of each earlier stretch, by how far it agrees with the end of the text."""
    best, found = least - 1, []
    for end in range(1, len(tokens)):
        size = 0
        while size < min(most, end) and tokens[end - 1 - size] == tokens[len(tokens) - 1 - size]:
            size += 1
        if size >= max(best, least):
            best, found = size, tokens[end : end + k]
    return found


def speculate_by_prefix(logits, draft, draw, prompt, count, k):
    """All rows are drawn from, then the guess is compared."""
    text, calls = list(prompt), 0
    while len(text) - len(prompt) < count:
        guess = list(draft(text, k))
        rows = logits(text + guess)[len(text) - 1 :]
        drawn = [draw(row, len(text) + j) for j, row in enumerate(rows)]
        agree = [x == y for x, y in zip(guess, drawn)] + [False]
        text += drawn[: agree.index(False) + 1]
        calls += 1
    return text[len(prompt) : len(prompt) + count], calls


def speculate_with_fewer(logits, draft, draw, prompt, count, k):
    """Never more guesses than there is room for."""
    text, calls, end = list(prompt), 0, len(prompt) + count
    while len(text) < end:
        guess = list(draft(text, min(k, end - len(text) - 1)))
        rows, n, calls = logits(text + guess), len(text), calls + 1
        for j in range(len(guess) + 1):
            token = draw(rows[n - 1 + j], n + j)
            text.append(token)
            if j < len(guess) and token != guess[j]:
                break
    return text[len(prompt) :], calls


def speculate_plainly(logits, draft, draw, prompt, count, k):
    """Right tokens, one for each call."""
    text = list(prompt)
    for _ in range(count):
        text.append(draw(logits(text)[-1], len(text)))
    return text[len(prompt) :], count


def plan_by_heap(alphas, most, balance, weights):
    """The next guess goes to the sequence to which it gives most."""
    fed = len(alphas)
    given, plan = np.array(alphas, float), np.zeros(fed, int)
    made, found = float(fed), []
    while True:
        found.append((made / max(weights(fed), fed / balance), -fed, plan.tolist()))
        if (plan == most).all():
            return max(found)[2]
        i = int(np.argmax(np.where(plan < most, given, -1.0)))
        made, fed = made + given[i], fed + 1
        given[i] *= alphas[i]
        plan[i] += 1


def plan_by_threshold(alphas, most, balance, weights):
    """All guesses that give at least so much, for each such bound; the least seconds per token."""
    gives = [[alpha**j for j in range(1, most + 1)] for alpha in alphas]

    def seconds(plan):
        fed = len(alphas) + sum(plan)
        made = sum(1 + sum(row[:k]) for row, k in zip(gives, plan))
        return round(max(weights(fed), fed / balance) / made, 12), fed

    bounds = [2.0, *(x for row in gives for x in row if x > 0)]
    return min(([sum(x >= bound for x in row) for row in gives] for bound in bounds), key=seconds)


RIGHT = [
    ("expected_tokens", tokens_by_counts), ("expected_tokens", tokens_by_recursion),
    ("accept_guesses", accept_by_counts), ("accept_guesses", accept_in_floats),
    ("prompt_lookup", lookup_by_text), ("prompt_lookup", lookup_by_ends),
    ("speculate", speculate_by_prefix), ("speculate", speculate_with_fewer),
    ("best_plan", plan_by_heap), ("best_plan", plan_by_threshold),
]  # fmt: skip

REFUSED = [
    ("expected_tokens", lambda alphas: (len(alphas) + 1) * sum(alphas), "no guess"),
    ("expected_tokens", lambda alphas: sum((alphas[0] if alphas else 1) ** j for j in range(len(alphas) + 1)), "1/3"),
    ("accept_guesses", accept_the_first_only, "two guesses"),
    ("prompt_lookup", edited("prompt_lookup", "return []", "return tokens[-k:]"), "a single token isn't enough"),
    ("speculate", speculate_plainly, "always right"),
    ("best_plan", lambda alphas, most, *_: [most] * len(alphas), "always wrong"),
    ("best_plan", lambda alphas, most, balance, _: plan_by_heap(alphas, most, balance, lambda m: 1.0), "mixture"),
]
