"""Fewer key heads for a model that was trained with many: pool those that will be shared, then train a little longer.

    python -m attnlab_course.lessons.lesson15.uptraining        a part of `make model`; ten minutes on two cores

writes lesson15/uptraining.json, which notebook 15 reads. Source of the method: Ainslie et al. 2023 (GQA), section 2.1.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from attnlab_course import model
from attnlab_course.model import Model, text

import numpy as np

STORED = Path(__file__).parent / "uptraining.json"
FEWER = (2, 1)
WAYS = ("mean", "first", "random")
STEPS, BATCH, RATE, SEEDS = 100, 2, 1e-3, (1, 2, 3)


def pool(lm: Model, kv_heads: int, how: str = "mean", seed: int = 0) -> Model:
    """A model with ``kv_heads`` key heads, from one in NumPy with a multiple of that; the rest is the same.

    Each is begun as the "mean" of the heads that it replaces, as the "first" of them, or at "random".
    """
    made, d, rng = dict(lm.parameters), lm.config.d, np.random.default_rng(seed)
    for name, w in lm.parameters.items():
        if name.endswith((".wk", ".wv")):
            heads = w.reshape(len(w), kv_heads, -1, d)  # (width, key heads, those replaced by each, d)
            if how == "mean":
                new = heads.mean(2)
            elif how == "first":
                new = heads[:, :, 0]
            else:
                new = rng.normal(0, w.std(), heads[:, :, 0].shape)
            made[name] = new.reshape(len(w), -1).astype(w.dtype)
    return Model(replace(lm.config, kv_heads=kv_heads), made)


def held_out(lm: Model, sequences: int = 32) -> float:
    """Bits per byte of the first ``sequences`` pieces of the excerpt, each as long as the model's context."""
    data, size = model.excerpt(), lm.config.context - 1
    tokens = np.stack([model.tokens(data[i * size : (i + 1) * size]) for i in range(sequences)])
    return float(model.bits(lm.logits(tokens), tokens).mean())


def tune(lm: Model, data: bytes, steps: int = STEPS, seed: int = SEEDS[0]) -> Iterator[tuple[float, Model]]:
    """Train a model in NumPy further, in PyTorch by Adam: after each step its loss in bits per byte, and the model.

    A step has ``BATCH`` random stretches of ``data``; the rate falls from ``RATE`` in a line to 0.
    """
    import torch

    weights = {name: torch.tensor(x, requires_grad=True) for name, x in lm.parameters.items()}
    tuned, adam = Model(lm.config, weights), torch.optim.Adam(weights.values(), betas=(0.9, 0.95))
    rng, size = np.random.default_rng(seed), lm.config.context
    for step in range(steps):
        starts = rng.integers(len(data) - size, size=BATCH)
        rows = torch.from_numpy(np.stack([model.tokens(data[i : i + size]) for i in starts]))
        loss = torch.nn.functional.cross_entropy(tuned.logits(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        adam.param_groups[0]["lr"] = RATE * (1 - step / STEPS)
        adam.zero_grad()
        loss.backward()
        adam.step()
        yield loss.item() / np.log(2), Model(lm.config, {name: w.detach().numpy() for name, w in weights.items()})


def stored() -> dict:
    """What the script has written: how it was trained, and for each run its curve and its bits before and after.

    after, curve: with the first seed; again: after tuning with each of the others, that is, on other stretches.
    """
    return json.loads(STORED.read_text(encoding="utf-8"))


def main() -> None:
    """Pool to two key heads and to one, in three ways, and tune; tune the model itself as long."""
    from tqdm import tqdm

    lm, training = model.load(), text.read()
    plans = [(lm.config.kv_heads, "mean"), *((many, how) for many in FEWER for how in WAYS)]
    runs = []
    for many, how in plans:
        pooled = pool(lm, many, how)
        tuned = [list(tqdm(tune(pooled, training, seed=seed), f"{many} key heads, {how}", STEPS, file=sys.stderr))
                 for seed in SEEDS]
        after, *again = (round(held_out(steps[-1][1]), 4) for steps in tuned)
        runs.append({"kv_heads": many, "how": how, "before": round(held_out(pooled), 4), "after": after, "again": again,
                     "curve": [round(loss, 4) for loss, _ in tuned[0]]})
    about = {"steps": STEPS, "batch": BATCH, "rate": RATE, "seeds": SEEDS, "text": text.digest(training)}
    STORED.write_text(json.dumps({**about, "runs": runs}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
