"""Softmax attention replaced in a trained model: Hedgehog maps distilled on its weights, then the whole model tuned.

    python -m attnlab_course.lessons.lesson18.conversion        a part of `make model`; some two minutes on one core

writes lesson18/conversion.json and lesson18/maps.npz, which notebook 18 reads. Source: Zhang et al. 2024,
"The Hedgehog & the Porcupine", section 4; a window beside the maps as in Zhang et al. 2024, "LoLCATs".
"""

import json
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import attnlab
from attnlab_course import model
from attnlab_course.lessons.lesson18.branches import attention, begun, log_weights
from attnlab_course.model import Model, text

import numpy as np
import torch
from torch import Tensor

STORED, MAPS = (Path(__file__).parent / name for name in ("conversion.json", "maps.npz"))
STEPS, TUNING, RATES = 100, 60, (1e-2, 1e-3)
BATCH, SIZE = 2, 256
WINDOW = 64
PLANS = {  # name: (what makes the weights, how many of the last keys keep the softmax, distilled first)
    "softmax": ("softmax", 0, False),
    "elu": ("elu", 0, False),
    "taylor": ("taylor", 0, False),
    "hedgehog": ("hedgehog", 0, True),
    "hedgehog, not distilled": ("hedgehog", 0, False),
    "window + hedgehog": ("hedgehog", WINDOW, True),
    "window": ("nothing", WINDOW, False),
}


