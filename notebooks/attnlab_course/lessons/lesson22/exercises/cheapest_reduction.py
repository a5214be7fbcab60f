"""Lesson 22, ★★★: what should travel, by latency and bandwidth."""

import math
from collections.abc import Sequence

from attnlab_course.checker.exercise import Case, Exercise, Mistake, but

import numpy as np
from numpy import ndarray as Array


def cheapest_reduction(
    devices: int, block: int, out: int, lse: int, latencies: Sequence[float], bandwidths: Sequence[float]
) -> Array:
    """Which way takes the least time, for each latency (rows) and bandwidth (columns): integers.

    0: keys and values travel around; 1: (out, lse) by halving, then doubling; 2: (out, lse) by doubling; 3: one shot,
    each device sends its (out, lse) to all others through its one port. ``devices``: a power of two.
    ``block``, ``out``, ``lse``: bytes of a device's keys and values, of an output and its lse.
    """
    P, table = devices, np.zeros((len(latencies), len(bandwidths)), int)
    for at in np.ndindex(table.shape):
        latency, bandwidth = latencies[at[0]], bandwidths[at[1]]
        seconds = (
            (P - 1) * (latency + block / bandwidth),  # eq. 22.6
            2 * math.log2(P) * latency + 2 * (P - 1) / P * (out + lse) / bandwidth,  # there and back
            math.log2(P) * (latency + (out + lse) / bandwidth),  # eq. 22.7
            latency + (P - 1) * (out + lse) / bandwidth,  # messages side by side share a port
        )
        table[at] = np.argmin(seconds)
    return table


ALPHAS, BETAS, MANY = (1e-7, 1e-6, 1e-5, 1e-4), (1e9, 3e10, 1e12), tuple(np.geomspace(1e-8, 1e-2, 61).tolist())


def call(devices: int, keys: int, heads: int, alphas: Sequence[float] = ALPHAS) -> tuple:
    """Keys on each device, 512 bytes with their values; of each query head 512 bytes of out and 4 of lse."""
    return devices, 512 * keys, 512 * heads, 4 * heads, alphas, BETAS


def cases() -> list[Case]:
    """From two devices to 16, from a short cache to a long one, from one sequence to a large batch."""
    return [
        Case("four devices, one head, 4096 keys on each", call(4, 4096, 1)),
        Case("two devices, 64 heads, 1 key on each", call(2, 1, 64)),
        Case("four devices, 16 heads, 4 keys on each", call(4, 4, 16)),
        Case("eight devices, one head, 1 key on each", call(8, 1, 1)),
        Case("16 devices, 8192 heads, 65,536 keys on each", call(16, 65_536, 8192)),
        Case("four devices, 256 heads, 2,097,152 keys on each", call(4, 2_097_152, 256)),
        Case("eight devices, 256 heads, 65,536 keys on each, 61 latencies", call(8, 65_536, 256, MANY)),
        Case("eight devices, values of size 1, 61 latencies", (8, 131_072, 32_768, 32_768, MANY, BETAS)),
    ]


KEYS = "(P - 1) * (latency + block / bandwidth)"
HALVING = "2 * math.log2(P) * latency + 2 * (P - 1) / P * (out + lse) / bandwidth"
DOUBLING = "math.log2(P) * (latency + (out + lse) / bandwidth)"
ONE_SHOT = "latency + (P - 1) * (out + lse) / bandwidth"

EXERCISE = Exercise(
    lesson="22", stars=3, reference=cheapest_reduction, where="section 5", cases=cases,
    hints=(
        "First write down the four times: how many messages wait for one another, and how many bytes pass through one "
        "port meanwhile?",
        "Halving: log₂ P steps to reduce and log₂ P to spread. A half, a quarter, … of the array travels, (P − 1) / P "
        "of it in all, there and back (section 2).",
        "Doubling: log₂ P steps, each with everything. One shot: one latency, and P − 1 messages share a port. Then "
        "np.argmin of the four times, for each latency and bandwidth.",
    ),
    mistakes=(
        Mistake("You compare bytes alone, or latencies alone. A message takes its latency, however short it is, and "
                "its bytes take time as well, n / W (eqs. 22.6 and 22.7).",
                but("latency, bandwidth = latencies[at[0]], bandwidths[at[1]]",
                    "latency, bandwidth = 0.0, bandwidths[at[1]]"),
                but("bandwidths[at[1]]", "math.inf")),
        Mistake("In one shot, each device's messages go through its one port, so P − 1 of them share its bandwidth. "
                "But they travel side by side: one latency (section 5).",
                but(ONE_SHOT, "latency + (out + lse) / bandwidth"),
                but(ONE_SHOT, "(P - 1) * (latency + (out + lse) / bandwidth)")),
        Mistake("Doubling takes log₂ P steps, with distances 1, 2, 4, …, to reach everyone, and each step sends all of "
                "(out, lse): eq. 22.7.",
                but(DOUBLING, "(P - 1) * (latency + (out + lse) / bandwidth)"),
                but(DOUBLING, "P * (latency + (out + lse) / bandwidth)"),
                but(DOUBLING, "math.log2(P) * (latency + (out + lse) / P / bandwidth)")),
        Mistake("Halving takes 2 log₂ P steps, with distances P/2, …, 2, 1 to reduce and back to spread the result. "
                "It sends a half, a quarter, …: (P − 1) / P of the array each way (section 2).",
                but(HALVING, "math.log2(P) * latency + (P - 1) / P * (out + lse) / bandwidth"),
                but("2 * math.log2(P) * latency", "2 * (P - 1) * latency"),
                but("2 * (P - 1) / P * (out", "2 * math.log2(P) * (out")),
        Mistake("The keys have to visit all devices, in P − 1 steps. Side by side, every device sends one block at a "
                "time, so a link carries P − 1 blocks in all (eq. 22.6).",
                but(KEYS, "(P - 1) * (latency + P * block / bandwidth)"), but(KEYS, "latency + block / bandwidth")),
    ),
)
