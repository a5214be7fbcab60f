"""The two turns of ring attention in PyTorch: forward, and the gradient that takes the place of autograd's.

Keys and values travel while the block that is here is computed. In the second turn dk and dv follow, a step behind:
each rank adds what its queries give, and the P-th step brings them home. Of the other shards the tile gradient needs
only the row's *global* out and lse, so nothing of size N is ever on one rank.
"""

from collections.abc import Callable
from typing import Any

from attnlab.core.arrays.torch import Array, Key, Lse, Out, Query, Value
from attnlab.core.arrays.torch import accumulator
from attnlab.core.bundle import Inputs
from attnlab.ring.call import part_of_step
from attnlab.ring.schedule import Schedule
from attnlab.ring.torch_links import Link
from attnlab.ring.torch_wide import attend, gradient
from attnlab.softmax.torch import merge

import torch
from torch.autograd import Function


class RingAttention(Function):
    """(out, lse) of (link, ring, scale, query, key, value), all of this rank."""

    @staticmethod
    def forward(ctx: Any, link: Link, ring: Schedule, scale: float, *shards: Array) -> tuple[Out, Lse]:
        results = first_turn(link, ring, scale, *shards)
        ctx.call = link, ring, scale
        ctx.save_for_backward(*shards, *results)
        return results

    @staticmethod
    def backward(ctx: Any, dout: Out, dlse: Lse) -> tuple:
        if torch.is_grad_enabled():
            raise NotImplementedError("ring_attention is not twice differentiable; use safe_attention on one device")
        return None, None, None, *second_turn(*ctx.call, *ctx.saved_tensors, dout, dlse)


def first_turn(link: Link, ring: Schedule, scale: float, query: Query, key: Key, value: Value) -> tuple[Out, Lse]:
    """Each rank merges what its queries see of every block, in the accumulation dtype."""
    dtype, block = accumulator(query), (shard := [key.contiguous(), value.contiguous()])
    out = query.new_zeros((*query.shape[:-1], value.shape[-1]), dtype=dtype)
    lse = query.new_full(query.shape[:-1], -torch.inf, dtype=dtype)
    for step in range(link.size):
        wait = travel(link, ring, step, block, shard)
        for part in ring.parts(link.index, ring.holder(link.index, step)):
            results = attend(*part_of_step(part, scale, Inputs(query, *block)))
            before = out[..., part.rows, :], lse[..., part.rows]
            out[..., part.rows, :], lse[..., part.rows] = merge(before, results, double=dtype == torch.float64)
        block = wait()
    return out.to(query.dtype), lse


def second_turn(
    link: Link, ring: Schedule, scale: float, query: Query, key: Key, value: Value, out: Out, lse: Lse, dout: Out,
    dlse: Lse,
) -> tuple[Query, Key, Value]:
    """dq, dk and dv of this rank's shards."""
    dtype, block = lse.dtype, (shard := [key.contiguous(), value.contiguous()])
    dq, arrive = query.new_zeros(query.shape, dtype=dtype), None
    for step in range(link.size):
        wait = travel(link, ring, step, block, shard)
        sums = [x.new_zeros(x.shape, dtype=dtype) for x in shard]
        for part in ring.parts(link.index, ring.holder(link.index, step)):
            call = part_of_step(part, scale, Inputs(query, *block))
            results = out[..., part.rows, :], lse[..., part.rows], dout[..., part.rows, :], dlse[..., part.rows]
            grads = gradient(*call, *results)
            for total, rows, grad in zip((dq, *sums), (part.rows, part.cols, part.cols), grads):
                total[..., rows, :] += grad
        if arrive is not None:
            sums = [x.add_(y) for x, y in zip(sums, arrive())]
        arrive = link.pass_on(sums, sums, tag=2)
        block = wait()
    return dq.to(query.dtype), *(x.to(key.dtype) for x in arrive())


def travel(link: Link, ring: Schedule, step: int, block: list[Array], shard: list[Array]) -> Callable[[], list[Array]]:
    """Begin to send on the block of ``step``, if a rank further on needs it, and likewise to receive the next one."""
    sent = block if ring.sends(link.index, step) else []
    return link.pass_on(sent, shard if ring.receives(link.index, step) else [])
