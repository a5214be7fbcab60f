"""A learned index: a few numbers per token that tell which keys a query should read, as in DeepSeek-V3.2.

    python -m attnlab_course.lessons.lesson24.indexer        a part of `make model`; some minutes on one core

writes lesson24/indexer.npz. The model stays as it is, and the mean of a layer's heads is the teacher. Source:
DeepSeek-AI 2025, "DeepSeek-V3.2", whose index is trained like that first, and then with the model.
"""

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attnlab
from attnlab_course import model
from attnlab_course.model import Config, Model, text
from attnlab_course.model.plans import Phase, batch

import numpy as np

WEIGHTS = Path(__file__).parent / "indexer.npz"
SIZES, HEADS = (16, 8), 4
STEPS, RATE = 1500, 5e-3
PHASE = Phase(STEPS, returns=0.5, context=256, sequences=1)


def scores(query: Any, key: Any, q_map: Any, k_map: Any, weigh: Any) -> Any:
    """(..., N, N): how much the heads of a layer want each key, from few numbers per token: Σ weight · relu(q · k).

    ``query`` and ``key`` (..., H, N, D) of the model, not rotated. ``k_map`` (H D, F) makes the index of a key, F
    numbers, ``q_map`` (H D, HEADS F) small queries, and ``weigh`` (H D, HEADS) their weights.
    """
    query, key = (x.swapaxes(-2, -3).reshape((*x.shape[:-3], x.shape[-2], -1)) for x in (query, key))
    query, key = (x / (x * x).mean(-1)[..., None] ** 0.5 for x in (query, key))
    small = (query @ q_map).reshape((*query.shape[:-1], HEADS, -1)).swapaxes(-2, -3)
    s = attnlab.rotary(small) @ attnlab.rotary((key @ k_map)[..., None, :, :]).mT
    return (s.clip(0) * (1 + query @ weigh).mT[..., None]).sum(-3)


def begun(c: Config, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Maps before training: each small query has ``size`` channels of one head of the model, keys those of all."""
    channels = np.arange(0, c.d, c.d // size)
    one = np.zeros((c.d, size))
    one[channels, np.arange(size)] = 1
    return np.kron(np.eye(c.heads), one), np.tile(one, (c.heads, 1)), np.zeros((c.heads * c.d, HEADS))


def train(lm: Model, data: np.ndarray, size: int) -> Iterator[tuple[float, list]]:
    """Train the index of all layers by Adam: after each step its divergence from the teacher in bits, and the maps."""
    import torch

    c = lm.config
    index = [torch.from_numpy(x).float().repeat(c.layers, 1, 1).requires_grad_() for x in begun(c, size)]
    adam = torch.optim.Adam(index)
    hidden, losses = torch.ones(PHASE.context, PHASE.context, dtype=torch.bool).triu(1), []

    def attend(layer: int, query: Any, key: Any, value: Any) -> Any:
        learned = scores(query, key, *(x[layer] for x in index)).masked_fill(hidden, -math.inf).log_softmax(-1)
        s = attnlab.rotary(query) @ attnlab.rotary(key).mT / math.sqrt(c.d)
        p = s.masked_fill(hidden, -math.inf).softmax(-1)
        target = p.mean(-3)
        losses.append((target * (target.clamp(min=1e-30).log() - learned.masked_fill(hidden, 0))).sum(-1).mean())
        return p @ value

    for step in range(STEPS):
        losses.clear()
        lm.logits(torch.from_numpy(batch(data, PHASE, c.first, seed=24, step=step)[:, :-1]), attend)
        loss = sum(losses) / c.layers / math.log(2)
        adam.param_groups[0]["lr"] = RATE * (1 - step / STEPS)
        adam.zero_grad()
        loss.backward()
        adam.step()
        yield loss.item(), [x.detach() for x in index]


def stored(size: int) -> list[np.ndarray]:
    """The maps of an index of ``size`` numbers per token, (layers, …): of queries, of keys, and the weights."""
    with np.load(WEIGHTS) as file:
        return [file[f"{size}.{i}"].astype(np.float32) for i in range(3)]


def main() -> None:
    """Train an index of each size."""
    import torch
    from tqdm import tqdm

    torch.set_num_threads(1)
    lm, data, kept = model.load(library="torch"), np.frombuffer(text.read(), np.uint8), {}
    for size in SIZES:
        *_, (_, index) = tqdm(train(lm, data, size), f"index of {size}", STEPS, file=sys.stderr)
        kept |= {f"{size}.{i}": x.numpy().astype(np.float16) for i, x in enumerate(index)}
        np.savez_compressed(WEIGHTS, **kept)


if __name__ == "__main__":
    main()
