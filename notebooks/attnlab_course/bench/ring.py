"""A step of ring attention on 1, 2 and 4 processes beside one device's (``--ring``).

A step is a causal call and its gradient, striped. Each process has one thread, as the device that it is compared with;
P devices that never wait take 1 / P of its time. Messages travel beside the arithmetic, or are waited for before it.
Processes of one computer share its memory and caches, so this shows what the ring's own work costs, and no network.
"""

import argparse
import functools
import multiprocessing
import os
import tempfile
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

from attnlab_course.bench.question import Question, Times, format_ms, format_ratio
from attnlab_course.instruments.timing import Call

PROCESSES = 1, 2, 4
TOKENS, HEADS, SIZE = 4096, 8, 64
STEPS = "beside", "before", "alone"


def make_questions(options: argparse.Namespace) -> Iterator[Question]:
    """A table, a row for each number of processes."""
    head = "processes", "messages beside the arithmetic", "before it", "one device", "ratio", "a P-th"
    cores = os.cpu_count() or 1
    crowded = {f"more than {cores} processes": "take turns on as many cores"} if PROCESSES[-1] > cores else {}
    yield Question(f"Ring attention, {TOKENS:,} tokens, {HEADS} heads of size {SIZE}, forward+backward, causal; ms",
                   head, PROCESSES, start_processes, make_row, crowded)  # fmt: skip


def start_processes(count: int, tokens: int = TOKENS) -> dict[str, Call]:
    """The three kinds of a step, in ``count`` processes that end when nobody holds their pipes any more."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["attnlab.ring.torch"])
    pipes = []
    with tempfile.TemporaryDirectory() as folder:
        for index in range(count):
            pipe, other = context.Pipe()
            pipes.append(pipe)
            args = index, count, f"file://{folder}/ranks", tokens, other
            context.Process(target=_rank, args=args, daemon=True).start()
            other.close()
        for pipe in pipes:
            pipe.recv()  # all have met

    def step(kind: str) -> None:
        for pipe in pipes:
            pipe.send(kind)
        for pipe in pipes:
            pipe.recv()

    return {f"torch {kind}": functools.partial(step, kind) for kind in STEPS}


def _rank(index: int, count: int, meeting: str, tokens: int, pipe: Connection) -> None:
    """One process: takes the steps that it is told to, and says when each is done."""
    import attnlab
    from attnlab.ring import ring_attention, shard, torch_turns

    import torch
    import torch.distributed as dist

    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=meeting, rank=index, world_size=count)
    whole = torch.randn(3, HEADS, tokens, SIZE, generator=torch.Generator().manual_seed(0))
    shards = [shard(x, count, "striped")[index].requires_grad_() for x in whole]
    leaves = [x.clone().requires_grad_() for x in whole]
    travel = torch_turns.travel
    kind = "ready"
    while True:
        if kind == "alone" and index == 0:  # the others leave it the machine
            attnlab.tiled_attention(*leaves, causal=True).sum().backward()
        if kind in ("beside", "before"):
            torch_turns.travel = travel if kind == "beside" else without_overlap(travel)
            ring_attention(*shards, causal=True, layout="striped").sum().backward()
        pipe.send(kind)
        try:
            kind = pipe.recv()
        except EOFError:
            return dist.destroy_process_group()


def without_overlap(travel: Callable) -> Callable:
    """The ring's ``travel`` without overlap: what arrives is waited for before anything is computed."""

    def begin(*args: Any) -> Callable:
        arrived = travel(*args)()
        return lambda: arrived

    return begin


def make_row(count: int, times: Times) -> Iterator[list[str]]:
    """Three times, the ratio of the first to the last, and what it would be without any waiting."""
    beside, _, alone = times.values()
    yield [f"{count}", *map(format_ms, times.values()), format_ratio(beside, alone), f"{1 / count:.2f}"]
