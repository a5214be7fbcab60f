"""Multi-query associative recall: sixteen pairs, then questions; small models of one attention layer that learn it.

    python -m attnlab_course.lessons.lesson18.recall        a part of `make model`; some forty minutes on one core

writes lesson18/recall.json, which notebook 18 reads: every model at four rates with three seeds, since what one rate
shows of a map is often how fast it trains. Source of the task: Arora et al. 2023 (Zoology), who sweep rates too.
"""

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from attnlab import naive_attention
from attnlab.linear import FEATURES, Hedgehog, linear_attention

import numpy as np
import torch
from numpy import ndarray as Array
from torch.nn import Parameter

STORED = Path(__file__).parent / "recall.json"
PAIRS, LENGTH, VOCABULARY, WIDTH = 16, 96, 128, 64
ASKED = slice(2 * PAIRS, None)
STEPS, BATCH, RATE = 400, 32, 1e-2
SWEPT, RATES, SEEDS, EVERY = 1600, (3e-3, 1e-2, 3e-2, 1e-1), (0, 1, 2), 50
"""The sweep: steps of a run, rates and seeds of each model; a curve has the loss of every 50th step."""
PLANS = (("elu", 16), ("relu", 16), ("exp", 16), ("hedgehog", 8), ("taylor", 4),
         ("hedgehog", 32), ("taylor", 8), ("softmax", 16))  # fmt: skip
"""Feature map and head size d of each model; hedgehog makes 2d features."""
MATCHED = PLANS[:5]  # of 15 or 16 features; these alone are trained at the largest rate, too


def batch(rng: np.random.Generator, size: int, length: int = LENGTH) -> tuple[Array, Array]:
    """(tokens, targets), both (size, length): pairs key, value, key, value …, then keys to be answered by their values.

    Keys are the lower half of the vocabulary, different in a row; values the upper half. Targets are −1 in the pairs.
    """
    half, row = VOCABULARY // 2, np.arange(size)[:, None]
    keys = rng.permuted(np.tile(np.arange(half), (size, 1)), axis=1)[:, :PAIRS]
    values = rng.integers(half, VOCABULARY, size=(size, PAIRS))
    asked = rng.integers(PAIRS, size=(size, length - 2 * PAIRS))
    pairs = np.stack([keys, values], -1).reshape(size, -1)
    nothing = np.full((size, 2 * PAIRS), -1)
    return np.concatenate([pairs, keys[row, asked]], 1), np.concatenate([nothing, values[row, asked]], 1)


class Recaller(torch.nn.Module):
    """Embedding, a convolution over three tokens, one head of attention, logits: no positions."""

    def __init__(self, name: str, d: int, seed: int) -> None:
        super().__init__()
        self.name, rng = name, torch.Generator().manual_seed(seed)

        def drawn(*shape: int) -> Parameter:
            return Parameter(torch.randn(shape, generator=rng) / math.sqrt(shape[0]))

        self.embedding = Parameter(torch.randn(VOCABULARY, WIDTH, generator=rng))
        self.mix = Parameter(torch.randn(3, WIDTH, generator=rng) / 3)
        self.wq, self.wk, self.wv, self.wo = drawn(WIDTH, d), drawn(WIDTH, d), drawn(WIDTH, WIDTH), drawn(WIDTH, WIDTH)
        self.last = drawn(WIDTH, VOCABULARY)
        if name == "hedgehog":
            self.maps = torch.nn.ParameterList([torch.eye(d)[None], torch.eye(d)[None]])

    def attend(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """Queries (B, 1, N, d), keys (B, 1, M, d), values (B, 1, M, Dv) -> (B, 1, N, Dv), causal from the end."""
        if self.name == "softmax":
            return naive_attention(query, key, value, causal=True)
        features = Hedgehog(*self.maps) if self.name == "hedgehog" else self.name
        return linear_attention(query, key, value, features=features, causal=True, form="quadratic")

    def mixed(self, tokens: Array) -> torch.Tensor:
        """(B, N) tokens -> (B, N, WIDTH): each token with the two before it."""
        x = self.embedding[torch.as_tensor(tokens)]
        before = torch.nn.functional.pad(x, (0, 0, 2, 0))
        return sum(self.mix[s] * before[:, 2 - s : 2 - s + x.shape[1]] for s in range(3))

    def heads(self, tokens: Array) -> tuple[torch.Tensor, ...]:
        """What the attention reads: queries of the questions, keys and values of all tokens."""
        x = self.mixed(tokens)
        return tuple((y @ w)[:, None] for y, w in ((x[:, ASKED], self.wq), (x, self.wk), (x, self.wv)))

    def forward(self, tokens: Array) -> torch.Tensor:
        """(B, N) tokens -> logits of the answers, one for each question."""
        return self.attend(*self.heads(tokens))[:, 0] @ self.wo @ self.last


def train(
    name: str, d: int, steps: int = STEPS, seed: int = 0, kind: type[Recaller] = Recaller, rate: float = RATE
) -> Iterator[tuple[float, Recaller]]:
    """Train a model by Adam on new batches: after each step its loss in bits per answer, and the model.

    The rate falls from ``rate`` in a line to 0.
    """
    model, rng = kind(name, d, seed), np.random.default_rng(seed)
    adam = torch.optim.Adam(model.parameters())
    for step in range(steps):
        tokens, targets = batch(rng, BATCH)
        goal = torch.as_tensor(targets[:, ASKED]).flatten()
        loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), goal)
        adam.param_groups[0]["lr"] = rate * (1 - step / steps)
        adam.zero_grad()
        loss.backward()
        adam.step()
        yield loss.item() / math.log(2), model


