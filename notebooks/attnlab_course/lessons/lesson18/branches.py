"""Attention for a converted model: learned maps, a window of softmax beside them, and each of the two alone."""

import math
from collections.abc import Callable

import attnlab
from attnlab.linear import linear_attention
from attnlab_course import model
from attnlab_course.model import Model

import torch
from torch import Tensor


def begun(lm: Model) -> list[Tensor]:
    """Hedgehog maps before training, (layers, heads, D, D) for queries and for keys: the identity by D^−¼; 0 a head."""
    c = lm.config
    eye = torch.eye(c.d).expand(c.layers, c.heads, -1, -1) * c.d**-0.25
    return [eye.clone(), eye.clone(), torch.zeros(c.layers, c.heads, 1, 1)]


def log_weights(query: Tensor, key: Tensor, maps: list[Tensor], window: int, parts: str = "both") -> Tensor:
    """Logarithms of the weights, (B, H, N, N), causal and not yet normalized; query and key are rotated, of one layer.

    The last ``window`` keys: s plus a number that the head learns. All others: φ(q)·φ(k). ``parts`` may leave out one.
    """
    q, k = (torch.cat([x @ w, -x @ w], -1).exp() for x, w in ((query, maps[0]), (key, maps[1])))
    s = query @ key.mT / math.sqrt(query.shape[-1]) + maps[2]
    old = torch.arange(s.shape[-1])[:, None] - torch.arange(s.shape[-1])
    far = (old >= window) & (parts != "window")
    near = (old >= 0) & (old < window) & (parts != "far")
    return torch.where(near, s, torch.where(far, (q @ k.mT).log(), -math.inf))


def attention(name: str, maps: list[Tensor], window: int = 0, parts: str = "both") -> Callable:
    """What the model attends with."""
    if name in ("softmax", "nothing"):
        return model.dense(window=(window - 1, 0) if window else None)

    def attend(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        query, key = attnlab.rotary(query), attnlab.rotary(key)
        if name != "hedgehog":
            return linear_attention(query, key, value, features=name, causal=True, form="quadratic")
        s = log_weights(query, key, [x[layer] for x in maps], window, parts)
        top = s.detach().amax(-1, keepdim=True).clamp(min=-1e30)
        p = (s - top).exp()
        return p @ value / p.sum(-1, keepdim=True).clamp(min=1e-30)  # 0 where a query sees nothing

    return attend
