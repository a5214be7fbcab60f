"""What a rank does in the tests of ring and tree attention in PyTorch."""

import contextlib
import os
import time
from collections import Counter
from unittest import mock

import torch
import torch.distributed as dist

import attnlab
from attnlab.measure import torch_bytes
from attnlab.ring import positions, ring_attention, shard, tree_attention
from attnlab.ring.heads import by_heads
from attnlab.ring.torch_heads import exchange
from attnlab.ring.torch_links import AGREED


def whole(length, d=6, dv=5, heads=(4, 2), dtype="float64", batch=2):
    """Query, key, value of a sequence and cotangents of out and lse: the same numbers in every process."""
    draw, (hq, hk) = torch.Generator().manual_seed(length), heads
    sizes = [(hq, length, d), (hk, length, d), (hk, length, dv), (hq, length, dv), (hq, length)]
    arrays = [torch.randn((batch, *size), generator=draw, dtype=torch.float64) for size in sizes]
    return [x.to(getattr(torch, dtype)) for x in arrays]


def with_gradients(attend, q, k, v, dout, dlse):
    """out, lse, dq, dk, dv."""
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    out, lse = attend(*leaves)
    torch.autograd.backward((out, lse), (dout, dlse.to(lse.dtype)))
    return [x.detach() for x in (out, lse, *(leaf.grad for leaf in leaves))]


def rings(rank, group, cases):
    """This rank's part of every case."""
    return [one_ring(rank, group, **case) for case in cases]


def one_ring(rank, group, length, layout, dtype="float64", **options):
    """out, lse, dq, dk, dv of this rank; padding is NaN on the way in and on the way back."""
    devices = dist.get_world_size(group)
    padding = torch.tensor(positions(length, devices, layout)[rank]) < 0
    *arrays, dlse = whole(length, dtype=dtype)
    arrays = [shard(x, devices, layout)[rank].clone() for x in arrays]
    arrays.append(shard(dlse, devices, layout, axis=-1)[rank].clone())
    for x in (*arrays[:-1], arrays[-1][..., None]):
        x[..., padding, :] = torch.nan

    def attend(q, k, v):
        return ring_attention(q, k, v, length=length, layout=layout, return_lse=True, group=group, **options)

    return with_gradients(attend, *arrays)


def trees(rank, group, cases, form):
    """Tree attention with these numbers of keys on the ranks; rank 0 has a mask."""
    results = []
    for counts, dtype in cases:
        q, k, v, *_ = whole(sum(counts), dtype=dtype)
        k, v = (x.split(counts, -2)[rank] for x in (k, v))
        mask = torch.arange(counts[0]) > 0 if rank == 0 else None
        results.append(tree_attention(q[..., :3, :], k, v, mask=mask, form=form, group=group, return_lse=True))
    return results


def autocast(rank, group):
    """A ring with its gradients and a tree, in autocast, and of inputs cast by hand; and what float64 gives."""
    *arrays, dlse = whole(8, dtype="float32")
    few, (q, k, v, dout) = arrays[0][..., :3, :], (shard(x, dist.get_world_size(group))[rank] for x in arrays)
    dlse = shard(dlse, dist.get_world_size(group), axis=-1)[rank]
    half = [x.bfloat16() for x in (few, q, k, v, dout)]

    def both(few, *ring):
        rows = with_gradients(lambda *x: ring_attention(*x, causal=True, return_lse=True, group=group), *ring)
        return [*rows, *tree_attention(few, *ring[1:3], return_lse=True, group=group)]

    with torch.autocast("cpu", torch.bfloat16):
        found = both(few, q, k, *half[3:], dlse)
        double = ring_attention(*(x.double() for x in (q, k, v)), group=group).dtype
    return found, both(*half, dlse), double


def heads(rank, group, length, causal):
    """This rank's tokens of out, dq, dk, dv, with 12 query heads and 6 key heads split over the ranks meanwhile."""
    arrays = [x.chunk(dist.get_world_size(group), -2)[rank] for x in whole(length, heads=(12, 6))[:4]]
    leaves = [x.clone().requires_grad_() for x in arrays[:3]]

    def attend(q, k, v):
        return attnlab.tiled_attention(q, k, v, causal=causal)

    out = by_heads(attend, *leaves, exchange(group))
    return [out.detach(), *torch.autograd.grad(out, leaves, arrays[3])]


