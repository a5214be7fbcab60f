"""Train the model and its twins, and store their weights: ``python -m attnlab_course.model.train [name ...]``.

What a run reads follows from the seed, the step and the text; the text is the standard library's, so another Python
version gives another model of the same kind. Each model is stored when it is trained.
"""

import argparse
import dataclasses
import json
import math
import platform
from pathlib import Path
from typing import Any

import attnlab
from attnlab_course.model.plans import PLANS, TrainingPlan, batch
from attnlab_course.model.store import NAMES, training
from attnlab_course.model.text import digest, read
from attnlab_course.model.torch import Transformer

import numpy as np
import torch
from torch.nn.functional import cross_entropy, scaled_dot_product_attention
from tqdm import tqdm

WEIGHTS = Path(__file__).parent / "weights"


class Training:
    """A model in training: parameters, optimizer, the steps taken, and the loss of each in bits a byte."""

    def __init__(self, plan: TrainingPlan) -> None:
        self.plan, self.curve = plan, []
        self.net = draw(Transformer(plan.config), plan.seed)
        matrices, rest = ([p for p in self.net.parameters() if (p.ndim == 2) is two] for two in (True, False))
        groups = [{"params": matrices, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95), fused=True)
        self.attend = attend_with_lse if plan.config.sink else attend

    def step(self, text: np.ndarray) -> None:
        """One step of AdamW at the rate of its time, with the gradient's norm clipped at 1."""
        plan, taken = self.plan, len(self.curve)
        for group in self.optimizer.param_groups:
            group["lr"] = plan.rate * min(1, (taken + 1) / 100, (plan.steps - taken) / (0.3 * plan.steps))
        rows = torch.from_numpy(batch(text, plan.phase(taken), plan.config.first, plan.seed, taken))
        logits = self.net(rows[:, :-1], self.attend)
        loss = cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.optimizer.step()
        self.curve.append(loss.item() / math.log(2))


def draw(net: Transformer, seed: int) -> Transformer:
    """Random weights: matrices keep the size of what they map; what is added to the stream begins as 0, gains as 1."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in net.named_parameters():
            if name == "embedding":
                p.normal_(0, 0.05, generator=generator)
            elif p.ndim == 1:
                p.fill_(0 if name.endswith("sink") else 1)
            elif not name.endswith(("wo", "w_down")):
                p.normal_(0, p.shape[0] ** -0.5, generator=generator)
    return net


def attend(layer: int, query: Any, key: Any, value: Any) -> Any:
    """Causal attention, PyTorch's own for its speed."""
    query, key = attnlab.rotary(query), attnlab.rotary(key)
    return scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)


def attend_with_lse(layer: int, query: Any, key: Any, value: Any) -> Any:
    """Causal attention with lse, which PyTorch's does not give: a learned sink needs it."""
    query, key = attnlab.rotary(query), attnlab.rotary(key)
    return attnlab.tiled_attention(query, key, value, causal=True, return_lse=True)


def train(plan: TrainingPlan, text: bytes) -> Training:
    """Take the steps of a plan."""
    run, numbers = Training(plan), np.frombuffer(text, np.uint8)
    progress = tqdm(range(plan.steps), mininterval=5)
    for _ in progress:
        run.step(numbers)
        if len(run.curve) % 100 == 0:
            progress.set_postfix(bits=f"{np.mean(run.curve[-50:]):.3f}")
    return run


def export(run: Training, text: bytes, name: str, folder: Path = WEIGHTS) -> None:
    """Write float16 weights and, beside them, how they were trained."""
    np.savez_compressed(folder / f"{name}.npz", **{k: p.detach().half().numpy() for k, p in run.net.named_parameters()})
    curve = [round(float(np.mean(run.curve[i : i + 20])), 4) for i in range(0, len(run.curve), 20)]
    told = {
        **dataclasses.asdict(run.plan), "steps": len(run.curve), "python": platform.python_version(),
        "text_bytes": len(text), "text_sha256": digest(text), "bits_every_20_steps": curve,
    }  # fmt: skip
    (folder / f"{name}.json").write_text(json.dumps(told) + "\n", encoding="utf-8")


def main() -> None:
    """Train what is named on the command line, by default everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=[], help=f"of {', '.join(NAMES)}; all by default")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    text = read()
    for name in given.names or NAMES:
        stored = training(name)
        known = "the" if digest(text) == stored["text_sha256"] else "not the"
        print(f"{name}: {len(text):,} bytes of Python {platform.python_version()}, {known} text of the weights in the "
              f"package (Python {stored['python']})")  # fmt: skip
        export(train(PLANS[name], text), text, name)


if __name__ == "__main__":
    main()
