"""Answers to the exercises of lesson 26: right ones, written in other ways, and ones to refuse."""

from fractions import Fraction

import numpy as np

from tests.course.answers import edited


def tokens_by_powers(alpha, k):
    """The closed form, with its hole filled."""
    return k + 1 if alpha == 1 else (1 - alpha ** (k + 1)) / (1 - alpha)


def tokens_by_loop(alpha, k):
    tokens, chance = 0, Fraction(1) if isinstance(alpha, Fraction) else 1.0
    for _ in range(k + 1):
        tokens += chance
        chance *= alpha
    return tokens


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


def cut_one_by_one(table, references, length, size):
    """Block by block, from the end."""
    kept, freed = list(table), []
    while (len(kept) - 1) * size >= length and kept:
        block = kept.pop()
        if references[block] == 1:
            freed.append(block)
    return kept, freed, bool(kept) and len(kept) * size > length and references[kept[-1]] == 1


def cut_by_starts(table, references, length, size):
    kept = [block for i, block in enumerate(table) if i * size < length]
    freed = [block for i, block in enumerate(table) if i * size >= length and references[block] < 2][::-1]
    return kept, freed, length % size != 0 and references[table[length // size]] < 2


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


def plan_by_list(drafts, batch, ratio, balance, most):
    """All plans, sorted."""
    def call(n):
        return max(1 + batch * ratio, batch * n / balance)

    plans = [(1.0, -1, 0)]
    for i, (a, c) in enumerate(drafts):
        for k in range(1, most + 1):
            plans.append((sum(a**j for j in range(k + 1)) * call(1) / (call(k + 1) + k * c * call(1)), i, k))
    return max(plans, key=lambda plan: plan[0])[1:]


def plan_by_seconds(drafts, batch, ratio, balance, most):
    """Seconds per token, the least."""
    bytes_read, flops = 1 + batch * ratio, batch / balance
    least, best = max(bytes_read, flops), (-1, 0)
    for k in range(1, most + 1):
        for i, (a, c) in enumerate(drafts):
            seconds = max(bytes_read, (k + 1) * flops) + k * c * max(bytes_read, flops)
            seconds /= np.sum(a ** np.arange(k + 1))
            if seconds < least:
                least, best = seconds, (i, k)
    return best


RIGHT = [
    ("expected_tokens", tokens_by_powers), ("expected_tokens", tokens_by_loop),
    ("accept_guesses", accept_by_counts), ("accept_guesses", accept_in_floats),
    ("prompt_lookup", lookup_by_text), ("prompt_lookup", lookup_by_ends),
    ("cut_back", cut_one_by_one), ("cut_back", cut_by_starts),
    ("speculate", speculate_by_prefix), ("speculate", speculate_with_fewer),
    ("best_plan", plan_by_list), ("best_plan", plan_by_seconds),
]  # fmt: skip

REFUSED = [
    ("expected_tokens", lambda alpha, k: (k + 1) * alpha, "no guess"),
    ("accept_guesses", accept_the_first_only, "two guesses"),
    ("prompt_lookup", edited("prompt_lookup", "return []", "return tokens[-k:]"), "a single token isn't enough"),
    ("cut_back", edited("cut_back", "kept, left = table[:count]", "kept, left = table[: max(count, 1)]"), "forgotten"),
    ("speculate", speculate_plainly, "always right"),
    ("best_plan", lambda drafts, batch, ratio, balance, most: (0, most), "one sequence"),
]
