"""The delta rule in NumPy."""

import numpy as np
from numpy import ndarray as Array

from attnlab.core.arrays.numpy import Out, Values, accumulator, matmul, quiet
from attnlab.core.geometry import blocks
from attnlab.core.shapes import Float
from attnlab.linear.delta import Rule, Tokens

State = Float[Array, "*batch Hk F Dv"]
Queries = Float[Array, "*batch Hk G C F"]
Keys = Float[Array, "*batch Hk C F"]
Each = Float[Array, "*batch Hk C"]


@quiet
def delta_attention(rule: Rule, x: Tokens, state: State | None) -> tuple[Out, State]:
    """See :func:`attnlab.linear.delta_attention`."""
    *heads, n, f = x.key.shape
    out = np.empty((*x.query.shape[:-1], x.value.shape[-1]), x.query.dtype)
    state = np.zeros((*heads, f, x.value.shape[-1]), accumulator(x.query)) if state is None else state
    step = token if rule.form == "recurrent" else chunk
    for part in blocks(n, rule.steps(n)):
        out[..., part, :], state = step(*tokens(x, part), state, rule.erase)
    return out, state


def token(q: Queries, k: Keys, v: Values, b: Each, g: Each, state: State, erase: bool) -> tuple[Out, State]:
    """The definition, for one token: decay, look up what is stored under the key, write the error, read."""
    state = np.exp(g)[..., None] * state
    error = v - k @ state if erase else v
    state = state + k.swapaxes(-1, -2) @ (b[..., None] * error)
    return matmul(q, state), state


def chunk(q: Queries, k: Keys, v: Values, b: Each, g: Each, state: State, erase: bool) -> tuple[Out, State]:
    """Some tokens at once: their errors W by one triangular system, then weights within the chunk as for values W."""
    b = b[..., None]
    decay, since = weights(g), np.exp(g.cumsum(-1))[..., None]  # G_ij and γ_i
    w = b * (v - since * (k @ state)) if erase else b * v
    if erase:
        w = substitute(b * decay * (k @ k.swapaxes(-1, -2)), w)
    scores = matmul(q, k.swapaxes(-1, -2)) * decay[..., None, :, :]
    out = since[..., None, :, :] * matmul(q, state) + matmul(scores, w)
    return out, since[..., -1:, :] * state + (decay[..., -1, :, None] * k).swapaxes(-1, -2) @ w


def weights(g: Each) -> Float[Array, "*batch Hk C C"]:
    """G_ij = a_{j+1} … a_i for j ≤ i, else 0: a sum of logarithms over (j, i].

    Never a quotient γ_i / γ_j, which is 0 / 0 after a few small decays, nor a difference of running sums, which is
    −∞ − (−∞) after a reset and loses digits before.
    """
    c = g.shape[-1]
    sums = np.where(np.tri(c, k=-1, dtype=bool), g[..., :, None], 0).cumsum(-2)
    return np.where(np.tri(c, dtype=bool), np.exp(sums), 0)


def substitute(a: Array, w: Array) -> Array:
    """The solution of (I + A) X = W row by row, A being what ``a`` (..., C, C) has below its diagonal; of any dtype."""
    w = w.copy()
    for i in range(1, a.shape[-1]):
        w[..., i, :] -= (a[..., i, None, :i] @ w[..., :i, :])[..., 0, :]
    return w


def tokens(x: Tokens, part: slice) -> tuple[Queries, Keys, Values, Each, Each]:
    """Query, key, value, beta and log decay of some tokens, in the accumulation dtype.

    Those that the mask leaves out hold nothing, write nothing and let nothing decay.
    """
    dtype = accumulator(x.query)
    q, k, v = (y[..., part, :].astype(dtype, copy=False) for y in (x.query, x.key, x.value))
    b = np.ones(k.shape[:-1], dtype) if x.beta is None else x.beta[..., part].astype(dtype, copy=False)
    g = np.zeros(k.shape[:-1], dtype) if x.log_decay is None else x.log_decay[..., part].astype(dtype, copy=False)
    if x.mask is None:
        return q, k, v, b, g
    kept = x.mask if x.mask.shape[-1] == 1 else x.mask[..., part]
    k, v = (np.where(kept[..., None], y, 0) for y in (k, v))
    return q, k, v, np.where(kept, b, 0), np.where(kept, g, 0)


def positive(log_decay: Float[Array, "*batch Hk N"]) -> bool:
    """Whether a decay would grow."""
    return bool((log_decay > 0).any())
