"""Lesson 21, ★★: a text in stripes, the way back, and what is visible between two stripes."""

from attnlab_course.checker.exercise import Case, Exercise, Mistake, but

import numpy as np
from numpy import ndarray as Array


def stripes(x: Array, devices: int) -> tuple[Array, Array, Array]:
    """(shards, home, offset) of x (N, D), where ``devices`` divides N.

    ``shards`` (devices, N / devices, D): token p lies on device p mod devices, in the order of the text. ``home`` (N,):
    rows of shards.reshape(N, D), so that shards.reshape(N, D)[home] is x again. ``offset`` (devices, devices): causal
    query number a of device r sees key number b of device c if b ≤ a + offset[r, c].
    """
    rows = len(x) // devices
    shards = x.reshape(rows, devices, -1).swapaxes(0, 1)
    p = np.arange(len(x))
    home = p % devices * rows + p // devices
    r = np.arange(devices)
    offset = np.where(r[:, None] >= r, 0, -1)  # eq. 21.7
    return shards, home, offset


def cases() -> list[Case]:
    """Distinct numbers, so that a wrong place shows; distinct tokens that begin alike; a long text."""
    sizes = [(4, 1, 1), (4, 2, 1), (6, 3, 1), (6, 2, 2), (8, 4, 2), (15, 3, 2), (12, 4, 3), (40, 5, 4), (300, 4, 8)]
    label = "{0} tokens on {1} device{2}, D = {3}"
    alike = np.array([[7.0, 1.0], [7.0, 2.0], [7.0, 3.0], [7.0, 4.0]])
    return [
        *[Case(label.format(n, devices, "s" * (devices > 1), d), (np.arange(1.0, n * d + 1).reshape(n, d), devices))
          for n, devices, d in sizes],
        Case("4 tokens on 2 devices, all with the same first number", (alike, 2)),
    ]


SHARDS, BLOCKS = "x.reshape(rows, devices, -1).swapaxes(0, 1)", "x.reshape(devices, rows, -1)"
HOME, OFFSET = "p % devices * rows + p // devices", "np.where(r[:, None] >= r, 0, -1)"

EXERCISE = Exercise(
    lesson="21", stars=2, reference=stripes, where="section 5", cases=cases,
    hints=(
        "Device r has tokens r, r + devices, r + 2 · devices, …: x[r::devices].",
        "Where did token p go? To device p mod devices, where it's number p // devices. In shards.reshape(N, D) each "
        "device has N / devices rows.",
        "Query a of device r is token a · devices + r, key b of device c is token b · devices + c. The query sees the "
        "key if b ≤ a + ⌊(r − c) / devices⌋, and that floor is 0 or −1: eq. 21.7.",
    ),
    mistakes=(
        Mistake("These are blocks of neighbors, the layout of the plain ring. A stripe takes every token whose number "
                "has the same remainder: section 5.",
                but(SHARDS, BLOCKS), but(SHARDS, BLOCKS, HOME, "p"),
                but(SHARDS, BLOCKS, HOME, "p", OFFSET, "np.where(r[:, None] >= r, 0, -1) * rows")),
        Mistake("Your `home` is the way out, not the way back: it says which token each row holds. We want the row "
                "that holds each token, the inverse permutation: section 5.",
                but(HOME, "p % rows * devices + p // rows")),
        Mistake("Your offset is transposed: rows are the queries' devices, columns the keys', and the diagonal is "
                "hidden where the key's device comes later. Eq. 21.7; Striped Attention prints its mask this way.",
                but("r[:, None] >= r", "r >= r[:, None]")),
        Mistake("You shift by whole devices. One step in a stripe is P tokens of the text, so offsets are 0 or −1: eq. "
                "21.7.",
                but(OFFSET, "r[:, None] - r"), but(OFFSET, "np.minimum(r[:, None] - r, 0)")),
    ),
)
