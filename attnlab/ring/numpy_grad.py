"""The gradient of ring attention in NumPy, on the ranks of a Cluster: a second turn.

Keys and values go round once more, and behind each block its dk and dv, to which every rank adds what its queries
give; their P-th step brings them home. The tile gradient takes the *global* out and lse: p = e^{s − lse} is then a part
of the whole row's softmax, and the parts of dq, dk and dv add up.
"""

from attnlab.core.arrays.numpy import accumulator
from attnlab.core.bundle import Inputs
from attnlab.core.dispatch import group_results
from attnlab.core.signature import Window
from attnlab.ring.call import agreement, check_ring, part_of_step
from attnlab.ring.programs import Steps
from attnlab.ring.rank import Rank
from attnlab.ring.schedule import Part, Schedule

import numpy as np
from numpy import ndarray as Array


def ring_attention_backward(
    query: Array, key: Array, value: Array, out: Array, lse: Array, dout: Array, *, dlse: Array | None = None,
    length: int | None = None, causal: bool = False, layout: str = "contiguous", window: Window = None,
    scale: float | None = None, group: Rank,
) -> Steps:
    """Gradients (dq, dk, dv) of ring_attention, this rank's shards, from its result and the gradient of its result.

    ``out`` (..., Hq, C, Dv) and ``lse`` (..., Hq, C) are what the forward call returned on this rank, ``dout`` and
    ``dlse`` the gradients of a loss by them (``dlse`` None: the loss does not use lse). Options as in the forward call.
    A generator; the arrays have the shapes and dtypes of query, key and value, with 0 for padding. Raises as
    ring_attention.
    """
    ring, scale, x = check_ring(
        query, key, value, devices=group.size, length=length, causal=causal, layout=layout, window=window, scale=scale
    )
    dlse = np.zeros(lse.shape, lse.dtype) if dlse is None else dlse
    results = group_results("numpy", query, value, x, out=out, lse=lse, dout=dout, dlse=dlse)
    return _reshape(backward(ring, scale, x, results, group), (query, key, value))


def _reshape(steps: Steps, like: tuple[Array, ...]) -> Steps:
    grads = yield from steps
    return tuple(dx.reshape(x.shape).astype(x.dtype) for dx, x in zip(grads, like))


def backward(ring: Schedule, scale: float, x: Inputs, results: list[Array], rank: Rank) -> Steps:
    """dq, dk and dv in the accumulation dtype. Those of a block follow it, a step behind: they travel as we compute."""
    yield rank.agree(f"the gradient of {agreement(ring, scale, x)}")
    to, source = (rank.index + 1) % ring.devices, (rank.index - 1) % ring.devices
    block = x.key, x.value
    dq = np.zeros(x.query.shape, accumulator(x.query))
    for step in range(ring.devices):
        rank.step = step
        dk, dv = (np.zeros(y.shape, dq.dtype) for y in block)
        if ring.sends(rank.index, step):
            rank.send(*block, to=to)
        for part in ring.parts(rank.index, ring.holder(rank.index, step)):
            rules, piece = part_of_step(part, scale, Inputs(x.query, *block))
            grads = rank.backward(rules, piece, *results_of(part, results))
            for total, rows, grad in zip((dq, dk, dv), (part.rows, part.cols, part.cols), grads):
                total[..., rows, :] += grad
        if step > 0:
            dk, dv = (mine + theirs for mine, theirs in zip((dk, dv), (yield rank.receive(source))))
            rank.step = step
        if ring.devices > 1:
            rank.send(dk, dv, to=to)
        if ring.receives(rank.index, step):
            block = yield rank.receive(source)
    if ring.devices > 1:
        dk, dv = yield rank.receive(source)  # home
    return dq, dk, dv


def results_of(part: Part, results: list[Array]) -> list[Array]:
    """out, lse, dout and dlse of a part's queries."""
    out, lse, dout, dlse = results
    return [out[..., part.rows, :], lse[..., part.rows], dout[..., part.rows, :], dlse[..., part.rows]]
