"""The two turns of ring attention in PyTorch: forward, and the gradient that takes the place of autograd's.

Keys and values travel while the block that is here is computed. In the second turn dk and dv follow, a step behind:
each rank adds what its queries give, and the P-th step brings them home. Of the other shards the tile gradient needs
only the row's *global* out and lse, so nothing of size N is ever on one rank.
"""

from collections.abc import Callable
from typing import Any

from attnlab.core.arrays.torch import Array, Key, Lse, Out, Query, Value
from attnlab.core.arrays.torch import accumulator
from attnlab.core.bundle import Inputs, Rules
from attnlab.core.torch_operator import no_autocast
from attnlab.kernels.triton.gpu import kernel, kernel_gradient, serves
from attnlab.ring.call import part_of_step
from attnlab.ring.schedule import Schedule
from attnlab.ring.torch_links import Link
from attnlab.softmax.torch import merge
from attnlab.tiled.torch import tiled_attention
from attnlab.tiled.torch_grad import backward

import torch
from torch.autograd import Function

AUTO = (None, None)  # block sizes


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
    """Begin to send on the block of ``step``, if a rank further on needs it, and to receive the next one."""
    sent = block if ring.sends(link.index, step) else []
    return link.pass_on(sent, shard if ring.receives(link.index, step) else [])


def attend(rules: Rules, x: Inputs) -> tuple[Out, Lse]:
    """(out, lse) of a part of the keys, not yet rounded: parts are added up in the accumulation dtype.

    The kernels on a GPU read half precision and write float32. The loops, which write what they read, get a wide query.
    """
    wide = accumulator(x.query)
    if serves(x, AUTO):
        return kernel(rules, AUTO, x, wide)
    return tiled_attention.core(rules, AUTO, x._replace(query=x.query.to(wide)))


def gradient(rules: Rules, x: Inputs, out: Out, lse: Lse, dout: Out, dlse: Lse) -> tuple[Array, Array, Array]:
    """dq, dk and dv of a part in the dtype of lse, the sums' dtype; out and lse are those of all parts."""
    results = out, lse, dout, dlse
    if serves(x, AUTO):
        return kernel_gradient(rules, AUTO, x, *results, wants_bias=False, dtype=lse.dtype)
    wide = Inputs(*(y.to(lse.dtype) for y in x[:3]))
    return no_autocast(backward)(rules, AUTO, wide, *results, False)
