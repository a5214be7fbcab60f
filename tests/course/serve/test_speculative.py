"""Guess and verify: the law of the model, exactly; the text of plain sampling; the latest occurrence."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from attnlab_course.serve import accept, accept_keyed, choose, prompt_lookup, race, speculative, uniform

ROWS = [(Fraction(a, 4), Fraction(b, 4), Fraction(4 - a - b, 4)) for a, b in ((1, 1), (2, 1), (1, 2), (3, 1), (0, 2))]
GRID = [Fraction(2 * i + 1, 24) for i in range(12)]  # every cut of the rule is a multiple of 1/12


def model(history):
    return ROWS[sum(x * 3**i for i, x in enumerate(history)) % 5]


def draft_of(history):
    return ROWS[(2 + sum(x * 2**i for i, x in enumerate(history))) % 4]  # never a chance of 0


def law_of_a_round(k, rule=accept, p=model, q=draft_of):
    """{emitted tokens: probability}, over all drafts and all draws of one round."""
    law = {}
    for draft in product(range(3), repeat=k):
        rows_q = [q(draft[:j]) for j in range(k)]
        weight = math.prod((row[x] for row, x in zip(rows_q, draft)), start=Fraction(1))
        if weight == 0:
            continue
        rows_p = [p(draft[:j]) for j in range(k + 1)]
        for *accepting, last in product(GRID, repeat=k + 1):  # one replacement or the bonus is drawn, never two
            out = tuple(rule(list(draft), rows_q, rows_p, [*accepting, *[last] * (k + 1)]))
            law[out] = law.get(out, 0) + weight / len(GRID) ** (k + 1)
    return law


def completed(law, length, p=model):
    """The law of the first ``length`` tokens, if plain sampling goes on after the round."""
    full = {}
    for out, weight in law.items():
        for rest in product(range(3), repeat=max(length - len(out), 0)):
            text, chance = out + rest, weight
            for j in range(len(out), len(text)):
                chance *= p(text[:j])[text[j]]
            full[text[:length]] = full.get(text[:length], 0) + chance
    return full


def plain(length, p=model):
    return completed({(): Fraction(1)}, length, p)


def distance(one, other):
    """Total variation."""
    return sum(abs(one.get(x, 0) - other.get(x, 0)) for x in {*one, *other}) / 2


@pytest.mark.parametrize("k", [0, 1, 2])
def test_the_law_is_the_models_exactly(k):
    law = law_of_a_round(k)
    assert sum(law.values()) == 1
    assert distance(completed(law, k + 1), plain(k + 1)) == 0


def wrong_residual(draft, q, p, draws):
    """After a rejection draws from p."""
    out = accept(draft, q, p, draws)
    j = len(out) - 1
    if j == len(draft) or (j < len(draft) and draws[j] * q[j][draft[j]] < p[j][draft[j]]):
        return out
    return [*draft[:j], accept([], [], [p[j]], [draws[len(draft) + j]])[0]]


def test_the_enumeration_sees_a_wrong_rule_and_a_draft_like_the_model_is_blind():
    assert distance(completed(law_of_a_round(1, wrong_residual), 2), plain(2)) > Fraction(1, 20)
    same = law_of_a_round(1, wrong_residual, q=draft_of, p=draft_of)
    assert distance(completed(same, 2, draft_of), plain(2, draft_of)) == 0


def test_tokens_per_round_follow_the_acceptance():
    """One row everywhere: acceptance α = Σ min(p, q), and a round gives (1 − α^{k+1}) / (1 − α) tokens."""
    p, q = ROWS[1], ROWS[2]
    alpha = sum(map(min, p, q))
    for k in (1, 2):
        law = law_of_a_round(k, p=lambda history: p, q=lambda history: q)
        assert sum(len(out) * weight for out, weight in law.items()) == (1 - alpha ** (k + 1)) / (1 - alpha)


@pytest.mark.parametrize("temperature", [0, 0.7, 1.0])
@pytest.mark.parametrize("k", [1, 4, 8])
def test_keyed_text_is_plain_samplings(temperature, k):
    """Any draft, any k: guesses that are right, made from another model, or random."""
    table = np.random.default_rng(0).normal(size=(7, 7))
    sampling = {"temperature": temperature, "top_k": 5, "top_p": 0.95}
    text = [3]
    for position in range(1, 40):
        text.append(choose(table[text[-1]], uniform(9, 1, position), **sampling))
    random = np.random.default_rng(1)
    for guess in (lambda at: text[at : at + k], lambda at: random.integers(0, 7, k).tolist(), lambda at: []):
        found, rounds = [3], 0
        while len(found) < 40:
            draft = guess(len(found))
            rows = np.array([table[x] for x in (found[-1], *draft)])
            found += accept_keyed(draft, rows, 9, 1, len(found), **sampling)
            rounds += 1
        assert found[:40] == text
    assert rounds == 39  # the last one guessed nothing


def test_prompt_lookup():
    assert prompt_lookup([1, 2, 3, 9, 1, 2, 3], 2) == [9, 1]
    assert prompt_lookup([1, 2, 7, 1, 2, 8, 1, 2], 1) == [8]  # the latest
    assert prompt_lookup([5, 1, 2, 7, 9, 1, 2, 8, 5, 1, 2], 1) == [7]  # the longest comes first
    assert prompt_lookup([4, 4, 4, 4], 3) == [4]  # an occurrence may overlap the suffix
    assert prompt_lookup([1, 2, 3, 1], 4) == []
    assert prompt_lookup([1, 2, 3, 1], 4, least=1) == [2, 3, 1]
    assert prompt_lookup([1, 2, 3, 1, 2, 3], 9, most=2) == [1, 2, 3]
    assert prompt_lookup([], 3) == prompt_lookup([1], 3) == []


def test_the_race_has_the_law_and_mostly_agrees():
    p, q = np.array([0.1, 0.4, 0.2, 0.3, 0]), np.array([0.15, 0.35, 0.25, 0.25, 0])
    ours = np.array([race(p, 1, 2, position) for position in range(1500)])
    np.testing.assert_allclose(np.bincount(ours, minlength=5) / 1500, p, atol=0.04)
    agree = np.mean([race(q, 1, 2, position) == x for position, x in enumerate(ours)])
    overlap = np.minimum(p, q).sum()
    assert overlap / (2 - overlap) - 0.03 < agree <= overlap + 0.03
    assert race([0, 0, 1.0], 0, 0, 0) == 2


@pytest.mark.parametrize(("arguments", "words"), [
    (([0], [[0, 1]], [[1, 0], [1, 0]], [0.5] * 3), r"draft\[0\] is 0, which has chance 0"),
    (([0], [], [[1, 0], [1, 0]], [0.5] * 3), "draft_chances has length 0; with 1 guesses it must be 1"),
    (([0], [[1, 0]], [[1, 0]], [0.5] * 3), "chances has length 1; with 1 guesses it must be 2"),
    (([0], [[1, 0]], [[1, 0], [1, 0]], [0.5]), "draws has length 1; with 1 guesses it must be 3"),
])  # fmt: skip
def test_errors(arguments, words):
    with pytest.raises(ValueError, match=words):
        accept(*arguments)
    with pytest.raises(ValueError, match="logits has 1 rows; with 1 guesses it must have 2"):
        accept_keyed([1], np.zeros((1, 4)), 0, 0, 0, 1.0)


def neighbors(row):
    """The row, and with its first chance rounded up or down."""
    return [row, *([math.nextafter(row[0], to), *row[1:]] for to in (0, 1))]


@pytest.mark.parametrize("row", [[0.5, 0.5], [0.1, 0.2, 0.7], [1 / 3] * 3, [1.0, 0.0], [0.0, 0.3, 0.7], [5e-324, 1.0]])
def test_chances_that_differ_by_a_rounding_give_a_token(row):
    ends = 0.0, 0.5, math.nextafter(1, 0)
    for p, q in product(neighbors(row), repeat=2):
        for x, draws in product(range(len(row)), product(ends, repeat=3)):
            if q[x]:
                assert all(p[token] > 0 for token in accept([x], [q], [p, p], draws))
        with np.errstate(divide="ignore"):
            logits = np.log(p)
        assert all(p[choose(logits, u, 1.0)] > 0 for u in ends)


@pytest.mark.parametrize("word", [0, 2**32 - 1])
def test_the_race_has_a_winner_whatever_the_numbers(monkeypatch, word):
    monkeypatch.setattr(speculative, "threefry", lambda *key: np.full((1, len(key[3])), word, np.uint32))
    assert race([0, 1, 0], 1, 2, 3) == 1
    assert race([0, 0.25, 0.75], 1, 2, 3) == 2
