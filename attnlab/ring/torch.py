"""Ring and tree attention in PyTorch, on torch.distributed: one process a rank, gloo on CPUs and NCCL on GPUs.

A process that dies, or says nothing for the timeout with which its group was made (``init_process_group(timeout=…)``),
is a RuntimeError on every rank that waits for it.
"""

from typing import Any

from attnlab.core.arrays.torch import Array, Lse, Out
from attnlab.core.bundle import Inputs, Rules
from attnlab.ring.call import agreement, tree_agreement
from attnlab.ring.schedule import Schedule
from attnlab.ring.torch_links import Link
from attnlab.ring.torch_turns import RingAttention, attend
from attnlab.softmax.torch import merge, one_if_empty, zero_if_empty

import torch
import torch.distributed as dist


def devices(group: Any) -> int:
    """How many ranks a process group has."""
    return Link.of(group).size


def refused(words: str, group: Any) -> None:
    """Tell the other ranks, which are about to compare, that this one will not take part."""
    Link.of(group).agree(words, refused=True)


def ring_attention(ring: Schedule, scale: float, x: Inputs, group: Any) -> tuple[Out, Lse]:
    """(out, lse) of this rank's queries, with a gradient of its own."""
    link = Link.of(group)
    link.agree(agreement(ring, scale, x))
    return RingAttention.apply(link, ring, scale, x.query, x.key, x.value)


@torch.no_grad()
def tree_attention(form: str, rules: Rules, x: Inputs, group: Any) -> tuple[Out, Lse]:
    """(out, lse) of all ranks' keys: what this rank's give, reduced over the ranks."""
    link = Link.of(group)
    link.agree(tree_agreement(form, rules, x))
    out, lse = attend(rules, x)
    out, lse = (doubling if form == "doubling" else one_maximum_and_sums)(link, out, lse)
    return out.to(x.query.dtype), lse


def one_maximum_and_sums(link: Link, out: Out, lse: Lse) -> tuple[Out, Lse]:
    """⊕ over the ranks by two all-reduces: m = max lse, then Σ e^{lse − m} and Σ e^{lse − m} out in one."""
    m = lse.clone()
    with link.watching("another"):
        dist.all_reduce(m, dist.ReduceOp.MAX, group=link.group)
        weight = torch.exp(lse - zero_if_empty(m))[..., None]
        sums = torch.cat([weight * out, weight], -1)
        dist.all_reduce(sums, group=link.group)
    l = one_if_empty(sums[..., -1])
    return sums[..., :-1] / l[..., None], m + torch.log(l)


def doubling(link: Link, out: Out, lse: Lse) -> tuple[Out, Lse]:
    """⊕ over the ranks in log₂ P exchanges with a partner at distance 1, 2, 4, …, the lower rank's part first.

    Where P is no power of two, the ranks beyond the largest one hand theirs to a partner and get the result back.
    """
    part, double = [out, lse], lse.dtype == torch.float64
    power = 2 ** (link.size.bit_length() - 1)
    beyond = link.index ^ power  # the partner across the largest power of two, if there is one
    if link.index >= power:
        link.exchange(part, beyond, [], beyond)()
    elif beyond < link.size:
        part = list(merge(part, link.exchange([], beyond, part, beyond)(), double=double))
    distance = 1
    while distance < power and link.index < power:
        partner = link.index ^ distance
        both = part, link.exchange(part, partner, part, partner)()
        first, second = both if link.index < partner else both[::-1]
        part, distance = list(merge(first, second, double=double)), 2 * distance
    if link.index >= power:
        part = link.exchange([], beyond, part, beyond)()
    elif beyond < link.size:
        link.exchange(part, beyond, [], beyond)()
    return part[0], part[1]


def take(x: Array, index: list[int], axis: int) -> Array:
    """Rows of x along an axis, 0 where the index is −1."""
    rows = torch.tensor(index, dtype=torch.int64, device=x.device)
    found = x.new_zeros([len(index) if i == axis % x.ndim else size for i, size in enumerate(x.shape)])
    slots = (rows >= 0).nonzero()[:, 0]
    return found.index_copy(axis, slots, x.index_select(axis, rows[slots]))


def join(parts: list[Array], axis: int) -> Array:
    """The parts, one after the other."""
    return torch.cat(parts, axis)
