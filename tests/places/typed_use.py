"""Calls as users write them, read by mypy and pyright and never run: a line is in order, or says ``# wrong``."""

from functools import partial

import jax
import numpy as np
import numpy.typing as npt
import torch

import attnlab
from attnlab import attention, merge, safe_softmax, tiled_attention
from attnlab.compat import scaled_dot_product_attention
from attnlab.tiled.torch import tiled_attention as tiled_in_torch

Floats = npt.NDArray[np.float32]


class Layer(torch.nn.Module):
    """The commonest line, and a parameter among tensors."""

    key: torch.nn.Parameter

    def forward(self, q: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        out = tiled_attention(q, self.key, v, causal=True, dropout=0.1, seed=int(torch.randint(2**32, ())))
        return out.transpose(1, 2).flatten(2)


def with_lse(q: torch.Tensor, sink: torch.Tensor) -> torch.Tensor:
    out, lse = tiled_attention(q, q, q, return_lse=True, window=(3, None), mask=q > 0)
    return out * torch.sigmoid(lse - sink)[..., None]


def own_file(q: torch.Tensor) -> torch.Tensor:
    return tiled_in_torch(q, q, q, block_q=128, block_k=64).mT


def in_parts(q: torch.Tensor, flag: bool) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    a, b = (attention(q, q, q, "chunked", return_lse=True, key_chunk_size=8) for _ in range(2))
    out, lse = merge(a, b, a)
    out, lse = merge(out, lse, *b)
    print(out.transpose(-1, -2), lse.exp())
    return attnlab.lazy_attention(q, q, q, return_lse=flag)


def in_jax(q: jax.Array, key: jax.Array, t: jax.Array) -> jax.Array:
    seed = jax.random.bits(key, (), "uint32")
    out = attention(q, q, q, method="online", causal=True, offset=t, dropout=0.1, seed=seed)
    attend = partial(tiled_attention, window=8)
    print(jax.vmap(attend)(q, q, q), jax.jit(attnlab.safe_attention, static_argnames="causal")(q, q, q))
    return safe_softmax(out.reshape(3, 4)).at[0].set(0)


def gradient(q: jax.Array, seed: jax.Array) -> tuple[jax.Array, ...]:
    out, lse = tiled_attention(q, q, q, return_lse=True)
    dq, dk, dv = attnlab.tiled_attention_backward(q, q, q, out, lse, out, dropout=0.1, seed=seed, offset=seed)
    return dq.at[0].set(0), dk, dv


def rooms(q: torch.Tensor, x: jax.Array, n: Floats, table: torch.Tensor) -> torch.Tensor:
    turned = attnlab.rotary(q, base=500000.0).transpose(1, 2)
    out, cache = attnlab.cache.KVCache.empty(q, q, capacity=9).attend(q, q, turned)
    (out, lse), cache = cache.attend(out, out, out, return_lse=True, lengths=[9])
    pages = attnlab.paged.PagedCache.empty(q, q, 4, 16)
    print(pages.attend(q, ["a"]).mT, pages.attend(q, ["a"], return_lse=True)[1].exp(), cache.truncate(3).select([0]))
    rolled, rolling = attnlab.cache.RollingCache.empty(q, q, window=4).attend(q, q, q)
    print(rolled.mT, rolling.window, attnlab.linear.delta_attention(q, q, q, return_state=True)[1].mT)
    print(lse.exp(), cache.capacity, attnlab.linear.linear_attention(x, x, x, features="elu", form="recurrent").at[0])
    state = attnlab.linear.linear_attention(x, x, x, return_state=True)[1][0].at[0].set(0)
    print(state, attnlab.ring.ring_attention(x, x, x, axis_name="ring", layout="zigzag").at[0].set(0))
    print(attnlab.ring.tree_attention(q, q, q, return_lse=True)[0].mT, next(attnlab.ring.ring_attention(n, n, n)))
    return attnlab.paged.paged_attention(q, q, q, table, table).transpose(1, 2)


def backward_in_torch(q: torch.Tensor) -> torch.Tensor:
    return attnlab.tiled_attention_backward(q, q, q, q, q, q)[0].transpose(1, 2)


def by_every_method(q: torch.Tensor) -> list[torch.Tensor]:
    return [attention(q, q, q, method) for method in attnlab.METHODS]


def swapped(q: torch.Tensor) -> torch.Tensor:
    return scaled_dot_product_attention(q, q, q, is_causal=True).transpose(1, 2)


def in_numpy(q: Floats, k: Floats) -> Floats:
    segments = np.arange(3), np.arange(4)
    out = attnlab.naive_attention(q, k, k, scale=1, segments=segments, bias=q)
    kept = attnlab.dropout_mask(3, out.shape, 0.5)
    print(attnlab.__version__.split("."), kept.sum(), [method.__name__ for method in attnlab.METHODS.values()])
    return out.astype(np.float32)


def refused(q: torch.Tensor) -> None:
    tiled_attention(q, q, q, is_causal=True)  # wrong
    tiled_attention(q, q, q, causal="yes")  # wrong
    tiled_attention(q, q, q, window=3.5)  # wrong
    tiled_attention(q, q)  # wrong
    tiled_attention(q, q, q, return_lse=True).transpose(1, 2)  # wrong
    attention(q, q, q, "tiled", dropout="0.1")  # wrong
    attention(q, q, q, attn_mask=q)  # wrong
    merge(q, q, q)  # wrong
    attention(q, q, q, "flash")  # wrong
    attnlab.linear.linear_attention(q, q, q, form="parallel")  # wrong
    attnlab.linear.linear_attention(q, q, q, features="softmax")  # wrong
    attnlab.ring.ring_attention(q, q, q, layout="zig-zag")  # wrong
    attnlab.rotary(q, theta=1.0)  # wrong
    attnlab.cache.RollingCache.empty(q, q, window=4, sink_positions="slot")  # wrong
    attnlab.paged.PagedCache.empty(q, q, 4, 16).attend(q, ["a"], causal=True)  # wrong
    attnlab.cash()  # wrong
