"""Recall at lengths that no model was trained on: all keys, a window, features, and a window below each of them.

    python -m attnlab_course.lessons.lesson23.longrange        a part of `make model`; some three minutes on one core

writes lesson23/longrange.json, which notebook 23 reads. The task, the model and the training are those of
lesson18/recall.py: rows of 96 tokens. A row of a test has as many pairs, and up to 4,064 questions.
"""

import itertools
import json
import math
import sys
from pathlib import Path

from attnlab import naive_attention
from attnlab_course.lessons.lesson18.recall import (
    ASKED, BATCH, LENGTH, PAIRS, RATE, STEPS, WIDTH, Recaller, batch, train,
)

import numpy as np
import torch
from numpy import ndarray as Array
from torch import Tensor
from torch.nn import Parameter, ParameterList

STORED = Path(__file__).parent / "longrange.json"
WINDOW, HEAD = 64, 16
SEEDS = (0, 1)
TESTS = {LENGTH: 256, 384: 32, 1024: 16, 4096: 4}
"""Length of the rows: how many of them."""
PLANS = (("softmax", 16), ("window", 16), ("elu", 64), ("taylor", 8),
         ("window + softmax", 16), ("window + elu", 64), ("window + window", 16))  # fmt: skip
"""The layers from below, and the head size of the last one."""


class LongRecaller(Recaller):
    """A Recaller of which a layer may see the last WINDOW keys only; "window + x" has such a layer below x."""

    def __init__(self, name: str, d: int, seed: int) -> None:
        super().__init__(name.split(" + ")[-1], d, seed)
        rng = torch.Generator().manual_seed(seed + 1)
        self.below = ParameterList()
        if "+" in name:
            drawn = [torch.randn(WIDTH, n, generator=rng) / math.sqrt(WIDTH) for n in (HEAD, HEAD, WIDTH)]
            self.below.extend([*map(Parameter, drawn), Parameter(torch.zeros(WIDTH, WIDTH))])  # wq, wk, wv, wo

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """As a Recaller's; with a window each query sees its own key and the WINDOW − 1 before it."""
        return windowed(query, key, value) if self.name == "window" else super().attend(query, key, value)

    def mixed(self, tokens: Array) -> Tensor:
        """(B, N) tokens -> (B, N, WIDTH): what the last layer reads."""
        x = super().mixed(tokens)
        if self.below:
            *projections, wo = self.below
            x = x + windowed(*((x @ w)[:, None] for w in projections))[:, 0] @ wo
        return x


def windowed(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Softmax attention, causal from the end, over the last WINDOW keys."""
    return naive_attention(query, key, value, causal=True, window=(WINDOW - 1, 0))


@torch.no_grad()
def at_length(model: Recaller, length: int, rows: int = 1, seed: int = 1000) -> dict[str, float]:
    """On new rows of this length: the share of right answers, and the mean weight on the pair that is asked for."""
    rng, right, weight = np.random.default_rng((seed, length)), [], []
    for size in [16] * (rows // 16) if length < 1000 else [1] * rows:  # 4,096² scores are 64 MiB
        tokens, targets = batch(rng, size, length)
        right.append(float((model(tokens).argmax(-1).numpy() == targets[:, ASKED]).mean()))
        query, key, _ = model.heads(tokens)
        marks = torch.zeros(1, 1, length, PAIRS)  # as values: a 1 at the value of each pair
        marks[..., torch.arange(PAIRS) * 2 + 1, torch.arange(PAIRS)] = 1
        found = model.attend(query, key, marks.expand(size, -1, -1, -1))[:, 0].numpy()
        weight.append(float((found * (tokens[:, ASKED, None] == tokens[:, None, : 2 * PAIRS : 2])).sum(-1).mean()))
    return {"right": round(float(np.mean(right)), 4), "weight": round(float(np.mean(weight)), 6)}


def stored() -> dict:
    """What the script has written: how it was trained, and for each run its curve and what each length gave."""
    return json.loads(STORED.read_text(encoding="utf-8"))


def run(name: str, d: int, seed: int) -> dict:
    """Train a model, and test it at every length."""
    from tqdm import tqdm

    label = f"{name} {d}, seed {seed}"
    steps = list(tqdm(train(name, d, seed=seed, kind=LongRecaller), label, STEPS, file=sys.stderr))
    found = {length: at_length(steps[-1][1], length, rows) for length, rows in TESTS.items()}
    return {"layers": name, "d": d, "seed": seed, "tests": found, "curve": [round(loss, 3) for loss, _ in steps[::10]]}


def write(runs: list[dict]) -> None:
    """Store what has been run so far."""
    about = {"pairs": PAIRS, "length": LENGTH, "window": WINDOW, "steps": STEPS, "batch": BATCH, "rate": RATE}
    lines = ",\n".join(map(json.dumps, runs))
    STORED.write_text(json.dumps(about)[:-1] + f', "runs": [\n{lines}\n]}}\n', encoding="utf-8")


def main() -> None:
    """Run every plan with every seed."""
    torch.set_num_threads(1)
    runs = []
    for seed, (name, d) in itertools.product(SEEDS, PLANS):
        runs.append(run(name, d, seed))
        write(runs)


if __name__ == "__main__":
    main()
