"""Answers to the exercises of lesson 07: right ones, written in other ways, and ones to refuse."""

import numpy as np

from attnlab import costs
from tests.course.answers import edited


def step_by_branches(kernels, tensor, vector, bandwidth, launch):
    arithmetic, moving, idle = 0.0, 0.0, 0.0
    for unit, flops, moved in kernels:
        computes = flops / {"tensor": tensor, "vector": vector}[unit]
        moves = moved / bandwidth
        if launch > computes and launch > moves:
            idle += launch
        elif computes > moves:
            arithmetic += computes
        else:
            moving += moves
    return arithmetic, moving, idle


def step_by_arrays(kernels, tensor, vector, bandwidth, launch):
    """All kernels at once: a column for each."""
    rates = {"tensor": tensor, "vector": vector}
    times = np.array([[f / rates[unit], b / bandwidth, launch] for unit, f, b in kernels]).reshape(-1, 3)
    return np.where(times == times.max(1, keepdims=True), times, 0).sum(0)


def step_by_most(kernels, tensor, vector, bandwidth, launch):
    """All of the time is said to be for what most of it is for."""
    waits = step_by_branches(kernels, tensor, vector, bandwidth, launch)
    return tuple(sum(waits) if x == max(waits) else 0.0 for x in waits)


def step_without_short_ones(kernels, *machine):
    return step_by_branches(kernels[:3], *machine)


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


cost_of_the_longer = edited("attention_cost", "4 * H * N * M * D", "4 * H * N * max(N, M) * D")
cost_in_int32 = edited("attention_cost", "float(flops)", "float((flops + 2**31) % 2**32 - 2**31)")
cost_in_kflop = edited("attention_cost", "float(flops)", "float(flops // 1024 * 1024 if flops > 1e6 else flops)")


RIGHT = [
    ("step_time", step_by_branches),
    ("step_time", step_by_arrays),
    ("longest_context", context_by_elements),
    ("longest_context", context_by_rest),
    ("attention_cost", cost_by_arrays),
    ("attention_cost", lambda *sizes: tuple(map(float, cost_by_heads(*sizes)))),
    ("attention_cost", cost_by_heads),
]

REFUSED = [
    ("step_time", step_by_most, "two kernels"),
    ("step_time", step_without_short_ones, "five kernels"),
    ("longest_context", context_without_bytes, "expected a tuple of 2"),
    ("longest_context", context_remembered, "a batch of 4 instead"),
    ("attention_cost", cost_of_the_longer, "more queries than keys"),
    ("attention_cost", cost_in_kflop, "more queries than keys"),
    ("attention_cost", cost_in_int32, "large counts"),
]