def distance(lm: Model, tokens: Tensor, maps: list[Tensor], window: int) -> Tensor:
    """The mean cross-entropy, in bits, of the softmax's weights and those of the maps, over layers, heads and queries.

    With no window it is ``hedgehog_loss``; the model's own attention goes on, so that each layer sees what it knows.
    """
    losses = []

    def attend(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        query, key = attnlab.rotary(query), attnlab.rotary(key)
        s = query @ key.mT / math.sqrt(query.shape[-1])
        hidden = torch.ones(s.shape[-2:], dtype=torch.bool).triu(1)
        p = s.masked_fill(hidden, -math.inf).softmax(-1)
        log_a = log_weights(query, key, [x[layer] for x in maps], window).log_softmax(-1)
        losses.append(-(p * log_a.masked_fill(hidden, 0)).sum(-1).mean())
        return (p @ value).detach()

    lm.logits(tokens, attend)
    return sum(losses) / len(losses) / math.log(2)


def stretches(data: bytes, rng: np.random.Generator) -> Tensor:
    """A batch: (BATCH, SIZE + 1) tokens of random stretches of the text."""
    starts = rng.integers(len(data) - SIZE, size=BATCH)
    return torch.from_numpy(np.stack([model.tokens(data[i : i + SIZE]) for i in starts]))


def distill(lm: Model, data: bytes, window: int = 0, steps: int = STEPS) -> Iterator[tuple[float, list[Tensor]]]:
    """Train maps by Adam, so that their weights come near the softmax's: after each step the distance, and the maps."""
    maps, rng = [x.requires_grad_() for x in begun(lm)], np.random.default_rng(18)
    adam = torch.optim.Adam(maps)
    for step in range(steps):
        loss = distance(lm, stretches(data, rng), maps, window)
        improve(adam, loss, RATES[0] * (1 - step / STEPS))
        yield loss.item(), [x.detach() for x in maps]


def tune(
    lm: Model, data: bytes, name: str, maps: list[Tensor], window: int = 0, steps: int = TUNING
) -> Iterator[tuple[float, Model, list[Tensor]]]:
    """Train model and maps with the new attention: after each step its loss in bits per byte, the model, the maps."""
    weights = {name: x.clone().requires_grad_() for name, x in lm.parameters.items()}
    lm, maps = Model(lm.config, weights), [x.clone().requires_grad_() for x in maps]
    rng = np.random.default_rng(1)
    adam = torch.optim.Adam([*weights.values(), *maps], betas=(0.9, 0.95))
    for step in range(steps):
        rows = stretches(data, rng)
        logits = lm.logits(rows[:, :-1], attention(name, maps, window))
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        improve(adam, loss, RATES[1] * (1 - step / TUNING))
        yield loss.item() / math.log(2), lm, maps


def improve(adam: torch.optim.Adam, loss: Tensor, rate: float) -> None:
    """One step of Adam at this rate."""
    adam.param_groups[0]["lr"] = rate
    adam.zero_grad()
    loss.backward()
    adam.step()


@torch.no_grad()
def measured(lm: Model, name: str, maps: list[Tensor], window: int) -> dict[str, float]:
    """[Bits per byte held out, and of a span that returns], by what takes part: both branches, or one of two."""
    found = {}
    for parts in ("both", "window", "far") if name == "hedgehog" and window else ("both",):
        attend = attention(name, maps, window, parts)
        found[parts] = [round(held_out(lm, attend), 4), round(again(lm, attend), 4)]
    return found


def held_out(lm: Model, attend: Callable | None = None, sequences: int = 32) -> float:
    """Bits per byte of the first ``sequences`` pieces of the excerpt, each of SIZE tokens."""
    data, size = model.excerpt(), SIZE - 1
    tokens = np.stack([model.tokens(data[i * size : (i + 1) * size]) for i in range(sequences)])
    return float(model.bits(lm.logits(tokens, attend), tokens).mean())


def again(
    lm: Model, attend: Callable | None, distance: int = 152, length: int = 48, *, first: bool = False
) -> float:
    """Bits per byte of the second copy of eight spans, ``distance`` bytes after the first; its first 8 do not count.

    ``first``: of the first copy instead, which nothing foretells.
    """
    data, rows = model.excerpt(), []
    for n in range(8):
        span, rest = data[1000 + 14_000 * n :][:length], data[50_000 + 97 * n :][: distance - length]
        rows.append(model.tokens(data[90_000 + 89 * n :][:50] + span + rest + span))
    tokens = np.stack(rows)
    bits = model.bits(lm.logits(tokens, attend), tokens)
    return float(bits[:, 50 + 8 : 50 + length].mean() if first else bits[:, 8 - length :].mean())


def stored() -> dict:
    """What the script has written: how it was trained, and for each plan its curves and what was measured of it."""
    return json.loads(STORED.read_text(encoding="utf-8"))


def learned_maps(plan: str) -> list[Tensor]:
    """The maps that were distilled for a plan, as ``begun`` has them."""
    with np.load(MAPS) as file:
        return [torch.from_numpy(file[f"{plan}.{i}"].astype(np.float32)) for i in range(3)]


def main() -> None:
    """Convert the model by every plan."""
    from tqdm import tqdm

    torch.set_num_threads(1)
    lm, data, runs, kept = model.load(library="torch"), text.read(), {}, {}
    for plan, (name, window, distilled) in PLANS.items():
        learned, run = begun(lm), {}
        run["begun"] = measured(lm, name, learned, window)
        if distilled:
            steps = list(tqdm(distill(lm, data, window), f"{plan}, distilled", STEPS, file=sys.stderr))
            learned, run["distances"] = steps[-1][1], [round(loss, 4) for loss, _ in steps]
            run["distilled"] = measured(lm, name, learned, window)
            kept |= {f"{plan}.{i}": x.numpy().astype(np.float16) for i, x in enumerate(learned)}
        steps = list(tqdm(tune(lm, data, name, learned, window), f"{plan}, tuned", TUNING, file=sys.stderr))
        run["curve"] = [round(loss, 4) for loss, *_ in steps]
        runs[plan] = run | {"tuned": measured(steps[-1][1], name, steps[-1][2], window)}
        about = {"steps": STEPS, "tuning": TUNING, "batch": BATCH, "size": SIZE, "rates": RATES, "window": WINDOW,
                 "text": text.digest(data)}  # fmt: skip
        lines = ",\n".join(f"{json.dumps(plan)}: {json.dumps(run)}" for plan, run in runs.items())
        STORED.write_text(json.dumps(about)[:-1] + f', "runs": {{\n{lines}\n}}}}\n', encoding="utf-8")
        np.savez_compressed(MAPS, **kept)


if __name__ == "__main__":
    main()
