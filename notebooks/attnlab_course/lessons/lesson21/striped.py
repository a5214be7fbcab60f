"""How much faster a layer is by stripes than by a ring: the paper's theoretical maximum, and a count of its tiles."""

from collections.abc import Iterator

import numpy as np
from attnlab_course.published import PublishedTable

MODELS = {"1B": (2048, 5504, 22), "3B": (3200, 8640, 26), "7B": (4096, 11_008, 32)}
"""Width, feed-forward width, layers."""

VOCABULARY = 32_000


def speedup(machine: str, model: str, devices: int, tokens: int, rest: float = 0.5) -> float:
    """A layer by a ring over one by stripes; ``rest``: the share of a block's scores that stripes compute."""
    d, ff, layers = MODELS[model]
    linear = 2 * (4 * d * d + 2 * d * ff) + 2 * d * VOCABULARY / layers
    full = 4 * d * tokens * (2 if machine == "A100" else 1)
    return (linear + full * (devices - 1 + rest) / devices) / (linear + full * rest)


def in_tiles(machine: str, model: str, devices: int, tokens: int) -> float:
    """The share of tiles, 2048 queries by 4096 keys (TPU: 2048), that have a visible score in a causal block."""
    tile, rows = 4096 if machine == "A100" else 2048, tokens // devices
    last = np.arange(2048, rows + 1, 2048) - 1
    return float(np.mean([(np.arange(0, rows, tile) <= i).mean() for i in last]))


def entries(table: PublishedTable) -> Iterator[tuple[tuple[str, str, int, int], float, str]]:
    """Machine, model, devices in the ring, tokens; the value, and as printed."""
    for row in table.rows.values():
        machine, model, mesh = row.label.split()
        for tokens, value, text in zip(table.at, row.values, row.printed):
            if text != "-":
                yield (machine, model, int(mesh[-1]), tokens), value, text
