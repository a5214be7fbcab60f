"""Recall from a state that only adds, fades, overwrites, or both: keys that come once, and keys that are bound again.

    python -m attnlab_course.lessons.lesson25.overwriting        a part of `make model`; some ten minutes on one core

writes lesson25/overwriting.json, which notebook 25 reads. The models are lesson 18's with another attention: features
silu of length 1, no normalizer, a learned rate b and gate a for each token, of which each rule uses its own. Questions
read the state after the last pair and write nothing.
"""

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from attnlab.linear import delta_attention
from attnlab_course.lessons.lesson18 import recall
from attnlab_course.lessons.lesson18.recall import BATCH, VOCABULARY, WIDTH

import numpy as np
import torch
from numpy import ndarray as Array
from torch.nn import Parameter
from torch.nn.functional import logsigmoid, normalize, silu

STORED = Path(__file__).parent / "overwriting.json"
RULES = {"add": (False, False), "decay": (False, True), "delta": (True, False), "gated delta": (True, True)}
"""Each rule: whether it erases, and whether it decays."""
TASKS = {"fresh": (16, 1), "rebind": (8, 3)}
"""Each task: how many keys, and how often each is written."""
FEATURES, ASKED = 8, 64
STEPS, EVERY = 600, 50
RATES, SEEDS = (1e-2, 3e-2), (0, 1, 2)
TRIED = {"rebind": tuple(RULES), "fresh": ("add", "delta")}
"""The rules that are trained on each task: a gate has nothing to forget where every key comes once."""


def batch(rng: np.random.Generator, size: int, task: str) -> tuple[Array, Array]:
    """(tokens, targets): pairs key, value, key, value …, then questions; the answer is a key's last value.

    tokens (size, 2 · writes + ASKED), targets (size, ASKED). Keys are the lower half of the vocabulary, values the
    upper half. Each key of a row is written equally often, in an order drawn at random.
    """
    keys, times = TASKS[task]
    half, row = VOCABULARY // 2, np.arange(size)[:, None]
    names = rng.permuted(np.tile(np.arange(half), (size, 1)), axis=1)[:, :keys]
    writes = rng.permuted(np.tile(np.arange(keys), (size, times)), axis=1)  # which key each write is to
    values = rng.integers(half, VOCABULARY, size=writes.shape)
    last = np.zeros((size, keys), int)
    for i in range(writes.shape[1]):
        last[row[:, 0], writes[:, i]] = values[:, i]
    asked = rng.integers(keys, size=(size, ASKED))
    pairs = np.stack([names[row, writes], values], -1).reshape(size, -1)
    return np.concatenate([pairs, names[row, asked]], 1), last[row, asked]


class Overwriter(recall.Recaller):
    """Lesson 18's model with (25.1) as its attention."""

    def __init__(self, rule: str, seed: int) -> None:
        super().__init__(rule, FEATURES, seed)
        rng = torch.Generator().manual_seed(1000 + seed)
        self.gates = Parameter(torch.randn(WIDTH, 2, generator=rng) / math.sqrt(WIDTH))

    def forward(self, tokens: Array) -> torch.Tensor:
        """(B, N) tokens -> logits of the answers, one for each question."""
        x = self.mixed(tokens)
        written, asked = x[:, :-ASKED], x[:, -ASKED:]
        key, query = (normalize(silu(y @ w), dim=-1)[:, None] for y, w in ((written, self.wk), (asked, self.wq)))
        rate, gate = (written @ self.gates)[:, None].unbind(-1)
        erase, decays = RULES[self.name]
        decay = logsigmoid(gate + 4) if decays else None  # begins near .98 per token
        _, state = delta_attention(key, key, (written @ self.wv)[:, None], beta=rate.sigmoid(), log_decay=decay,
                                   erase=erase, return_state=True)
        return (query @ state)[:, 0] @ self.wo @ self.last


def train(task: str, rule: str, steps: int, seed: int, rate: float) -> Iterator[tuple[float, Overwriter]]:
    """Train a model by Adam on new batches: after each step its loss in bits per answer, and the model.

    The rate falls from ``rate`` in a line to 0.
    """
    model, rng = Overwriter(rule, seed), np.random.default_rng(seed)
    adam = torch.optim.Adam(model.parameters())
    for step in range(steps):
        tokens, targets = batch(rng, BATCH, task)
        loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), torch.as_tensor(targets).flatten())
        adam.param_groups[0]["lr"] = rate * (1 - step / steps)
        adam.zero_grad()
        loss.backward()
        adam.step()
        yield loss.item() / math.log(2), model


@torch.no_grad()
def right(model: Overwriter, task: str, sequences: int = 256, seed: int = 1000) -> float:
    """The share of right answers on new sequences."""
    tokens, targets = batch(np.random.default_rng(seed), sequences, task)
    return round(float((model(tokens).argmax(-1).numpy() == targets).mean()), 4)


def sweep() -> list[tuple[str, str, float, int]]:
    """Task, rule, rate and seed of each run."""
    return [(task, rule, rate, seed) for task, rules in TRIED.items() for rule in rules for rate in RATES
            for seed in SEEDS]  # fmt: skip


def stored() -> dict:
    """What the script has written: how it was trained, and for each run its curve and the share of right answers."""
    return json.loads(STORED.read_text(encoding="utf-8"))


def best(runs: Sequence[Mapping]) -> dict[tuple[str, str], dict]:
    """For each task and rule the rate with the most right answers on the mean of its seeds, and those of each seed."""
    found = {}
    for task, rule, rate in dict.fromkeys((run["task"], run["rule"], run["rate"]) for run in runs):
        same = [run["right"] for run in runs if (run["task"], run["rule"], run["rate"]) == (task, rule, rate)]
        one = {"rate": rate, "right": float(np.mean(same)), "seeds": same}
        found[task, rule] = max(found.get((task, rule), one), one, key=lambda x: x["right"])
    return found


def main() -> None:
    """Train every model of the sweep, one after another; what is done is kept."""
    from tqdm import tqdm

    torch.set_num_threads(1)
    about = {"tasks": {name: list(task) for name, task in TASKS.items()}, "asked": ASKED, "features": FEATURES,
             "steps": STEPS, "batch": BATCH, "every": EVERY}  # fmt: skip
    runs = []
    for task, rule, rate, seed in tqdm(sweep(), "overwriting", file=sys.stderr):
        found = list(train(task, rule, STEPS, seed, rate))
        curve = [round(loss, 3) for loss, _ in found[::EVERY]]
        share = right(found[-1][1], task)
        runs.append({"task": task, "rule": rule, "rate": rate, "seed": seed, "right": share, "curve": curve})
        lines = ",\n".join(map(json.dumps, runs))
        STORED.write_text(json.dumps(about)[:-1] + f', "runs": [\n{lines}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
