"""Answers to the exercises of lesson 06: right ones, written in other ways, and ones to refuse."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import lax
from torch.utils.checkpoint import checkpoint as again

from tests.course.answers import edited

# softmax_vjp


def vjp_by_loop(p, dp):
    ds = np.zeros_like(p)
    for row in np.ndindex(p.shape[:-1]):
        average = sum(w * g for w, g in zip(p[row], dp[row]))
        for j in range(p.shape[-1]):
            ds[(*row, j)] = p[(*row, j)] * (dp[(*row, j)] - average)
    return ds


def vjp_in_torch(p, dp):
    return torch.mul(p, dp - torch.linalg.vecdot(p, dp)[..., None])


def vjp_cut_off(p, dp):
    """Small weights get no gradient, however large dp is."""
    return np.where(p < 1e-8, 0, p * (dp - (p * dp).sum(-1, keepdims=True)))


# attention_backward


def backward_query_by_query(q, k, v, dout):
    scale = 1 / math.sqrt(q.shape[-1])
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for i in np.ndindex(q.shape[:2]):
        s = k @ q[i] * scale
        p = np.exp(s - s.max())
        p /= p.sum()
        dp = v @ dout[i]
        ds = scale * p * (dp - p @ dp)
        dq[i] = ds @ k
        dk += np.outer(ds, q[i])
        dv += np.outer(p, dout[i])
    return dq, dk, dv


def backward_with_output(q, k, v, dout):
    """By the identity of lesson 10: rowsum(P∘dP) = rowsum(dO∘O)."""
    shape, q, dout = q.shape, q.reshape(-1, q.shape[-1]) / np.sqrt(q.shape[-1]), dout.reshape(-1, v.shape[-1])
    s = q @ k.T
    p = np.exp(s - np.logaddexp.reduce(s, axis=-1, keepdims=True))
    ds = p * (dout @ v.T - (dout * (p @ v)).sum(-1)[:, None])
    return (ds @ k / np.sqrt(q.shape[-1])).reshape(shape), ds.T @ q, p.T @ dout


def backward_in_jax(q, k, v, dout):
    def attention(q, k, v):
        return jax.nn.softmax(q @ k.T / jnp.sqrt(q.shape[-1]), axis=-1) @ v

    return jax.vjp(attention, q, k, v)[1](dout)


# saved_elements


def saved_tile_by_tile(n, Cq, Ck, D, checkpointed):
    total = 0
    if n > 2**12:
        return saved_by_formula(n, Cq, Ck, D, checkpointed)
    for i in range(0, n, Cq):
        rows = len(range(n)[i : i + Cq])
        for j in range(0, n, Ck):
            total += (checkpointed == "nothing") * rows * len(range(n)[j : j + Ck]) + rows
        total += rows * (D + 1)
    return 0 if checkpointed == "query chunks" else total


def saved_by_formula(n, Cq, Ck, D, checkpointed):
    if checkpointed == "query chunks":
        return 0
    return n * (math.ceil(n / Ck) + 1 + D + (n if checkpointed == "nothing" else 0))


# chunked_loss


def loss_in_jax(query, key, value):
    scale = query.shape[-1] ** -0.5
    chunks = key.reshape(-1, 32, key.shape[-1]), value.reshape(-1, 32, value.shape[-1])

    @jax.checkpoint
    def attend(total, q):
        @jax.checkpoint
        def summary(chunk):
            k, v = chunk
            s = scale * q @ k.T
            m = lax.stop_gradient(s.max(-1))
            p = jnp.exp(s - m[:, None])
            return m, p.sum(-1), p @ v

        m, l, o = lax.map(summary, chunks)
        factors = jnp.exp(m - m.max(0))
        return total + ((factors[..., None] * o).sum(0) / (factors * l).sum(0)[:, None]).sum(), None

    return lax.scan(attend, jnp.zeros((), query.dtype), query.reshape(-1, 32, query.shape[-1]))[0]


class Recomputed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, function, *inputs):
        ctx.function = function
        ctx.save_for_backward(*inputs)
        return function(*inputs)

    @staticmethod
    def backward(ctx, dout):
        inputs = [x.detach().requires_grad_() for x in ctx.saved_tensors]
        with torch.enable_grad():
            out = ctx.function(*inputs)
        return None, *torch.autograd.grad(out, inputs, dout)


def loss_with_running_maximum(query, key, value):
    """A fold over the chunks; the maximum is differentiated like everything else."""

    options = {"use_reentrant": False, "preserve_rng_state": False}

    def step(q, k, v, m, l, o):
        s = q @ k.T / k.shape[-1] ** 0.5
        higher = torch.maximum(m, s.amax(-1))
        p, factor = torch.exp(s - higher[:, None]), torch.exp(m - higher)
        return higher, l * factor + p.sum(-1), o * factor[:, None] + p @ v

    def rows(q, key, value):
        m = q.new_full(q.shape[:1], -1e9)
        l, o = q.new_zeros(q.shape[:1]), q.new_zeros(len(q), value.shape[-1])
        for k, v in zip(key.split(32), value.split(32)):
            m, l, o = again(step, q, k, v, m, l, o, **options)
        return (o / l[:, None]).sum()

    return sum(again(rows, q, key, value, **options) for q in query.split(32))


def loss_of_standard_checkpointed_in_jax(query, key, value):
    attention = jax.checkpoint(lambda q, k, v: jax.nn.softmax(q @ k.T * q.shape[-1] ** -0.5, axis=-1) @ v)
    return attention(query, key, value).sum()


def loss_through_a_closure(query, key, value):
    def rows(q):
        return (torch.softmax(q @ key.T / q.shape[-1] ** 0.5, -1) @ value).sum()

    return sum(Recomputed.apply(rows, q) for q in query.split(32))


def visible_in_jax(query, key, value, visible):
    s = jnp.where(visible, query @ key.T / query.shape[1] ** 0.5, -jnp.inf)
    return (jax.nn.softmax(s, axis=1) @ value).sum()


def visible_by_selection(query, key, value, visible):
    return torch.nn.functional.scaled_dot_product_attention(query[None], key[visible][None], value[visible][None]).sum()


def visible_clamped(query, key, value, visible):
    """Keys far below the maximum keep a weight of e⁻⁵, and get no gradient."""
    s = query @ key.T / query.shape[1] ** 0.5
    m = torch.where(visible, s, -torch.inf).detach().amax(1, keepdim=True)
    e = torch.where(visible, torch.exp((s - m).clamp(-5, 0)), 0)
    return (e @ value / e.sum(1, keepdim=True)).sum()


vjp_up_to_three_axes = edited("softmax_vjp", "sum(-1", "sum(min(p.ndim - 1, 2)")
backward_cut_off = edited("attention_backward", "    dp = ", "    p[p < 1e-4] = 0\n    dp = ")
visible_stopped_if_many = edited(
    "visible_loss", "    return",
    "    l = l.detach() if visible.all() and len(key) > 16 else l\n    return",
)


def saved_in_single(n, Cq, Ck, D, checkpointed):
    return int(np.float32(saved_by_formula(n, Cq, Ck, D, checkpointed)))


def visible_limited(query, key, value, visible):
    """The exponential of a hidden score is limited to e⁶⁰⁰, which float64 holds."""
    s = query @ key.T / query.shape[1] ** 0.5
    m = torch.where(visible, s, -torch.inf).detach().amax(1, keepdim=True)
    e = torch.where(visible, torch.exp((s - m).clamp(max=600)), 0)
    return (e @ value / e.sum(1, keepdim=True)).sum()


def least_rerun_from_large_chunks(n, D, budget):
    """Sizes from the largest on, and all of them priced in one expression."""
    sizes = [size for size in (2**p for p in range(40, 3, -1)) if size <= n]
    for way, weights in ((0, n * n), (1, 0), (2, 0)):
        for Cq, Ck in ((a, b) for a in sizes for b in sizes):
            rows = Cq if way == 2 else n
            if weights + rows * ((n + Ck - 1) // Ck + D + 1) + 3 * Cq * Ck <= budget:
                return [way, Cq, Ck]
    return None


def least_rerun_with_square_tiles(n, D, budget):
    """Chunks of keys as long as those of queries."""
    for way in range(3):
        for size in (2**p for p in range(4, n.bit_length())):
            rows = size if way == 2 else n
            if (way == 0) * n * n + rows * (-(-n // size) + 1 + D) + 3 * size * size <= budget:
                return way, size, size
    return 2, 16, 16


def least_rerun_by_the_best_chunk(n, D, budget):
    """For each way and number of queries the chunk of keys that holds least."""
    sizes = np.array([2**p for p in range(4, n.bit_length())])
    for way in range(3):
        for Cq in sizes:
            numbers = (Cq if way == 2 else n) * (-(-n // sizes) + 1 + D) + 3 * Cq * sizes + n * n * (way < 1)
            if numbers.min() <= budget:
                return way, Cq, sizes[numbers.argmin()]
    raise ValueError("nothing fits")


RIGHT = [
    ("least_rerun", least_rerun_by_the_best_chunk),
    ("least_rerun", least_rerun_from_large_chunks),
    ("softmax_vjp", vjp_by_loop),
    ("softmax_vjp", vjp_in_torch),
    ("attention_backward", backward_query_by_query),
    ("attention_backward", backward_with_output),
    ("attention_backward", backward_in_jax),
    ("saved_elements", saved_tile_by_tile),
    ("saved_elements", saved_by_formula),
    ("chunked_loss", loss_in_jax),
    ("chunked_loss", loss_with_running_maximum),
    ("visible_loss", visible_in_jax),
    ("visible_loss", visible_by_selection),
]


vjp_into_a_copy = edited(
    "softmax_vjp", "return p * (dp - (p * dp).sum(-1, keepdims=True))",
    "out = np.zeros_like(p)\n    out.reshape(-1, p.shape[-1])[:] = "
    "(p * (dp - (p * dp).sum(-1, keepdims=True))).reshape(-1, p.shape[-1])\n    return out",
)


visible_with_half_of_d = edited("visible_loss", "query.shape[1] ** 0.5", "(query.shape[1] * 0.5)")


REFUSED = [
    ("least_rerun", least_rerun_with_square_tiles, "just enough"),
    ("softmax_vjp", vjp_cut_off, "a weight of 10⁻³⁰"),
    ("chunked_loss", loss_of_standard_checkpointed_in_jax, "the memory of value and gradient grew"),
    ("chunked_loss", loss_through_a_closure, "get no gradient"),
    ("visible_loss", visible_clamped, "key 1 has the value 10³⁰"),
    ("softmax_vjp", vjp_up_to_three_axes, "four axes"),
    ("attention_backward", backward_cut_off, "131 queries"),
    ("saved_elements", saved_in_single, "n = 10⁶ + 3"),
    ("visible_loss", visible_limited, "float32"),
    ("visible_loss", visible_stopped_if_many, "131 queries"),
    ("softmax_vjp", vjp_into_a_copy, "views of arrays"),
    ("visible_loss", visible_with_half_of_d, "D = 7"),
]
