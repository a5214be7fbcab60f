"""Training sequences: stretches of text, in some of which a span returns, so that looking back is worth while.

Half of the spans that return are of random characters, which nothing foretells but their earlier occurrence. Heads that
copy form from short sequences full of such spans; long ones then teach them to look far.
"""

from dataclasses import dataclass

from attnlab_course.model.config import FIRST

import numpy as np


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
