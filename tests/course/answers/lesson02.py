"""Answers to the exercises of lesson 02: right ones written differently, and wrong ones that no mistake describes."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import torch

from tests.course.answers import edited


def softmax_by_rows(x):
    out = np.zeros_like(x)
    for at in np.ndindex(x.shape[:-1]):
        row = x[at].astype(np.float64)
        if (row == -np.inf).all():
            continue
        e = np.exp(row - row.max())
        out[at] = e / math.fsum(e)
    return out


def softmax_torch(x):
    p = torch.softmax(x, -1)
    return torch.where((x == -math.inf).all(-1, keepdim=True), 0, p)


def softmax_jax(x):
    s = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    empty = (s == -jnp.inf).all(-1, keepdims=True)
    return jnp.where(empty, 0, jax.nn.softmax(s, -1)).astype(x.dtype)


def counted_online(x, out):
    m, l = -math.inf, 0.0
    for v in x:
        if v > m:
            l *= math.exp(m - v)
            m = v
        l += math.exp(v - m)
    for i in reversed(range(len(x))):
        out[i] = math.exp(x[i] - m) / l


def counted_by_logarithm(x, out):
    m = max(x)
    lse = m + math.log(sum(math.exp(v - m) for v in x))
    for i in range(len(x)):
        out[i] = math.exp(x[i] - lse)


def log_softmax_by_lse(x):
    lse = np.logaddexp.reduce(x.astype(np.promote_types(x.dtype, np.float32)), axis=-1, keepdims=True)
    return (x - np.where(np.isneginf(lse), 0, lse)).astype(x.dtype)


def log_softmax_jax(x):
    logs = jax.nn.log_softmax(x.astype(jnp.promote_types(x.dtype, jnp.float32)), -1)
    return jnp.where((x == -jnp.inf).all(-1, keepdims=True), -jnp.inf, logs).astype(x.dtype)


def log_softmax_torch(x):
    lse = torch.logsumexp(x.to(torch.promote_types(x.dtype, torch.float32)), -1, keepdim=True)
    return x - lse.masked_fill(lse == -math.inf, 0)


def masked_by_select(x, mask):
    return torch.where(mask, torch.softmax(x.masked_fill(~mask, -math.inf), -1), 0)


def masked_by_smallest(x, mask):
    p = torch.softmax(torch.where(mask, x, torch.finfo(x.dtype).min), -1)
    return p * mask.any(-1, keepdim=True)


def masked_jax(x, mask):
    empty = ~mask.any(-1, keepdims=True)
    s = jnp.where(mask | empty, jnp.where(mask, x, 0), -jnp.inf)
    return jnp.where(empty, 0, jax.nn.softmax(s, -1))


def masked_detached(x, mask):
    return masked_by_select(x.detach(), mask)


def masked_numpy(x, mask):
    return np.where(mask, x, 0)


def softmax_double(x):
    return softmax_by_rows(x.astype(np.float64))


def lse_by_logaddexp(x):
    return np.logaddexp.reduce(x.astype(np.promote_types(x.dtype, np.float32)), axis=-1)


def lse_by_rows(x):
    out = np.full(x.shape[:-1], -math.inf)
    for at in np.ndindex(x.shape[:-1]):
        row = [float(s) for s in x[at] if s != -math.inf]
        if row:
            m = max(row)
            out[at] = m + math.log(math.fsum(math.exp(s - m) for s in row))
    return out


def lse_in_jax(x):
    return jax.nn.logsumexp(x.astype(jnp.promote_types(x.dtype, jnp.float32)), axis=-1)


def lse_without_nan(x):
    """A NaN is taken for an empty row."""
    return np.where(np.isnan(x).any(-1), -np.inf, lse_by_rows(x))


def lse_in_single(x):
    return lse_by_logaddexp(x.astype(np.float32)).astype(np.float64)


RIGHT = [
    *(("safe_softmax", answer) for answer in (softmax_by_rows, softmax_torch, softmax_jax)),
    *(("safe_softmax_counted", answer) for answer in (counted_online, counted_by_logarithm)),
    *(("log_softmax", answer) for answer in (log_softmax_by_lse, log_softmax_jax, log_softmax_torch)),
    *(("log_sum_exp", answer) for answer in (lse_by_logaddexp, lse_by_rows, lse_in_jax)),
    *(("masked_softmax", answer) for answer in (masked_by_select, masked_by_smallest, masked_jax)),
]


softmax_by_lse = edited("safe_softmax", "(e / l)", "np.exp(x - (m + np.log(l).astype(x.dtype)))")
softmax_of_numbers = edited(
    "safe_softmax", "m = x",
    "empty = ~(x > -np.inf).any(-1, keepdims=True)\n    x = np.where(empty, x.dtype.type(-np.inf), x)\n    m = x",
)
softmax_in_half = edited("safe_softmax", ", dtype=np.promote_types(x.dtype, np.float32)", "")
SHIFT = "np.where(m == -np.inf, x.dtype.type(0), m)", "np.zeros_like(m) if (m == -np.inf).any() else m"
softmax_shift_for_all = edited("safe_softmax", *SHIFT)
logs_of_large_terms = edited("log_softmax", "np.exp(x - m).sum(", "np.exp(np.where(x < m - 9, -np.inf, x - m)).sum(")
log_softmax_in_half = edited("log_softmax", "x.dtype.type(1), l)", "x.dtype.type(1), l.astype(x.dtype))")
logs_by_float32 = edited("log_softmax", "m = x", "x = x.astype(np.float32)\n    m = x")
logs_of_small_weights = edited(
    "log_softmax", "x - m - np.log(l)",
    "np.where(np.exp(x - m) / l > 0, np.log(np.exp(x - m) / l), x - m - np.log(l))",
)
lse_added_in_half = edited(
    "log_sum_exp", "(m + np.log(l))[..., 0]", "(m + np.log(l).astype(x.dtype))[..., 0].astype(l.dtype)"
)


def counted_by_maxima(x, out):
    """The maxima of blocks are kept."""
    n = len(x)
    maxima = [max(x[i] for i in range(first, min(first + 16, n))) for first in range(0, n, 16)]
    m = max(maxima)
    l = sum(math.exp(v - m) for v in x)
    for i in range(n):
        out[i] = math.exp(x[i] - m) / l


counted_but_zeros = edited("safe_softmax_counted", "    out[i]", "    if v > m - 700:\n            out[i]")
counted_but_small = edited(
    "safe_softmax_counted", "for v in x)", "for v in x if v > m - 12)"
)


def masked_but_nan(x, mask):
    """A row is empty unless a score of it is larger than −∞, which NaN is not."""
    s = torch.where(mask, x, -math.inf)
    some = (s > -math.inf).any(-1, keepdim=True)
    return torch.where(some, torch.softmax(torch.where(some, s, 0), -1), 0)


counted_from_zero = edited(
    "safe_softmax_counted", "m = max(x)", "m = max(max(x), 0)", "(v - m) / l", "(v - m) / l if l else 1 / len(x)"
)

REFUSED = [
    ("log_softmax", logs_of_large_terms, "9999 scores"),
    ("safe_softmax", softmax_double, "expected dtype"),
    ("log_softmax", log_softmax_in_half, "65,520 scores of 0"),
    ("log_sum_exp", lse_without_nan, "a NaN in the scores"),
    ("log_sum_exp", lse_in_single, "two scores of -0.6931"),
    ("log_sum_exp", edited("log_sum_exp", "[..., 0]", ""), "expected shape (1,), got (1, 1)"),
    ("masked_softmax", masked_detached, "gradient of x"),
    ("masked_softmax", masked_numpy, "NumPy has no gradients"),
    ("safe_softmax", softmax_in_half, "You add in half precision"),
    ("safe_softmax", softmax_by_lse, "two scores of 100,000,000"),
    ("safe_softmax", softmax_of_numbers, "a row of NaN alone"),
    ("safe_softmax", softmax_shift_for_all, "EMPTY"),
    ("safe_softmax_counted", counted_by_maxima, "eight times as long"),
    ("safe_softmax_counted", counted_but_zeros, "holds other numbers"),
    ("safe_softmax_counted", counted_but_small, "300 scores of 0"),
    ("log_softmax", logs_by_float32, "LOW: one visible score"),
    ("log_softmax", logs_of_small_weights, "a sum of 2"),
    ("log_sum_exp", lse_added_in_half, "two scores of -0.6875"),
    ("masked_softmax", masked_but_nan, "a row of visible NaN"),
    ("safe_softmax_counted", counted_from_zero, "the scores −100000, −100001"),
]
