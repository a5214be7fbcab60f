"""The transformer in the functions that NumPy and JAX share: ``xp`` is numpy or jax.numpy."""

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

from attnlab.core.dispatch import library_of
from attnlab_course.model.config import Config

EPSILON = 1e-5


def namespace(x: Any) -> ModuleType:
    """numpy, jax.numpy or torch: where an array's functions are."""
    return import_module({"jax": "jax.numpy"}.get(library := library_of("the parameters' embedding", x), library))


def logits(xp: ModuleType, config: Config, parameters: dict[str, Any], tokens: Any, attend: Callable) -> Any:
    """Scores (..., N, vocabulary) of the next token. See :meth:`attnlab_course.model.Model.logits`."""
    x = parameters["embedding"][tokens]
    for layer in range(config.layers):
        block = {name.split(".")[-1]: p for name, p in parameters.items() if name.startswith(f"blocks.{layer}.")}
        x = x + attention(xp, config, block, normalize(xp, x, block["norm_attention"]), layer, attend)
        x = x + feed(xp, block, normalize(xp, x, block["norm_feed"]))
    return normalize(xp, x, parameters["norm"]) @ parameters["embedding"].T


def attention(xp: ModuleType, config: Config, block: dict[str, Any], x: Any, layer: int, attend: Callable) -> Any:
    """Heads, attention, and the heads' outputs mixed."""
    query, key, value = (heads(x @ block[name], config.d) for name in ("wq", "wk", "wv"))
    out = attend(layer, query, key, value)
    if config.sink:  # one more key of value 0: the softmax keeps the share e^lse / (e^lse + e^sink)
        out, lse = out
        lse = xp.where(lse == -xp.inf, 0, lse)  # a row that sees nothing stays 0, beside a sink of −∞, too
        out = out * xp.exp(-xp.logaddexp(0, block["sink"][:, None] - lse))[..., None]
    out = out.swapaxes(-3, -2)
    return out.reshape((*x.shape[:-1], config.heads * config.d)) @ block["wo"]


def heads(x: Any, d: int) -> Any:
    """(..., N, heads · d) -> (..., heads, N, d)."""
    return x.reshape((*x.shape[:-1], x.shape[-1] // d, d)).swapaxes(-3, -2)


def feed(xp: ModuleType, block: dict[str, Any], x: Any) -> Any:
    """The feed-forward layer, SwiGLU: (silu(x w_gate) ∘ x w_up) w_down."""
    gate = x @ block["w_gate"]
    silu = gate * (1 + xp.tanh(gate / 2)) / 2  # gate / (1 + e^−gate), where no gate overflows
    return (silu * (x @ block["w_up"])) @ block["w_down"]


def normalize(xp: ModuleType, x: Any, gain: Any) -> Any:
    """RMSNorm: x / √(mean x² + ε) ∘ gain."""
    return x / xp.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * gain
