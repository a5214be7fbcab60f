"""A step of training of the small model, on a sequence that is split over ranks, beside the same step on one device.

    torchrun --standalone --nproc-per-node 4 -m attnlab_course.lessons.lesson21.ring_demo
    python -m attnlab_course.lessons.lesson21.ring_demo --jax 4

Four processes of torch.distributed; four CPU devices of JAX, in one process.

All but attention works token by token, so a shard serves as it stands, if three things know of the shards: positions
are those of the text, the loss is a sum over all ranks, and so is its gradient.
"""

from typing import NamedTuple

from attnlab.costs.ring import ring_bytes, ring_gradient_bytes
from attnlab.measure import binary
from attnlab.ring import Schedule, positions
from attnlab_course import model

import numpy as np

RATE = 0.1  # of the step: parameters −= RATE · gradient


class Shards(NamedTuple):
    """Tokens, the tokens that follow them and their positions, (ranks, slots) integers; position −1 is padding."""

    tokens: np.ndarray
    targets: np.ndarray
    positions: np.ndarray


def text(length: int, devices: int, layout: str) -> Shards:
    """The first ``length`` tokens of the excerpt, in shards."""
    both, at = model.tokens(model.excerpt()[:length]), np.array(positions(length, devices, layout))
    return Shards(np.where(at < 0, 0, both[at]), np.where(at < 0, 0, both[at + 1]), at)


def expected(ring: Schedule, config: model.Config) -> int:
    """Bytes over all links in float64, forward and gradient, by the closed forms."""
    heads, d = config.kv_heads, config.d
    forward = ring_bytes(ring, heads, d, d, itemsize=8)
    return config.layers * (forward + ring_gradient_bytes(ring, heads, d, d, itemsize=8, accumulator=8))


def compared(found: list[np.ndarray], right: list[np.ndarray], before: list[np.ndarray]) -> list[str]:
    """The loss and its gradient on the ranks, beside those on one device, and the parameters after the step."""
    after = [[p - RATE * g for p, g in zip(before, grads[1:])] for grads in (found, right)]
    gradient, parameters = (
        max(float(abs(x - y).max()) for x, y in zip(*pair)) for pair in ((found[1:], right[1:]), after)
    )
    largest = max(float(abs(g).max()) for g in right[1:])
    return [
        f"loss {float(found[0]):.15f} nats a token, on one device {float(right[0]):.15f}",
        f"largest difference: of the gradient {gradient:.1e}, whose largest entry is {largest:.1e};",
        f"    of the parameters after the step {parameters:.1e}",
    ]


def memory(ranks: list[int], alone: int) -> str:
    """Bytes of the step beyond parameters and their gradients."""
    return f"memory of the step: on the ranks {', '.join(map(binary, ranks))}, on one device {binary(alone)}"
