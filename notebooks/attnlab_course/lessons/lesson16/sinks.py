"""A model of 13,905 parameters that forms an attention sink, and what becomes of it without its first key.

    python -m attnlab_course.lessons.lesson16.sinks        a part of `make model`; some minutes on one core

writes lesson16/sinks.json, which notebook 16 reads. Source of the task, bigram-backcopy: Guo et al. 2024,
"Active-Dormant Attention Heads", section 2. Each text begins with a token of its own, BOS; then each token is drawn
from a table of bigrams, except after one of three triggers: there the token before the trigger comes again.
"""

import json
import math
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import torch
from numpy import ndarray as Array
from torch.nn import Parameter

STORED = Path(__file__).parent / "sinks.json"
VOCABULARY, TRIGGERS, LENGTH, WIDTH, HIDDEN = 24, 3, 48, 32, 128
BOS = VOCABULARY
STEPS, BATCH, RATE = 900, 32, 3e-3
LEARNED = {"learned sink": (0.0, 1), "learned sink, 30 × the rate": (0.0, 30), "learned sink, begun at 4": (4.0, 1)}
"""A score without a key, in the denominator: where it begins, and its learning rate over the others'."""
KINDS = ("softmax", "sigmoid", *LEARNED, "gate")
SEEDS = range(6)
CACHES = {"all keys": (LENGTH, 0), "the last 8": (8, 0), "BOS and the last 7": (7, 1)}
"""Window and sinks of the caches that a trained model is tried with."""


@cache
def bigrams() -> Array:
    """(VOCABULARY, VOCABULARY): in row i, how likely each token is after token i."""
    scores = 2 * np.random.default_rng(0).normal(size=(VOCABULARY, VOCABULARY))
    return np.exp(scores) / np.exp(scores).sum(1, keepdims=True)


def batch(rng: np.random.Generator, size: int) -> Array:
    """(size, LENGTH + 1) tokens: BOS and a text."""
    after, x = bigrams().cumsum(1), np.full((size, LENGTH + 1), BOS)
    x[:, 1] = rng.integers(VOCABULARY, size=size)
    for i in range(2, LENGTH + 1):
        drawn = (after[x[:, i - 1]] < rng.random((size, 1))).sum(1).clip(max=VOCABULARY - 1)
        copied = (x[:, i - 1] < TRIGGERS) & (i > 2)
        x[:, i] = np.where(copied, x[:, i - 2], drawn)
    return x


