"""From logits to a token: draws by (seed, sample, position), temperature, the likeliest k, the share p."""

from itertools import product

import numpy as np
import pytest
from attnlab_course.serve import best_continuations, choose, probabilities, uniform
from attnlab_course.serve.sampling import log_softmax

from tests.course.serve.exact import VOCABULARY, after, alone, engine

LOGITS = np.log([0.1, 0.4, 0.2, 0.3])


def test_the_draw_is_threefry():
    """The published first word for key and counter 0 (Salmon et al. 2011, known answers), and for another key."""
    assert uniform(0, 0, 0) == 0x6B200159 / 2**32
    assert uniform(2**32 - 1, 2**32 - 1, 2**32 - 1) != uniform(2**32 - 1, 2**32 - 1, 2**32 - 2)


def test_draws_are_uniform_and_differ_by_seed_sample_and_position():
    keys = [key for i in range(1, 12) for j in range(20, 50) for key in ((i, 0, j), (0, i, j), (j, 0, i))]
    draws = np.array([uniform(*key) for key in keys])
    assert len(np.unique(draws)) == len(keys)
    np.testing.assert_allclose(np.quantile(draws, [0.1, 0.25, 0.5, 0.75, 0.9]), [0.1, 0.25, 0.5, 0.75, 0.9], atol=0.04)
    assert 0 <= draws.min() <= draws.max() < 1


@pytest.mark.parametrize(("options", "expected"), [
    ((1.0,), [0.1, 0.4, 0.2, 0.3]),
    ((0.5,), np.array([0.01, 0.16, 0.04, 0.09]) / 0.3),
    ((0,), [0, 1, 0, 0]),
    ((1.0, 2), [0, 4 / 7, 0, 3 / 7]),
    ((1.0, 9), [0.1, 0.4, 0.2, 0.3]),
    ((1.0, None, 0.3), [0, 1, 0, 0]),
    ((1.0, None, 0.5), [0, 4 / 7, 0, 3 / 7]),
    ((1.0, None, 0.75), [0, 4 / 9, 2 / 9, 3 / 9]),
    ((1.0, 2, 0.5), [0, 1, 0, 0]),  # of the two likeliest, 4/7 and 3/7, the first has half the share
    ((1e-3,), [0, 1, 0, 0]),
])  # fmt: skip
def test_probabilities(options, expected):
    np.testing.assert_allclose(probabilities(LOGITS + 1000, *options), expected, atol=1e-12)


def test_of_equally_likely_tokens_the_first_are_taken():
    assert probabilities([1, 2, 2, 2], 0).tolist() == [0, 1, 0, 0]
    assert probabilities([1, 2, 2, 2], 1.0, 2).tolist() == [0, 0.5, 0.5, 0]
    for kind in ("float32", "float64"):  # a share that is top_p, however it is rounded, is enough
        for logits in (np.zeros(10, kind), np.log(np.array([0.4, 0.3, 0.2, 0.1]), dtype=kind)):
            for kept, share in enumerate(np.cumsum(np.exp(logits.astype(float)))[:-1].round(6), 1):
                share = round(share / np.exp(logits.astype(float)).sum(), 6)
                assert (probabilities(logits, 1.0, None, share) > 0).sum() == kept


def test_u_is_divided_among_the_tokens_by_their_chances():
    u = (np.arange(1000) + 0.5) / 1000
    for options in ((1.0,), (2.0,), (1.0, 2), (1.0, None, 0.75)):
        counts = np.bincount([choose(LOGITS, x, *options) for x in u], minlength=4)
        np.testing.assert_allclose(counts / 1000, probabilities(LOGITS, *options), atol=1.5e-3)
    assert (choose([-np.inf, 0, -np.inf], 0.0, 1.0), choose([0, -np.inf], 1 - 2**-32, 1.0)) == (1, 0)


def test_the_best_ways_to_go_on():
    rows = [np.array([-1.0, -2, -1]), np.array([-3.0, -0.5, -9])]
    assert best_continuations([-1.0, -1.5], rows, 3) == [(0, 0, -2.0), (0, 2, -2.0), (1, 1, -2.0)]
    assert best_continuations([0.0], rows[:1], 9) == [(0, 0, -1.0), (0, 2, -1.0), (0, 1, -2.0)]


def every_text(prompt, count):
    """The score of each text of ``count`` tokens after a prompt, the likeliest first."""
    scores = {}
    for text in product(range(VOCABULARY), repeat=count):
        rows = [log_softmax(after([*prompt, *text[:i]])) for i in range(count)]
        scores[text] = sum(row[token] for row, token in zip(rows, text))
    return dict(sorted(scores.items(), key=lambda item: -item[1]))


def test_enough_beams_find_the_likeliest_texts():
    """25 beams miss none of the texts of three tokens; two may; one is greedy."""
    prompt, found = [3, 1], {}
    every = every_text(prompt, 3)
    for beams in (25, 2, 1):
        server = engine(blocks=80, block_size=2, budget=100)
        found[beams] = request = server.submit(prompt, 3, beams=beams)
        server.run()
        assert [every[tuple(output)] for output in request.outputs] == request.scores
    assert found[25].scores == [*every.values()][:25]
    assert len({*map(tuple, found[25].outputs)}) == 25
    assert found[1].outputs == alone(prompt, 3)[0]
    assert found[25].scores[0] >= found[2].scores[0] >= found[1].scores[0]


def test_rows_draw_as_each_does_alone():
    """Of a batch of logits every row gets the token, and every key the number, that it gets by itself."""
    draw = np.random.default_rng(3)
    rows, keys = draw.integers(0, 4, (50, 9)).astype(float), draw.integers(0, 2**32, (50, 3), dtype=np.uint64)
    draws = uniform(*keys.T)
    assert draws.tolist() == [uniform(*map(int, key)) for key in keys]
    for options in ((0,), (0.7,), (1.0, 3), (1.0, None, 0.4), (2.0, 4, 0.9)):
        assert choose(rows, draws, *options).tolist() == [choose(row, u, *options) for row, u in zip(rows, draws)]


@pytest.mark.parametrize(("temperatures", "draws"), [([0.0] * 5, 0), ([1.0] * 5, 1), ([0, 1.0, 0, 2.0, 1.0], 2)])
def test_a_step_draws_once_for_all_who_share_their_options(temperatures, draws, monkeypatch):
    """Greedy requests need no random number, however many they are."""
    calls = []
    counted = lambda *keys: calls.append(len(keys[0])) or uniform(*keys)  # noqa: E731
    monkeypatch.setattr("attnlab_course.serve.engine.uniform", counted)
    server = engine(blocks=40, block_size=4, budget=40)
    for seed, temperature in enumerate(temperatures):
        server.submit([1, 2], 3, seed=seed, temperature=temperature)
    for _ in range(3):
        server.step()
        assert len(calls) == draws
        assert sum(calls) == sum(x > 0 for x in temperatures)
        calls.clear()
