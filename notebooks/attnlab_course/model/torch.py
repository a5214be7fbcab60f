"""The transformer in PyTorch: an nn.Module, whose parameters are trained."""

import functools
from collections.abc import Callable
from typing import Any

from attnlab.core.arrays.torch import Array
from attnlab.core.shapes import Float, Integer
from attnlab_course.model.config import Config

import torch
from torch.func import functional_call
from torch.nn import Module, ModuleList, Parameter
from torch.nn.functional import rms_norm, silu

__all__ = ["Transformer", "logits"]

EPSILON = 1e-5


class Transformer(Module):
    """Logits of the next token; parameters are zeros until they are loaded or drawn."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        shapes = config.shapes
        self.embedding, self.norm = (Parameter(torch.zeros(shapes[name])) for name in ("embedding", "norm"))
        self.blocks = ModuleList(TransformerBlock(config, layer) for layer in range(config.layers))

    def forward(self, tokens: Integer[Array, "*batch N"], attend: Callable) -> Float[Array, "*batch N vocabulary"]:
        """(..., N) tokens -> (..., N, vocabulary)."""
        x = self.embedding[tokens]
        for layer, block in enumerate(self.blocks):
            x = x + block.attention(normalize(x, block.norm_attention), layer, attend)
            x = x + block.feed(normalize(x, block.norm_feed))
        return normalize(x, self.norm) @ self.embedding.T


class TransformerBlock(Module):
    """The parameters of a layer, and its two halves."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        self.config = config
        for name, shape in config.shapes.items():
            if name.startswith(f"blocks.{layer}."):
                self.register_parameter(name.split(".")[-1], Parameter(torch.zeros(shape)))

    def attention(self, x: Float[Array, "*batch N width"], layer: int, attend: Callable) -> Array:
        """Heads, attention, and the heads' outputs mixed."""
        query, key, value = (self.heads(x @ w) for w in (self.wq, self.wk, self.wv))
        out = attend(layer, query, key, value)
        if self.config.sink:
            out, lse = out
            lse = torch.where(lse == -torch.inf, 0, lse)  # a row that sees nothing stays 0, beside a sink of −∞, too
            out = out * torch.sigmoid(lse - self.sink[:, None])[..., None]
        return out.transpose(-3, -2).flatten(-2) @ self.wo

    def heads(self, x: Array) -> Array:
        """(..., N, heads · d) -> (..., heads, N, d)."""
        return x.unflatten(-1, (-1, self.config.d)).transpose(-3, -2)

    def feed(self, x: Any) -> Any:
        """The feed-forward layer, SwiGLU."""
        return (silu(x @ self.w_gate) * (x @ self.w_up)) @ self.w_down


def normalize(x: Array, gain: Array) -> Array:
    """RMSNorm: x / √(mean x² + ε) ∘ gain."""
    return rms_norm(x, (x.shape[-1],), gain, EPSILON)


def logits(config: Config, parameters: dict[str, Array], tokens: Array, attend: Callable) -> Array:
    """See :meth:`attnlab_course.model.Model.logits`."""
    return functional_call(skeleton(config), parameters, (tokens, attend))


@functools.lru_cache
def skeleton(config: Config) -> Transformer:
    """A transformer whose parameters take no memory."""
    with torch.device("meta"):
        return Transformer(config)
