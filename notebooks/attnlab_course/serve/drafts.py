"""Drafts: who guesses the next tokens of a sequence, for one pass of the model to verify. Array-free.

A draft is called as draft(sequence, k) and gives at most k token ids. Any guess will do: a bad one costs a place in
the pass and changes no text. ``lookup`` finds its guesses in the text so far, ``ModelDraft`` asks a model for them.
"""

import math
from collections.abc import Callable
from dataclasses import replace

from attnlab.cache import KVCache, dequantize, quantize
from attnlab.paged import BlockManager, OutOfBlocks
from attnlab_course.model import FIRST, Cached, Model
from attnlab_course.serve.request import Sequence
from attnlab_course.serve.sampling import choose, uniform
from attnlab_course.serve.scheduler import Plan, num_unfed_tokens
from attnlab_course.serve.speculative import prompt_lookup

import numpy as np

Draft = Callable[[Sequence, int], list[int]]


def with_guesses(plan: Plan, draft: Draft, guesses: int, manager: BlockManager, budget: int) -> Plan:
    """The plan with at most ``guesses`` tokens more for each sequence that decodes, from what it left of the budget.

    Guesses take free blocks and nobody's else, and never more than a request's max_tokens leaves room for: one token
    comes of itself. Beams, and prompts that are still to part into samples, get none.
    """
    left, chunks = budget - sum(len(chunk.tokens) for chunk in plan.chunks), []
    for chunk in plan.chunks:
        sequence, request = chunk.sequence, chunk.sequence.request
        k = min(guesses, left, request.max_tokens - len(sequence.moments) - 1)
        if k > 0 and sequence.moments and not request.beams and not num_unfed_tokens(sequence, manager):
            guess = draft(sequence, k)[:k]
            try:
                slots = manager.append(sequence, guess).slots
            except OutOfBlocks:
                guess, slots = [], []
            chunk = chunk._replace(tokens=chunk.tokens + guess, slots=chunk.slots + slots, guess=guess)
            left -= len(guess)
        chunks.append(chunk)
    return plan._replace(chunks=chunks)


def lookup(sequence: Sequence, k: int) -> list[int]:
    """What followed the last tokens of the sequence when they were there before; see ``prompt_lookup``."""
    return prompt_lookup(sequence.tokens, k)


class ModelDraft:
    """Guesses drawn from ``model`` by the options of the request and by the numbers that its own tokens are keyed by.

    The cheaper the model the better, and it must know the same tokens. Each sequence has a KVCache of its own here,
    one after the other; what it was fed beyond the tokens that were kept is cut off before the next guess.
    """

    def __init__(self, model: Model) -> None:
        self.model, self._fed = model, dict[Sequence, tuple[list[int], Cached]]()

    def __call__(self, sequence: Sequence, k: int) -> list[int]:
        """The next ``k`` tokens as this model draws them."""
        self._fed = {one: fed for one, fed in self._fed.items() if not one.done}
        request, text = sequence.request, list(sequence.tokens)
        if sequence not in self._fed:
            capacity, sink = len(request.prompt) + request.max_tokens, self.model.config.sink
            self._fed[sequence] = [], Cached(KVCache, capacity=capacity, return_lse=sink)
        fed, cached = self._fed[sequence]
        same = next((i for i, (a, b) in enumerate(zip(fed, text[:-1])) if a != b), min(len(fed), len(text) - 1))
        cached.caches = {layer: cache.truncate(same) for layer, cache in cached.caches.items()}
        for position in range(len(text), len(text) + k):
            row = self.model.logits(np.array(text[same:]), cached)[-1, :FIRST].tolist()
            same, u = position, uniform(request.seed, sequence.sample, position)
            text.append(choose(row, u, request.temperature, request.top_k, request.top_p))
        self._fed[sequence] = text[:-1], cached
        return text[-k:]


def in_bits(model: Model, bits: int = 4) -> Model:
    """The model with its matrices rounded to ``bits`` bits per number, in groups of 32, or of a divisor of 32.

    See ``attnlab.cache.quantize``. They come back in their dtype: these are the guesses of a small model, not its size.
    """
    rounded = {
        name: dequantize(quantize(x, bits, axis=-1, group=math.gcd(32, x.shape[-1])), x.dtype) if x.ndim > 1 else x
        for name, x in model.parameters.items()
    }
    return replace(model, parameters=rounded)
