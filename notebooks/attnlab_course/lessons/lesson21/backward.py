"""The ring's backward pass: what a tile adds, sums that ride along with their block, and a clock for such programs."""

from collections.abc import Callable
from typing import Any

import attnlab
from attnlab.ring import Cluster
from attnlab.ring.programs import Steps
from attnlab.ring.rank import Rank

import numpy as np
import torch
from numpy import ndarray as Array


def tile(
    rank: Rank, q: Array, k: Array, v: Array, lse: Array, delta: Array, dout: Array
) -> tuple[Array, Array, Array]:
    """What this rank's queries add to dq, dk and dv (lesson 10), in the dtype of lse."""
    q, k, v, dout = (x.astype(lse.dtype) for x in (q, k, v, dout))
    scale = q.shape[1] ** -0.5
    p = np.exp(scale * q @ k.T - lse[:, None])  # with lse over all keys: the weights themselves
    ds = scale * p * (dout @ v.T - delta)
    rank.compute(10 * len(q) * len(k) * q.shape[1])  # five products
    return ds @ k, ds.T @ q, p.T @ dout


def riding_along(rank: Rank, q: Array, k: Array, v: Array, lse: Array, delta: Array, dout: Array) -> Steps:
    """Gradients of one rank's q, k and v, where a block's sums dk and dv travel together with it."""
    to, source, last = (rank.index + 1) % rank.size, (rank.index - 1) % rank.size, rank.size - 1
    dq = dk = dv = np.zeros(q.shape, lse.dtype)
    for step in range(rank.size):
        more = tile(rank, q, k, v, lse, delta, dout)
        dq, dk, dv = dq + more[0], dk + more[1], dv + more[2]
        kv = (k, v) if step < last else ()  # the last send takes dk and dv home, and nothing else
        rank.send(*kv, dk, dv, to=to)
        *kv, dk, dv = yield rank.receive(source)
        k, v = kv or (k, v)
    return dq, dk, dv


def clocked(program: Callable[..., Steps], devices: int, rows: int, **machine: Any) -> Cluster:
    """A cluster on which ``program`` has computed float16 gradients that equal autograd's, with ``rows`` per device."""
    x = np.random.default_rng(21).normal(size=(4, devices * rows, 2)).astype(np.float16)
    exact = x.astype(float)
    leaves = [torch.tensor(y, requires_grad=True) for y in exact[:3]]
    wanted = torch.autograd.grad(attnlab.tiled_attention(*leaves), leaves, torch.tensor(exact[3]))
    out, lse = attnlab.safe_attention(*exact[:3], return_lse=True)
    home = [np.split(y.astype(np.float32), devices) for y in (lse, (exact[3] * out).sum(1, keepdims=True))]
    run = Cluster(devices, **machine)
    found = run.run(program, *(np.split(y, devices) for y in x[:3]), *home, np.split(x[3], devices))
    for y, *parts in zip(wanted, *found):
        np.testing.assert_allclose(np.concatenate(parts), y, rtol=0, atol=1e-4)
    return run
