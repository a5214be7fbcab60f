"""How often a draft's guesses are accepted: chances of two models, couplings of two draws, rounds. Lesson 26, NumPy."""

from collections.abc import Callable
from dataclasses import replace

from attnlab_course import model
from attnlab_course.model import FIRST, Model
from attnlab_course.serve import Engine, choose, prompt_lookup, uniform

import numpy as np
from numpy import ndarray as Array

STRETCHES, LENGTH = 8, 256
"""Of text: so many stretches of so many bytes."""


def held_out() -> Array:
    """Stretches of the excerpt, spread over it: (STRETCHES, LENGTH + 1) tokens, FIRST in front."""
    text = model.excerpt()
    starts = np.linspace(0, len(text) - LENGTH, STRETCHES).astype(int)
    return np.stack([model.tokens(text[start : start + LENGTH]) for start in starts])


def own_text(lm: Model, prompts: Array, count: int, seed: int = 0) -> list[list[int]]:
    """Texts that the model samples after each of the prompts, at temperature 1, prompt included."""
    engine = Engine(lm, blocks=len(prompts) * 32, block_size=16, budget=2 * len(prompts) * prompts.shape[1])
    requests = [engine.submit(prompt.tolist(), count, temperature=1.0, seed=seed + i)
                for i, prompt in enumerate(prompts)]
    engine.run()
    return [request.prompt + request.outputs[0] for request in requests]


def chances(lm: Model, tokens: Array, attend: Callable | None = None) -> Array:
    """Chances of the byte after each token but the last: (..., N) tokens -> (..., N − 1, 256) float64."""
    bare = not lm.config.first  # a model without a first token: there is nothing before the first byte
    x = np.asarray(lm.logits(tokens[..., bare:-1], attend), np.float64)[..., :FIRST]
    p = np.exp(x - x.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)
    return np.concatenate([np.full_like(p[..., :1, :], 1 / FIRST), p], -2) if bare else p


def with_layers(lm: Model, kept: list[int]) -> Model:
    """The model with some of its layers, in order."""
    parameters = {name: x for name, x in lm.parameters.items() if not name.startswith("blocks.")}
    for new, old in enumerate(kept):
        parameters |= {
            name.replace(f"blocks.{old}.", f"blocks.{new}."): x
            for name, x in lm.parameters.items() if name.startswith(f"blocks.{old}.")
        }
    return Model(replace(lm.config, layers=len(kept)), parameters)


def kept_by_rejection(p: Array, q: Array) -> Array:
    """The chance that a guess drawn from q is kept: Σ min(p, q), the most that any coupling reaches."""
    return np.minimum(p, q).sum(-1)


def equal_by_sums(p: Array, q: Array) -> Array:
    """The chance that one number u, looked up in the sums of p and in those of q, gives the same token."""
    (p_end, q_end) = (np.cumsum(x, -1) for x in (p, q))
    return np.maximum(np.minimum(p_end, q_end) - np.maximum(p_end - p, q_end - q), 0).sum(-1)


def rounds(right: Array, k: int) -> list[int]:
    """Tokens of each call with ``k`` guesses, where right[t] says whether the guess at place t would be kept."""
    found, t = list[int](), 0
    while t + k < len(right):
        wrong = np.flatnonzero(~np.asarray(right[t : t + k], bool))
        found.append(int(wrong[0]) + 1 if len(wrong) else k + 1)
        t += found[-1]
    return found


def rounds_of_lookup(tokens: list[int], start: int, k: int) -> list[int]:
    """Tokens of each call after the first ``start``, guessing by lookup in the text so far."""
    found, t = list[int](), start
    while t + k < len(tokens):
        guess = prompt_lookup(tokens[:t], k)
        found.append(next((j for j, x in enumerate(guess) if x != tokens[t + j]), len(guess)) + 1)
        t += found[-1]
    return found


def measured(
    lm: Model, draft: tuple[Model, Callable | None], stretches: Array, own: list[list[int]], start: int, k: int
) -> tuple[float, float, float, float]:
    """How often a guess is kept by rejection and by keyed sums; tokens of a call by (26.5), and counted.

    The first two on every third token of ``stretches``, the others on the model's ``own`` texts, from ``start`` on,
    with k guesses in a call. ``draft``: a model, and how it attends.
    """
    p, q = (x[:, 8::3] for x in (chances(lm, stretches), chances(draft[0], stretches, draft[1])))
    texts = np.array(own)
    places = np.arange(start, texts.shape[1])
    rows = np.log(chances(draft[0], texts, draft[1])[:, start - 1 :])
    right = [choose(row, uniform(i, 0, places), 1.0) == text[start:] for i, (row, text) in enumerate(zip(rows, texts))]
    counts = [n for text in right for n in rounds(text, k)]
    kept, keyed = kept_by_rejection(p, q).mean(), equal_by_sums(p, q).mean()
    return kept, keyed, sum(np.mean(right) ** j for j in range(k + 1)), float(np.mean(counts))
