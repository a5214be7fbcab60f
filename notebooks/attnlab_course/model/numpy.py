"""The transformer in NumPy."""

from collections.abc import Callable
from typing import Any

from attnlab.core.arrays.numpy import Array
from attnlab.core.shapes import Float, Integer
from attnlab_course.model.config import Config

import numpy as np

__all__ = ["logits"]

Stream = Float[Array, "*batch N width"]
EPSILON = 1e-5


def logits(
    config: Config, parameters: dict[str, Array], tokens: Integer[Array, "*batch N"], attend: Callable
) -> Float[Array, "*batch N vocabulary"]:
    """See :meth:`attnlab_course.model.Model.logits`."""
    x = parameters["embedding"][tokens]
    for layer in range(config.layers):
        block = {name.split(".")[-1]: p for name, p in parameters.items() if name.startswith(f"blocks.{layer}.")}
        x = x + attention(config, block, normalize(x, block["norm_attention"]), layer, attend)
        x = x + feed(block, normalize(x, block["norm_feed"]))
    return normalize(x, parameters["norm"]) @ parameters["embedding"].T


def attention(config: Config, block: dict[str, Array], x: Stream, layer: int, attend: Callable) -> Stream:
    """Heads, attention, and the heads' outputs mixed."""
    query, key, value = (heads(x @ block[name], config.d) for name in ("wq", "wk", "wv"))
    out = attend(layer, query, key, value)
    if config.sink:  # one more key of value 0: the softmax keeps the share e^lse / (e^lse + e^sink)
        out, lse = out
        out = out * np.exp(-np.logaddexp(0, block["sink"][:, None] - lse))[..., None]
    out = out.swapaxes(-3, -2)
    return out.reshape((*x.shape[:-1], config.heads * config.d)) @ block["wo"]


def heads(x: Array, d: int) -> Array:
    """(..., N, heads · d) -> (..., heads, N, d)."""
    return x.reshape((*x.shape[:-1], x.shape[-1] // d, d)).swapaxes(-3, -2)


def feed(block: dict[str, Array], x: Stream) -> Stream:
    """The feed-forward layer, SwiGLU: (silu(x w_gate) ∘ x w_up) w_down."""
    gate = x @ block["w_gate"]
    silu = gate * (1 + np.tanh(gate / 2)) / 2  # gate / (1 + e^−gate), where no gate overflows
    return (silu * (x @ block["w_up"])) @ block["w_down"]


def normalize(x: Stream, gain: Array) -> Stream:
    """RMSNorm: x / √(mean x² + ε) ∘ gain."""
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * gain


def positions(x: Array, start: Any) -> Array:
    """The positions of x's rows (..., N, D), from ``start`` on."""
    return start + np.arange(x.shape[-2])


def integers(x: Any, like: Array) -> Array:
    """Tokens as an array."""
    return np.asarray(x)


def array(x: Array) -> Array:
    """A parameter, of a NumPy array."""
    return x
