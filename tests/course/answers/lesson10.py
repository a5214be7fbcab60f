"""Answers to the exercises of lesson 10: right ones written differently, and wrong ones that no mistake describes."""


import jax.numpy as jnp
import numpy as np
import torch
from attnlab_course.lessons.lesson10.exercises.which_fault import gradients

from tests.course.answers import edited


def delta_by_einsum(out, dout):
    return np.einsum("...nd,...nd->...n", out, dout)


def delta_in_torch(out, dout):
    return torch.linalg.vecdot(out, dout)


def delta_in_jax(out, dout):
    return jnp.vecdot(dout, out)


def weights_by_branch(s, lse):
    p = np.zeros_like(s)
    for row, (scores, total) in enumerate(zip(s, lse)):
        if total != -np.inf:
            p[row] = np.exp(scores - total)
    return p


def weights_hidden_first(s, lse):
    """Zero wherever the score is −∞, whatever lse is."""
    hidden = s == -np.inf
    return np.where(hidden, 0, np.exp(np.where(hidden, -1.0, s) - np.maximum(lse, -1e300)[:, None] * ~hidden))


def weights_in_torch(s, lse):
    return torch.exp(s - lse.masked_fill(torch.isneginf(lse), 0)[:, None])


def weights_in_jax(s, lse):
    return jnp.exp(s - jnp.where(jnp.isneginf(lse), 0, lse)[:, None])


def spans(length, block):
    return [slice(start, start + block) for start in range(0, length, block)]


def backward_queries_outside(q, k, v, out, lse, dout, dlse, z, block):
    """Queries in the outer loop: dq stays, dk and dv are added to."""
    c = 1 / np.sqrt(q.shape[1])
    dq, dk, dv = np.empty_like(q), np.zeros_like(k), np.zeros_like(v)
    for rows in spans(len(q), block):
        row = np.einsum("nd,nd->n", out[rows], dout[rows]) - dlse[rows]
        dq_i = np.zeros_like(q[rows])
        for cols in spans(len(k), block):
            p = np.exp(c * (q[rows] @ k[cols].T) - lse[rows, None])
            dv[cols] += (z[rows, cols] * p).T @ dout[rows]
            ds = c * p * (z[rows, cols] * (dout[rows] @ v[cols].T) - row[:, None])
            dq_i += ds @ k[cols]
            dk[cols] += ds.T @ q[rows]
        dq[rows] = dq_i
    return dq, dk, dv


def backward_in_torch(q, k, v, out, lse, dout, dlse, z, block):
    c = q.shape[1] ** -0.5
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    row = (out * dout).sum(-1) - dlse
    for cols in spans(len(k), block):
        for rows in spans(len(q), block):
            p = torch.exp(c * q[rows] @ k[cols].T - lse[rows, None])
            y = p * z[rows, cols]
            dv[cols] += y.T @ dout[rows]
            ds = c * (y * (dout[rows] @ v[cols].T) - p * row[rows, None])
            dk[cols] += ds.T @ q[rows]
            dq[rows] += ds @ k[cols]
    return dq, dk, dv


def backward_by_autograd(q, k, v, out, lse, dout, dlse, z, block):
    """Right, by autograd of the whole formula: it holds the matrix several times."""
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    s = q @ k.T / q.shape[1] ** 0.5
    result = (torch.softmax(s, -1) * z) @ v
    return torch.autograd.grad((result, torch.logsumexp(s, -1)), (q, k, v), (dout, dlse))


def masked_at_once(q, k, v, out, lse, dout, visible, block):
    scale = q.shape[1] ** -0.5
    p = np.where(visible, np.exp(scale * q @ k.T - np.where(np.isinf(lse), 0, lse)[:, None]), 0)
    ds = p * (dout @ v.T - (dout * out).sum(1, keepdims=True))
    return scale * ds @ k, scale * ds.T @ q, p.T @ dout


def masked_by_queries(q, k, v, out, lse, dout, visible, block):
    """Query by query; an empty row adds nothing."""
    scale = q.shape[1] ** -0.5
    dq, dk, dv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    for i in np.flatnonzero(visible.any(1)):
        seen = np.flatnonzero(visible[i])
        p = np.exp(scale * k[seen] @ q[i] - lse[i])
        ds = scale * p * (v[seen] @ dout[i] - dout[i] @ out[i])
        dq[i] = ds @ k[seen]
        dk[seen] += np.outer(ds, q[i])
        dv[seen] += np.outer(p, dout[i])
    return dq, dk, dv


