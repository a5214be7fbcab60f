"""Ring and tree attention in NumPy, on the ranks of a Cluster: generators, which wait where a device would."""

from typing import Any

from attnlab.core.arrays.numpy import Lse, Out, accumulator, quiet
from attnlab.core.bundle import Inputs, Rules
from attnlab.ring.call import agreement, part_of_step, tree_agreement
from attnlab.ring.numpy_grad import ring_attention_backward
from attnlab.ring.programs import Steps, all_reduce, doubling
from attnlab.ring.rank import Rank
from attnlab.ring.schedule import Schedule
from attnlab.softmax.numpy import merge, one_if_empty, zero_if_empty

import numpy as np
from numpy import ndarray as Array

__all__ = ["devices", "join", "refused", "ring_attention", "ring_attention_backward", "take", "tree_attention"]


def devices(rank: Any) -> int:
    """How many ranks the Cluster has."""
    if not isinstance(rank, Rank):
        raise TypeError(f"group is {rank!r}; NumPy arrays travel on a Cluster: pass the rank that its program is given")
    return rank.size


def refused(words: str, rank: Rank) -> None:
    """The other ranks need not be told: the Cluster ends them."""


def ring_attention(ring: Schedule, scale: float, x: Inputs, rank: Rank) -> Steps:
    """(out, lse) of this rank's queries: the block at hand is sent on, attended to, and replaced."""
    yield rank.agree(agreement(ring, scale, x))
    out = np.zeros((*x.query.shape[:-1], x.value.shape[-1]), accumulator(x.query))
    lse = np.full(x.query.shape[:-1], -np.inf, out.dtype)
    block = x.key, x.value
    for step in range(ring.devices):
        rank.step = step
        if ring.sends(rank.index, step):
            rank.send(*block, to=(rank.index + 1) % ring.devices)  # travels while we compute
        for part in ring.parts(rank.index, ring.holder(rank.index, step)):
            add(out, lse, part.rows, rank.forward(*part_of_step(part, scale, Inputs(x.query, *block))))
        if ring.receives(rank.index, step):
            block = yield rank.receive((rank.index - 1) % ring.devices)
    return out.astype(x.query.dtype), lse


def add(out: Out, lse: Lse, rows: slice, part: tuple[Array, Array]) -> None:
    """Add a part to (out, lse) of some rows by ⊕, in place; both are in the accumulation dtype."""
    double = out.dtype == np.float64
    out[..., rows, :], lse[..., rows] = merge((out[..., rows, :], lse[..., rows]), part, double=double)


def tree_attention(form: str, rules: Rules, x: Inputs, rank: Rank) -> Steps:
    """(out, lse) of all ranks' keys: what this rank's give, reduced over the ranks."""
    yield rank.agree(tree_agreement(form, rules, x))
    out, lse = rank.forward(rules, x)
    reduced = (doubling if form == "doubling" else one_maximum_and_sums)(rank, out, lse)
    out, lse = yield from reduced
    return out.astype(x.query.dtype), lse


def one_maximum_and_sums(rank: Rank, out: Out, lse: Lse) -> Steps:
    """⊕ over the ranks by two all-reduces: m = max lse, then Σ e^{lse − m} and Σ e^{lse − m} out in one."""
    m = yield from all_reduce(rank, lse, np.maximum)
    sums = yield from all_reduce(rank, weigh(out, lse, m), np.add)
    l = one_if_empty(sums[..., -1])
    return sums[..., :-1] / l[..., None], m + np.log(l)


@quiet
def weigh(out: Out, lse: Lse, m: Lse) -> Array:
    """e^{lse − m} out, and e^{lse − m} beside it on the last axis."""
    weight = np.exp(lse - zero_if_empty(m))[..., None]
    return np.concatenate([weight * out, weight], -1)


def take(x: Array, index: list[int], axis: int) -> Array:
    """Rows of x along an axis, 0 where the index is −1."""
    x = np.moveaxis(x, axis, 0)
    found = np.zeros((len(index), *x.shape[1:]), x.dtype)
    tokens = np.array(index, int) >= 0
    found[tokens] = x[np.array(index, int)[tokens]]
    return np.moveaxis(found, 0, axis)


def join(parts: list[Array], axis: int) -> Array:
    """The parts, one after the other."""
    return np.concatenate(parts, axis)
