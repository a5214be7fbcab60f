"""Train the model and its twins, and store their weights: ``python -m attnlab_course.model.train [name ...]``.

A run that was interrupted goes on from its checkpoint under build/model. What a run reads follows from the seed, the
step and the text; the text is the standard library's, so another Python version gives another model of the same kind.
"""

import argparse
import dataclasses
import json
import math
import platform
import time
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

    def save(self, path: Path) -> None:
        """Write a checkpoint; an interruption leaves the old one whole."""
        path.parent.mkdir(parents=True, exist_ok=True)
        state = {"net": self.net.state_dict(), "optimizer": self.optimizer.state_dict(), "curve": self.curve}
        torch.save(state, path.with_suffix(".new"))
        path.with_suffix(".new").replace(path)

    def resume(self, path: Path) -> None:
        """Go on from a checkpoint, if there is one."""
        if path.exists():
            state = torch.load(path)
            self.net.load_state_dict(state["net"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.curve = state["curve"]


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


def train(plan: TrainingPlan, text: bytes, checkpoint: Path, every: float = 60.0) -> Training:
    """Take the steps that are left of a plan, with a checkpoint every minute."""
    run = Training(plan)
    run.resume(checkpoint)
    numbers, saved = np.frombuffer(text, np.uint8), time.monotonic()
    progress = tqdm(range(len(run.curve), plan.steps), initial=len(run.curve), total=plan.steps, mininterval=5)
    for _ in progress:
        run.step(numbers)
        if time.monotonic() - saved > every:
            run.save(checkpoint)
            saved = time.monotonic()
            progress.set_postfix(bits=f"{np.mean(run.curve[-50:]):.3f}")
    run.save(checkpoint)
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
    parser.add_argument("--build", type=Path, default=Path("build/model"), help="where checkpoints lie")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    text = read()
    for name in given.names or NAMES:
        stored = training(name)
        known = "the" if digest(text) == stored["text_sha256"] else "not the"
        print(f"{name}: {len(text):,} bytes of Python {platform.python_version()}, {known} text of the weights in the "
              f"package (Python {stored['python']})")  # fmt: skip
        export(train(PLANS[name], text, given.build / f"{name}.pt"), text, name)


if __name__ == "__main__":
    main()
