"""Answers to the exercises of lesson 07: right ones, written in other ways, and ones to refuse."""

import numpy as np
import torch

from attnlab import costs
from tests.course.answers import edited


def linear_by_shapes(B, d_in, d_out, itemsize):
    shapes = (B, d_in), (d_in, d_out), (B, d_out)
    return 2.0 * B * d_in * d_out / sum(itemsize * np.prod(shape, dtype=np.int64) for shape in shapes)


def linear_by_parts(B, d_in, d_out, itemsize):
    """Bytes per FLOP of each array, then the reciprocal."""
    return 2 / itemsize / (1 / d_out + 1 / B + 1 / d_in)


def time_by_branches(flops, bytes, peak, bandwidth):
    if flops * bandwidth > peak * bytes:
        return flops / peak
    return bytes / bandwidth


def time_by_torch(flops, bytes, peak, bandwidth):
    times = torch.tensor([flops / peak, bytes / bandwidth], dtype=torch.float64)
    return times.max()


def time_of_one_flop(flops, bytes, peak, bandwidth):
    """A copy counts as one operation."""
    return max(max(flops, 1) / peak, bytes / bandwidth)


def time_by_whole_balance(flops, bytes, peak, bandwidth):
    """The balance is rounded down."""
    if bytes == 0 or flops / bytes >= peak // bandwidth:
        return flops / peak
    return bytes / bandwidth


def intensity_by_package(N, D, Bc, itemsize):
    unfused = costs.forward("safe", N, N, D, D, itemsize=itemsize)
    tiled = costs.forward("flash", N, N, D, D, itemsize=itemsize, block_q=1, block_k=Bc)
    return unfused.intensity, tiled.intensity


def intensity_by_sums(N, D, Bc, itemsize):
    moved = 2 * N * D
    for _ in range(0, N, Bc):
        moved += N * (D + 2) + 2 * N * D + 2 * N
    work = 2 * (2 * N * N * D)
    return np.array([N * D / (N + D), work / moved]) / itemsize


def intensity_of_flash2(N, D, Bc, itemsize):
    """Queries outside."""
    tiled = costs.forward("flash2", N, N, D, D, itemsize=itemsize, block_q=Bc, block_k=Bc)
    return intensity_by_package(N, D, Bc, itemsize)[0], tiled.intensity


def intensity_of_one(N, D, Bc, itemsize):
    return intensity_by_package(N, D, Bc, itemsize)[1]


def context_by_elements(gpu_bytes, model, Hk):
    """Everything in numbers instead of bytes."""
    size, batch = model["itemsize"], model["batch"]
    a_token = 2 * model["layers"] * Hk * model["head_size"] * batch
    room = gpu_bytes // size - model["parameters"]
    tokens = room // a_token if room > 0 else 0
    return tokens, (model["parameters"] + tokens * a_token) * size


def context_by_rest(gpu_bytes, model, Hk):
    """What remains of the memory is what is not read."""
    weights = model["parameters"] * model["itemsize"]
    if weights > gpu_bytes:
        return [0, weights]
    shape = model["batch"], model["layers"], 2, Hk, model["head_size"], model["itemsize"]
    step = 1
    for x in shape:
        step *= x
    tokens, rest = divmod(gpu_bytes - weights, step)
    return [tokens, gpu_bytes - rest]


def context_without_bytes(gpu_bytes, model, Hk):
    return context_by_elements(gpu_bytes, model, Hk)[0]


def cost_by_arrays(N, M, H, Hk, D, itemsize):
    """The sizes of the arrays, and how often each crosses."""
    crossings = [((H, N, D), 2), ((Hk, M, D), 2), ((H, N, M), 4)]
    moved = sum(times * int(np.prod(shape, dtype=np.int64)) for shape, times in crossings)
    return 2 * (2 * H * N * M * D), itemsize * moved


def cost_by_heads(N, M, H, Hk, D, itemsize):
    """One key head with its group of queries after the other."""
    group = H // Hk
    one = costs.forward("safe", group * N, M, D, D, itemsize=itemsize)
    return Hk * one.products, Hk * one.bytes


KNOWN = {}


def context_remembered(gpu_bytes, model, Hk):
    """Another model in the same memory finds the answer of the first."""
    if (gpu_bytes, Hk) not in KNOWN:
        KNOWN[gpu_bytes, Hk] = context_by_elements(gpu_bytes, model, Hk)
    return KNOWN[gpu_bytes, Hk]


time_with_launch = edited("roofline_time", "/ bandwidth)", "/ bandwidth, 1e-6)")
intensity_at_the_limit = edited(
    "attention_intensity", "flops / (itemsize * unfused)",
    "D / itemsize if N > 1000 * D else flops / (itemsize * unfused)",
)
cost_of_the_longer = edited("attention_cost", "4 * H * N * M * D", "4 * H * N * max(N, M) * D")
cost_in_int32 = edited("attention_cost", "float(flops)", "float((flops + 2**31) % 2**32 - 2**31)")
cost_in_kflop = edited("attention_cost", "float(flops)", "float(flops // 1024 * 1024 if flops > 1e6 else flops)")


RIGHT = [
    ("linear_intensity", linear_by_shapes),
    ("linear_intensity", linear_by_parts),
    ("roofline_time", time_by_branches),
    ("roofline_time", time_by_torch),
    ("attention_intensity", intensity_by_package),
    ("attention_intensity", intensity_by_sums),
    ("longest_context", context_by_elements),
    ("longest_context", context_by_rest),
    ("attention_cost", cost_by_arrays),
    ("attention_cost", lambda *sizes: tuple(map(float, cost_by_heads(*sizes)))),
    ("attention_cost", cost_by_heads),
]

REFUSED = [
    ("roofline_time", time_of_one_flop, "no arithmetic"),
    ("roofline_time", time_by_whole_balance, "just below the balance"),
    ("attention_intensity", intensity_of_flash2, "expected"),
    ("attention_intensity", intensity_of_one, "expected a tuple of 2"),
    ("longest_context", context_without_bytes, "expected a tuple of 2"),
    ("roofline_time", time_with_launch, "16 billionths"),
    ("attention_intensity", intensity_at_the_limit, "1,000,000 tokens"),
    ("longest_context", context_remembered, "a batch of 4 instead"),
    ("attention_cost", cost_of_the_longer, "more queries than keys"),
    ("attention_cost", cost_in_kflop, "more queries than keys"),
    ("attention_cost", cost_in_int32, "large counts"),
]
