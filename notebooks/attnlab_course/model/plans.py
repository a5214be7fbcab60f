"""What is trained on what: the plans of the models in the package, and the sequences of a step.

A sequence is a stretch of text, and in some of them a span returns, so that looking back is worth while. Half of the
spans that return are of random characters, which nothing foretells but their earlier occurrence. Heads that copy form
from short sequences full of such spans; long ones then teach them to look far.
"""

import itertools
from dataclasses import dataclass, replace

from attnlab_course.model.config import FIRST, Config

import numpy as np

BASE = Config(layers=4, heads=4, kv_heads=4, d=32, width=128, hidden=352)
TWIN = Config(layers=4, heads=4, kv_heads=4, d=24, width=96, hidden=256)


@dataclass(frozen=True)
class Phase:
    """What some steps read: ``sequences`` of ``context`` tokens; a share ``returns`` of them has a span that returns.

    ``span``: from and to how many bytes, the latter left out; ``gap``: the most bytes between its occurrences.
    """

    steps: int
    returns: float = 0.0
    context: int = 512
    sequences: int = 4
    span: tuple[int, int] = (16, 97)
    gap: int = 128


@dataclass(frozen=True)
class TrainingPlan:
    """What is trained, and what it reads one phase after the other."""

    config: Config
    phases: tuple[Phase, ...]
    rate: float = 2.5e-3
    seed: int = 0

    @property
    def steps(self) -> int:
        """Steps of all phases."""
        return sum(phase.steps for phase in self.phases)

    def phase(self, step: int) -> Phase:
        """The phase of a step."""
        ends = itertools.accumulate(phase.steps for phase in self.phases)
        return next(phase for phase, end in zip(self.phases, ends) if step < end)


# Short sequences full of spans that return make heads that copy form within some 600 steps; from long ones, of which a
# part has such spans, none had formed after as many. The twins are smaller, learn plain text alone, and for less time.
PLANS = {
    "base": TrainingPlan(BASE, (
        Phase(2000),
        Phase(800, returns=1.0, context=128, sequences=16, span=(8, 33), gap=16),
        Phase(3200, returns=0.3),
    )),
    "no_first": TrainingPlan(replace(TWIN, first=False), (Phase(2000),)),
    "learned_sink": TrainingPlan(replace(TWIN, sink=True), (Phase(2000),)),
}  # fmt: skip


def batch(text: np.ndarray, phase: Phase, first: bool, seed: int, step: int) -> np.ndarray:
    """Tokens (sequences, context + 1) of a step, which follow from seed and step; the last of a row is a target only.

    ``first``: whether rows begin with FIRST.
    """
    draw = np.random.default_rng((seed, step))
    size = phase.context + 1 - first
    rows = np.stack([text[start : start + size] for start in draw.integers(0, len(text) - size, phase.sequences)])
    for i in np.flatnonzero(draw.random(phase.sequences) < phase.returns):
        repeat(rows[i], phase, draw)
    return np.pad(rows.astype(np.int64), ((0, 0), (int(first), 0)), constant_values=FIRST)


def repeat(row: np.ndarray, phase: Phase, draw: np.random.Generator) -> None:
    """Write one span into the row again and again, with text of random length between, as often as it fits."""
    size = draw.integers(*phase.span)
    at = draw.integers(0, len(row) // 4)
    span = draw.integers(33, 127, size) if draw.random() < 0.5 else row[at : at + size].copy()
    while at + size <= len(row):
        row[at : at + size] = span
        at += size + draw.integers(0, phase.gap + 1)