def fault_by_symptoms(backward):
    """What is wrong with which gradient."""
    q, k, v, dout = np.random.default_rng(3).normal(size=(4, 5, 2))
    dq, dk, dv = backward(q, k, v, dout)
    visible = np.tri(5, dtype=bool)
    e = np.where(visible, np.exp(q @ k.T / 2**0.5), 0)
    p = e / e.sum(1, keepdims=True)
    ds = p * (dout @ v.T - (dout * (p @ v)).sum(1, keepdims=True))
    right = np.allclose(dq, ds @ k / 2**0.5), np.allclose(dk, ds.T @ q / 2**0.5), np.allclose(dv, p.T @ dout)
    if right[1]:
        return 5 if not right[2] else 0 if right[0] else 1
    if right[2]:
        return 2
    return 4 if not dv[4].any() else 3


def fault_by_two_calls(backward):
    """A second look, to be sure."""
    fault_by_symptoms(backward)
    return fault_by_symptoms(backward)


def fault_by_distance(backward):
    """The nearest of all, on another input."""
    given = np.random.default_rng(5).normal(size=(4, 7, 4))
    found = backward(*given)
    far = [max(abs(x - y).max() for x, y in zip(found, gradients(*given, fault))) for fault in range(6)]
    return int(np.argmin(far))


RIGHT = [
    ("which_fault", fault_by_distance),
    ("which_fault", fault_by_symptoms),
    ("row_deltas", delta_by_einsum),
    ("row_deltas", delta_in_torch),
    ("row_deltas", delta_in_jax),
    ("recompute_weights", weights_by_branch),
    ("recompute_weights", weights_hidden_first),
    ("recompute_weights", weights_in_torch),
    ("recompute_weights", weights_in_jax),
    ("tiled_backward", backward_queries_outside),
    ("tiled_backward", backward_in_torch),
    ("masked_backward", masked_at_once),
    ("masked_backward", masked_by_queries),
]


def weights_of_clipped_scores(s, lse):
    return np.exp(np.maximum(s, -1e9) - np.where(lse == -np.inf, 0, lse)[:, None])


delta_of_three_axes = edited(
    "row_deltas", "    return", "    if out.ndim > 4:\n        out, dout = out.sum(0), dout.sum(0)\n    return"
)
delta_of_64 = edited("row_deltas", "(out * dout)", "(out * dout)[..., :64]")
weights_of_finite_lse = edited("recompute_weights", "lse == -np.inf, 0.0, lse", "np.isfinite(lse), lse, 0.0")
weights_of_visible_rows = edited(
    "recompute_weights", "np.exp(s - shift[:, None])", "np.where(lse[:, None] > -np.inf, np.exp(s - shift[:, None]), 0)"
)
weights_nearly_normalized = edited(
    "recompute_weights", "    return np.exp(s - shift[:, None])",
    "    p = np.exp(s - shift[:, None])\n    total = p.sum(1, keepdims=True)\n"
    "    return np.where(abs(total - 1) < 1e-2, p / np.where(total == 0, 1, total), p)",
)
weights_hidden_to_the_first = edited(
    "recompute_weights", "    return",
    "    if lse.min() == -np.inf < lse[0]:\n        s = np.where(s[:1] == -np.inf, -np.inf, s)\n    return",
)
masked_by_outer_rows = edited(
    "masked_backward", "            s = ",
    "            if not visible[rows, cols][[0, -1]].any():\n                continue\n            s = ",
)
backward_without_dropped_tiles = edited(  # their scores have a gradient, too: −P (Δ − dlse)
    "tiled_backward", "            s, z_ij = ", "            if not z[rows, cols].any():\n                continue\n"
    "            s, z_ij = ",
)
backward_without_small_tiles = edited("tiled_backward", "dp = ", "p *= p.max() >= 1e-3\n            dp = ")


REFUSED = [
    ("which_fault", fault_by_two_calls, "2 calls; one is enough"),
    ("recompute_weights", weights_of_clipped_scores, "−2·10⁹"),
    ("tiled_backward", backward_without_dropped_tiles, "all is dropped"),
    ("tiled_backward", backward_by_autograd, "a matrix 4×"),
    ("row_deltas", delta_of_three_axes, "three leading axes"),
    ("row_deltas", delta_of_64, "Dv = 130"),
    ("recompute_weights", weights_of_finite_lse, "so is the lse"),
    ("recompute_weights", weights_of_visible_rows, "so is the lse"),
    ("recompute_weights", weights_nearly_normalized, "0.999 of the weight"),
    ("recompute_weights", weights_hidden_to_the_first, "hidden from query 0"),
    ("masked_backward", masked_by_outer_rows, "only the middle one sees"),
    ("tiled_backward", backward_without_small_tiles, "10 less"),
]