class SinkToy(torch.nn.Module):
    """One layer, one head, a learned bias for each distance; no norms."""

    def __init__(self, kind: str, seed: int) -> None:
        super().__init__()
        self.kind, rng = kind, torch.Generator().manual_seed(seed)

        def drawn(*shape: int) -> Parameter:
            return Parameter(torch.randn(shape, generator=rng) / math.sqrt(shape[0]))

        self.embedding = Parameter(torch.randn(VOCABULARY + 1, WIDTH, generator=rng))
        self.wq, self.wk, self.wv, self.wo = (drawn(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down, self.last = drawn(WIDTH, HIDDEN), drawn(HIDDEN, WIDTH), drawn(WIDTH, VOCABULARY)
        self.bias = Parameter(torch.zeros(LENGTH + 1))
        if kind in LEARNED:
            self.sink = Parameter(torch.tensor(LEARNED[kind][0]))
        if kind == "gate":
            self.gate, self.open = drawn(WIDTH, 1), Parameter(torch.zeros(1))

    def weights(self, y: torch.Tensor, window: int = LENGTH, sinks: int = 0) -> torch.Tensor:
        """(B, N, N): how much of each key's value goes to each query, which sees a window and the first ``sinks``."""
        n = y.shape[1]
        distance = torch.arange(n)[:, None] - torch.arange(n)
        scores = (y @ self.wq) @ (y @ self.wk).mT / math.sqrt(WIDTH) + self.bias[distance.clip(min=0)]
        visible = (distance >= 0) & ((distance < window) | (torch.arange(n) < sinks))
        scores = scores.masked_fill(~visible, -math.inf)
        if self.kind == "sigmoid":
            return (scores - math.log(LENGTH + 1)).sigmoid()
        if self.kind in LEARNED:
            return torch.cat([scores, self.sink.expand(*scores.shape[:-1], 1)], -1).softmax(-1)[..., :-1]
        return scores.softmax(-1)

    def forward(self, tokens: Array, window: int = LENGTH, sinks: int = 0) -> torch.Tensor:
        """(B, N) tokens -> logits (B, N, VOCABULARY) of what comes after each."""
        y = self.embedding[torch.as_tensor(tokens)]
        o = self.weights(y, window, sinks) @ (y @ self.wv)
        if self.kind == "gate":
            o = (y @ self.gate + self.open).sigmoid() * o
        y = y + o @ self.wo
        return (y + (y @ self.up).relu() @ self.down) @ self.last


def train(kind: str, seed: int = 0, steps: int = STEPS) -> Iterator[SinkToy]:
    """Train a model by Adam on new batches: the model before the first step, and after each."""
    model, rng = SinkToy(kind, seed), np.random.default_rng(seed)
    rates = {"sink": RATE * LEARNED.get(kind, (0, 1))[1]}
    adam = torch.optim.Adam([{"params": x, "lr": rates.get(name, RATE)} for name, x in model.named_parameters()])
    yield model
    for _ in range(steps):
        tokens = batch(rng, BATCH)
        goal = torch.as_tensor(tokens[:, 1:]).flatten()
        loss = torch.nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), goal)
        adam.zero_grad()
        loss.backward()
        adam.step()
        yield model


@torch.no_grad()
def measured(model: SinkToy, rows: int = 256, first: int = 16) -> dict[str, float]:
    """On new texts, from place ``first`` on: the weight on BOS, by kind of query; norms of values; bits per token."""
    tokens = batch(np.random.default_rng(999), rows)
    given, goal = tokens[:, :-1], torch.as_tensor(tokens[:, 1:])
    y = model.embedding[torch.as_tensor(given)]
    to_bos, triggered = model.weights(y)[:, first:, 0].numpy(), given[:, first:] < TRIGGERS
    norms = (y @ model.wv).norm(dim=-1)
    found = {"ordinary": to_bos[~triggered].mean(), "trigger": to_bos[triggered].mean(),
             "value of BOS": norms[:, 0].mean(), "other values": norms[:, 1:].mean()}  # fmt: skip
    if model.kind in LEARNED:
        found["score of the sink"] = model.sink.item()
    for name, (window, sinks) in CACHES.items():
        logits = model(given, window, sinks)
        bits = torch.nn.functional.cross_entropy(logits.flatten(0, 1), goal.flatten(), reduction="none") / math.log(2)
        found[name] = bits.reshape(goal.shape)[:, first:].mean()
    return {name: round(float(x), 3) for name, x in found.items()}


def stored() -> dict:
    """What the script has written: how the models were trained, and what was measured of each, before and after."""
    return json.loads(STORED.read_text(encoding="utf-8"))


def main() -> None:
    """Train a model of each kind with each seed."""
    from tqdm import tqdm

    torch.set_num_threads(1)
    runs = []
    for kind in KINDS:
        for seed in SEEDS:
            for step, model in enumerate(tqdm(train(kind, seed), f"{kind} {seed}", STEPS + 1, file=sys.stderr)):
                if step in (0, STEPS):
                    runs.append({"kind": kind, "seed": seed, "step": step, **measured(model)})
    lines = ",\n".join(map(json.dumps, runs))
    about = {"steps": STEPS, "batch": BATCH, "rate": RATE, "length": LENGTH}
    STORED.write_text(json.dumps(about)[:-1] + f', "runs": [\n{lines}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