def messages(rank, group, case):
    """(to, bytes) of every message of this rank, forward and gradient."""
    sent = []
    begin = dist.batch_isend_irecv

    def counted(works):
        sent.extend((work.group_peer, work.tensor.nbytes) for work in works if work.op is dist.isend)
        return begin(works)

    with mock.patch.object(dist, "batch_isend_irecv", counted):
        one_ring(rank, group, **case)
    return sent


def decoding(rank, group, form, steps):
    """Collectives and messages of each step of decoding; the cache of every rank grows by a key a step."""
    calls, counts = [], []
    AGREED.clear()  # of other tests

    def counted(name):
        function = getattr(dist, name)

        def call(*arguments, **options):
            calls.extend([name] * (len(arguments[0]) // 2 if name == "batch_isend_irecv" else 1))
            return function(*arguments, **options)

        return mock.patch.object(dist, name, call)

    with contextlib.ExitStack() as stack:
        for name in ("all_reduce", "all_gather_object", "batch_isend_irecv"):
            stack.enter_context(counted(name))
        for step in range(steps):
            q, k, v, *_ = whole(9 + step)
            tree_attention(q[..., :1, :], k, v, form=form, group=group)
            counts.append(dict(Counter(calls)))
            calls.clear()
    return counts


def later(rank, group, steps):
    """Rank 1 differs, but only after all have agreed on what the others go on to do."""
    q = torch.zeros(2, 4, 6, dtype=torch.float64)
    for _ in range(steps):
        tree_attention(q, q, q, group=group)
    return tree_attention(q[:, :3] if rank == 1 else q, q, q, group=group)


def peaks(rank, group, slots):
    """Extra bytes of a call and of a call with its gradient, ``slots`` tokens a rank."""
    devices = dist.get_world_size(group)
    *arrays, dlse = whole(slots * devices, 64, 64, (1, 1), "float32", batch=1)
    arrays = [shard(x, devices)[rank].clone() for x in arrays] + [shard(dlse, devices, axis=-1)[rank].clone()]

    def attend(q, k, v):
        return ring_attention(q, k, v, causal=True, return_lse=True, group=group)

    def gradient(*arrays):
        return tuple(with_gradients(attend, *arrays))

    return [torch_bytes(attend, *arrays[:3]), torch_bytes(gradient, *arrays)]


def disagree(rank, group, what):
    """Rank 1 differs from the others in one respect."""
    q = torch.zeros(2, 4, 6, dtype=torch.float64)
    other = {
        "length": dict(query=torch.zeros(2, 3, 6, dtype=torch.float64)),
        "shape": dict(query=torch.zeros(2, 4, 7, dtype=torch.float64)),
        "dtype": dict(query=q.float()), "causal": dict(causal=True), "window": dict(window=2),
        "layout": dict(layout="striped"), "scale": dict(scale=2.0), "refused": dict(scale=float("nan")),
        "kind": dict(query=q.int()),
    }[what]  # fmt: skip
    options = dict(other) if rank == 1 else {}
    q = options.pop("query", q)
    return ring_attention(q, q, q, group=group, **options)


def lost(rank, group, how, gradient):
    """The last rank dies, or falls silent, before a call or in the middle of one, after the agreement."""
    q = torch.zeros(2, 4, 6, requires_grad=True)
    out = ring_attention(q, q, q, group=group)
    if rank == dist.get_world_size(group) - 1:
        os._exit(1) if how == "dies" else time.sleep(600)
    out.sum().backward() if gradient else ring_attention(q, q, q, group=group)


def twice(rank, group):
    """A second derivative."""
    q = torch.ones(2, 4, 6, requires_grad=True)
    (dq,) = torch.autograd.grad(ring_attention(q, q, q, group=group).sum(), q, create_graph=True)
    return dq


def checkpointed(rank, group):
    """Activation checkpointing: the same numbers, and saved tensors are unpacked once."""
    from tests.attnlab.call.test_checkpointing import leaves, same_when_checkpointed

    def call(*x):
        return ring_attention(*x, causal=True, return_lse=True, group=group)

    same_when_checkpointed(call, leaves((4, 6, 8), (2, 6, 8), (2, 6, 3)))