def state_numbers(name: str, d: int) -> int:
    """Numbers that a model keeps of a sequence: F (Dv + 1) for F features; for the softmax all keys and values."""
    if name == "softmax":
        return LENGTH * (d + WIDTH)
    return (2 * d if name == "hedgehog" else FEATURES[name](d)) * (WIDTH + 1)


@torch.no_grad()
def measured(model: Recaller, sequences: int = 256, seed: int = 1000) -> dict[str, float]:
    """On new sequences: how many answers are right, and the weight on the pair, with EYE as values."""
    tokens, targets = batch(np.random.default_rng(seed), sequences)
    right = model(tokens).argmax(-1).numpy() == targets[:, ASKED]
    query, key, _ = model.heads(tokens)
    weights = model.attend(query, key, torch.eye(LENGTH).expand(sequences, 1, -1, -1))[:, 0].numpy()
    pair = tokens[:, ASKED, None] == tokens[:, None, : 2 * PAIRS : 2]  # (sequences, questions, pairs)
    on_pair = (weights[..., 1 : 2 * PAIRS : 2] * pair).sum(-1)  # the value's place, where key and value have been mixed
    return {"right": round(float(right.mean()), 4), "weight": round(float(on_pair.mean()), 4)}


def stored() -> dict:
    """What the script has written: how it was trained, and for each run its curve and what was measured of it."""
    return json.loads(STORED.read_text(encoding="utf-8"))


def best(runs: Sequence[Mapping]) -> dict[tuple[str, int], dict]:
    """For each model, by map and head size, the rate with the most right answers on the mean of its seeds."""
    means = {}
    for name, d, rate in dict.fromkeys((run["map"], run["d"], run["rate"]) for run in runs):
        same = [run for run in runs if (run["map"], run["d"], run["rate"]) == (name, d, rate)]
        found = {"rate": rate} | {what: float(np.mean([run[what] for run in same])) for what in ("right", "weight")}
        means[name, d] = max(means.get((name, d), found), found, key=lambda x: x["right"])
    return means


def sweep() -> list[tuple[str, int, float, int]]:
    """Map, head size, rate and seed of each run; the softmax answers everything at the first rate."""
    tried = {plan: RATES[:1] if plan[0] == "softmax" else RATES if plan in MATCHED else RATES[:3] for plan in PLANS}
    return [(*plan, rate, seed) for plan in PLANS for rate in tried[plan] for seed in SEEDS]


def main() -> None:
    """Train every model of PLANS at every rate and with every seed, one after another; what is done is kept."""
    from tqdm import tqdm

    torch.set_num_threads(1)
    about = {"pairs": PAIRS, "length": LENGTH, "vocabulary": VOCABULARY, "width": WIDTH, "steps": SWEPT,
             "batch": BATCH, "every": EVERY}  # fmt: skip
    runs = []
    for name, d, rate, seed in tqdm(sweep(), "recall", file=sys.stderr):
        steps = list(train(name, d, SWEPT, seed, rate=rate))
        curve = [round(loss, 3) for loss, _ in steps[::EVERY]]
        runs.append({"map": name, "d": d, "rate": rate, "seed": seed, **measured(steps[-1][1]), "curve": curve})
        lines = ",\n".join(map(json.dumps, runs))
        STORED.write_text(json.dumps(about)[:-1] + f', "runs": [\n{lines}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
