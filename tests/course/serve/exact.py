"""An exact model to serve: a slot holds the digest of all tokens up to its own; logits are small integers, with ties.

A wrong, stale or missing slot anywhere in a sequence changes its logits, and nothing is ever rounded.
"""

from itertools import accumulate
from types import SimpleNamespace

import numpy as np
from attnlab_course.serve import Engine, choose, uniform
from attnlab_course.serve.sampling import log_softmax

VOCABULARY, START = 5, 0
MODEL = SimpleNamespace(config=SimpleNamespace(first=False, vocabulary=VOCABULARY))


def digest(before, token):
    return hash((before, token))


def logits(digests):
    """Of the next token, given the digests of all so far."""
    return np.array([hash((*digests, token)) // 7 % 4 for token in range(VOCABULARY)], float)


class Exact:
    """Runs plans on slots."""

    def __init__(self, model, manager):
        self.manager, self.slots = manager, [None] * (manager.blocks * manager.block_size)

    def __call__(self, plan):
        size, old = self.manager.block_size, list(self.slots)
        for source, to in plan.copies:
            self.slots[to * size : (to + 1) * size] = old[source * size : (source + 1) * size]
        for sequence, start, tokens, slots, _ in plan.chunks:
            for position, (token, slot) in enumerate(zip(tokens, slots, strict=True), start):
                assert slot == self.slot(sequence, position)
                before = self.slots[self.slot(sequence, position - 1)] if position else START
                self.slots[slot] = digest(before, token)
        ends = [(c, c.start + len(c.tokens) - i) for c in plan.chunks for i in reversed(range(len(c.guess) + 1))]
        return np.stack([logits(self.read(c.sequence, end)) for c, end in ends])

    def slot(self, sequence, position):
        block, place = divmod(position, self.manager.block_size)
        return self.manager.table(sequence)[block] * self.manager.block_size + place

    def read(self, sequence, length):
        return [self.slots[self.slot(sequence, position)] for position in range(length)]


def engine(blocks, block_size, budget, **options):
    return Engine(MODEL, blocks, block_size, budget, runner=Exact, **options)


def after(tokens):
    """Logits of the token that follows."""
    return logits([*accumulate(tokens, digest, initial=START)][1:])


def alone(prompt, max_tokens, seed=0, temperature=0.0, top_k=None, top_p=1.0, samples=1, beams=None, stop=None):
    """(outputs, scores) of a request, one token after the other: the definition."""
    if beams:
        return searched(prompt, max_tokens, beams)
    outputs = []
    for sample in range(samples):
        tokens = list(prompt)
        while len(tokens) < len(prompt) + max_tokens and (len(tokens) == len(prompt) or tokens[-1] != stop):
            tokens.append(choose(after(tokens), uniform(seed, sample, len(tokens)), temperature, top_k, top_p))
        outputs.append(tokens[len(prompt) :])
    return outputs, [0.0] * samples


def searched(prompt, max_tokens, beams):
    """Beam search on lists."""
    found = [(0.0, list(prompt))]
    for _ in range(max_tokens):
        longer = [
            (-(score + p), rank, token, tokens)
            for rank, (score, tokens) in enumerate(found)
            for token, p in enumerate(log_softmax(after(tokens)))
        ]
        found = [(-cost, [*tokens, token]) for cost, _, token, tokens in sorted(longer)[:beams]]
    return [tokens[len(prompt) :] for _, tokens in found], [float(score) for score, _ in found]


def oracle(sequence, k):
    """The next tokens themselves."""
    request = sequence.request
    options = {name: getattr(request, name) for name in ("seed", "temperature", "top_k", "top_p", "samples")}
    (*_, text), _ = alone(request.prompt, request.max_tokens, **options | {"samples": sequence.sample + 1})
    return text[len(sequence.moments) :][:k]


def half_right(sequence, k):
    """The next tokens, one of them wrong."""
    guess = oracle(sequence, k)
    place = len(sequence.tokens) % k
    return [(token + (i == place)) % VOCABULARY for i, token in enumerate(guess)]


def constant(sequence, k):
    """The same token, whatever came; it may be the one that stops."""
    return [1] * k


STEMS = [[0] * 40, [1, 2, 3, 4] * 10, [4, 4, 1] * 14]


def random_request(draw):
    """A prompt that others may begin with too, and options of every kind."""
    stem, common, own = STEMS[draw.integers(3)], draw.integers(0, 16), draw.integers(0, 6)
    prompt = [*stem[:common], *draw.integers(0, VOCABULARY, own).tolist()] or [0]
    options = dict(seed=int(draw.integers(2**32)))
    kind = draw.integers(4)
    if kind == 0:
        options["beams"] = int(draw.integers(1, 5))
    elif kind > 1:
        options |= dict(temperature=float(draw.uniform(0.3, 2)), samples=int(draw.integers(1, 5)))
        options |= [{}, dict(top_k=int(draw.integers(1, 6))), dict(top_p=float(draw.uniform(0.1, 1)))][draw.integers(3)]
    if kind and draw.integers(3) == 0:
        options["stop"] = int(draw.integers(VOCABULARY))
    return dict(prompt=prompt, max_tokens=int(draw.integers(1, 13)), **options)


def check_laws(engine):
    """What holds after every step: blocks are conserved, and counted as they are held."""
    manager, live = engine.manager, [s for request in engine.requests for s in request.sequences if not s.done]
    tables = [manager.table(sequence) for sequence in live if sequence in manager]
    held = [block for table in tables for block in table]
    assert manager.free_blocks + len(set(held)) == manager.blocks
    assert [manager.references(block) for block in range(manager.blocks)] == np.bincount(
        np.array(held, int), minlength=manager.blocks
    ).tolist()


