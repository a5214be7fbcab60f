"""The demo in PyTorch: what each process of torchrun does."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial

import attnlab
from attnlab.core.arrays.torch import Array
from attnlab.measure import torch_bytes
from attnlab.ring import Schedule, ring_attention
from attnlab.ring.torch_links import SENT
from attnlab_course import model
from attnlab_course.lessons.lesson21.ring_demo import Shards, compared, expected, memory, text

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy


def rank(length: int, layout: str) -> None:
    """One rank's part of the step; rank 0 then takes it alone as well, and prints what came of both."""
    device = begin()
    index, size = dist.get_rank(), dist.get_world_size()
    lm = model.load(library="torch", dtype="float64")
    lm = model.Model(lm.config, {name: p.to(device) for name, p in lm.parameters.items()})
    x = shard(text(length, size, layout), index, device)
    found, peak = measured(partial(gradient, lm, length, split(x.positions, length, layout)), x)
    for y in found:
        dist.all_reduce(y)
    ranks: list = [None] * size
    dist.all_gather_object(ranks, (peak, dict(SENT)))
    if index == 0:
        x = shard(text(length, 1, "contiguous"), 0, device)
        right, alone = measured(partial(gradient, lm, length, model.dense()), x)
        print(f"{size} processes of {dist.get_backend()}, {length} tokens, {layout}, float64")
        print(*compared(*([y.cpu().numpy() for y in ys] for ys in (found, right, lm.parameters.values()))), sep="\n")
        print("keys, values and their gradients, counted:")
        for source, (_, sent) in enumerate(ranks):
            print("".join(f"    link {source} → {to}: {count:,} bytes" for to, count in sent.items()))
        total = expected(Schedule(length, size, layout, right=0), lm.config)
        print(f"    over all links {sum(sum(sent.values()) for _, sent in ranks):,}, by the closed form {total:,}")
        print(memory([peak for peak, _ in ranks], alone))
    dist.barrier()  # the others wait until rank 0 is done
    dist.destroy_process_group()


def measured(step: Callable, x: Shards) -> tuple[tuple[Array, ...], int]:
    """What a step gives, and its memory; SENT has counted one step."""
    peak = torch_bytes(step, *x)
    SENT.clear()
    return step(*x), peak


def begin() -> torch.device:
    """Join the group that torchrun announced: NCCL where there are GPUs, else gloo."""
    gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if gpu else "gloo", timeout=timedelta(minutes=1))
    if not gpu:
        return torch.device("cpu")
    torch.cuda.set_device(dist.get_node_local_rank())
    return torch.device("cuda", dist.get_node_local_rank())


def shard(x: Shards, index: int, device: torch.device) -> Shards:
    """One rank's tokens, on its device."""
    return Shards(*(torch.from_numpy(y[index]).to(device) for y in x))


def split(at: Array, length: int, layout: str) -> Callable:
    """Attention to plug into the model: queries and keys are rotated by their positions in the text."""

    def attend(layer: int, query: Array, key: Array, value: Array) -> Array:
        query, key = (attnlab.rotary(y, at) for y in (query, key))
        return ring_attention(query, key, value, length=length, causal=True, layout=layout)

    return attend


def gradient(
    lm: model.Model, length: int, attend: Callable, tokens: Array, targets: Array, at: Array
) -> tuple[Array, ...]:
    """This shard's part of the mean loss over ``length`` tokens, and its gradient by the parameters."""
    parameters = {name: p.detach().requires_grad_() for name, p in lm.parameters.items()}
    losses = cross_entropy(model.Model(lm.config, parameters).logits(tokens, attend), targets, reduction="none")
    loss = torch.where(at >= 0, losses, 0).sum() / length
    return loss.detach(), *torch.autograd.grad(loss, list(parameters.values()))
