"""A step of ring attention on 1, 2 and 4 processes beside one device's (``--ring``), as a table in Markdown.

A step is a causal call and its gradient, striped. Each process has one thread, as the device that it is compared with;
P devices that never wait take 1 / P of its time. Messages travel beside the arithmetic, or are waited for before it.
Processes of one computer share its memory and caches, so this shows what the ring's own work costs, and no network.
"""

import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

from attnlab_course.bench.table import describe_machine, describe_versions

PROCESSES = 1, 2, 4
TOKENS, HEADS, SIZE = 4096, 8, 64


def print_table(rounds: int | None, seconds: float | int) -> None:
    """Measure, and print a row for each number of processes."""
    print(f"{describe_machine('cpu')}; {describe_versions()}.")
    print(f"{TOKENS:,} tokens, {HEADS} heads of {SIZE}, float32, causal and with its gradient. Medians.\n")
    print("| processes | messages beside the arithmetic, ms | before it, ms | one device, ms | ratio | a P-th |")
    print("|---:|---:|---:|---:|---:|---:|")
    for count in PROCESSES:
        beside, before, alone = step_times(count, TOKENS, rounds or max(int(seconds), 3))
        cells = f"{1e3 * beside:.0f}", f"{1e3 * before:.0f}", f"{1e3 * alone:.0f}"
        print(f"| {count} | {' | '.join(cells)} | {beside / alone:.2f} | {1 / count:.2f} |", flush=True)
    if PROCESSES[-1] > (cores := os.cpu_count() or 1):
        print(f"\nThere are {cores} cores: more processes than that take turns.")


def step_times(count: int, tokens: int, rounds: int) -> tuple[float, float, float]:
    """Seconds of a step in ``count`` processes, overlapped and not, and on one device: medians of ``rounds``."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["attnlab.ring.torch"])
    with tempfile.TemporaryDirectory() as folder:
        results, meeting = context.SimpleQueue(), os.path.join(folder, "ranks")
        ranks = [context.Process(target=_rank, args=(r, count, meeting, tokens, rounds, results)) for r in range(count)]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join()
        if any(rank.exitcode for rank in ranks):
            raise RuntimeError("a process of the ring failed; what it said is above")
        return results.get()


def _rank(index: int, count: int, meeting: str, tokens: int, rounds: int, results: Any) -> None:
    """One process: all three in turns, so that what the machine does meanwhile meets all of them."""
    import attnlab
    from attnlab.ring import ring_attention, shard, torch_turns

    import torch
    import torch.distributed as dist

    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=index, world_size=count)
    whole = torch.randn(3, HEADS, tokens, SIZE, generator=torch.Generator().manual_seed(0))
    shards = [shard(x, count, "striped")[index].requires_grad_() for x in whole]
    leaves = [x.clone().requires_grad_() for x in whole]
    travel = torch_turns.travel

    def ring(begin: Callable) -> None:
        torch_turns.travel = begin
        ring_attention(*shards, causal=True, layout="striped").sum().backward()

    def alone() -> None:
        if index == 0:  # the others leave it the machine
            attnlab.tiled_attention(*leaves, causal=True).sum().backward()

    steps = [lambda: ring(travel), lambda: ring(waiting(travel)), alone]
    taken = [[_seconds(step, dist.barrier) for step in steps] for _ in range(rounds + 1)][1:]
    if index == 0:
        results.put(tuple(statistics.median(times) for times in zip(*taken)))
    dist.destroy_process_group()


def waiting(travel: Callable) -> Callable:
    """The ring's ``travel`` without overlap: what arrives is waited for before anything is computed."""

    def begin(*args: Any) -> Callable:
        arrived = travel(*args)()
        return lambda: arrived

    return begin


def _seconds(step: Callable, barrier: Callable) -> float:
    """From when all are ready until all are done."""
    barrier()
    start = time.perf_counter()
    step()
    barrier()
    return time.perf_counter() - start
