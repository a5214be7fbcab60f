"""Linear attention in NumPy."""

import math
from collections.abc import Callable

import numpy as np
from numpy import ndarray as Array

from attnlab.core.arrays.numpy import Key, Out, Query, Values, accumulator, matmul, quiet
from attnlab.core.geometry import blocks
from attnlab.core.shapes import Float
from attnlab.linear import Hedgehog, LinearInputs, LinearOptions, spans
from attnlab.linear.steps import Steps, absorb, sum_keys

State = tuple[Float[Array, "*batch Hk F Dv"], Float[Array, "*batch Hk F"]]
QueryFeatures = Float[Array, "*batch Hk G R F"]
KeyFeatures = Float[Array, "*batch Hk C F"]


@quiet
def linear_attention(options: LinearOptions, x: LinearInputs) -> tuple[Out, State]:
    """See :func:`attnlab.linear.linear_attention`."""
    n, m = x.query.shape[-2], x.key.shape[-2]
    out = np.empty((*x.query.shape[:-1], x.value.shape[-1]), x.query.dtype)
    if isinstance(options.features, tuple):
        for phi, y in zip(options.features, (x.query, x.key)):
            check_by_token(phi, y[..., :2, :].astype(accumulator(y), copy=False))

    def seen(rows: slice) -> QueryFeatures:
        return STEPS.queries(options, x.hedgehog, x.query[..., rows, :])

    def held(cols: slice) -> tuple[KeyFeatures, Values]:
        kept = x.mask if x.mask is None or x.mask.shape[-1] == 1 else x.mask[..., cols]
        return STEPS.keys(options, x.hedgehog, x.key[..., cols, :], x.value[..., cols, :], kept)

    state = sum_keys(*held(slice(0, 0))) if x.state is None else x.state
    if options.form == "quadratic":
        sums, state = STEPS.chunk(seen(slice(None)), *held(slice(None)), state, options.causal)
        out[...] = STEPS.divide(*sums)
        return out, state

    step, size = (STEPS.token, 1) if options.form == "recurrent" else (STEPS.chunk, options.chunk)
    ahead, alone, aligned = spans(options, n, m)
    for cols in blocks(ahead, size):
        state = absorb(state, *held(cols))
    for rows in blocks(alone, size):
        out[..., rows, :] = STEPS.divide(*STEPS.read(seen(rows), state))
    for part in blocks(aligned, size):
        rows, cols = (slice(part.start + first, part.stop + first) for first in (n - aligned, m - aligned))
        sums, state = step(seen(rows), *held(cols), state)
        out[..., rows, :] = STEPS.divide(*sums)
    return out, state


def check_by_token(phi: Callable, x: Float[Array, "*rows D"]) -> None:
    """A given map takes each token by itself: two together give what each gives alone."""
    together, alone = phi(x), np.concatenate([phi(x[..., i : i + 1, :]) for i in range(x.shape[-2])] or [phi(x)], -2)
    if not np.allclose(together, alone, rtol=1e-3, equal_nan=True):
        raise ValueError(
            "features mixes tokens: of two together it makes something else than of each alone; it is applied chunk by "
            "chunk, so it must map each token by itself"
        )


def elu(x: Float[Array, "*rows D"]) -> Float[Array, "*rows D"]:
    """elu(x) + 1: x + 1 above 0, e^x below."""
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def relu(x: Float[Array, "*rows D"]) -> Float[Array, "*rows D"]:
    """max(x, 0); of a query with no positive entry all weights are 0."""
    return np.maximum(x, 0)


def taylor(x: Float[Array, "*rows D"]) -> Float[Array, "*rows F"]:
    """1, x and the products x_i x_j for i ≤ j, the squares divided by √2: φ(q)·φ(k) = 1 + q·k + (q·k)² / 2."""
    i, j = np.triu_indices(x.shape[-1])
    factor = np.where(i == j, math.sqrt(0.5), 1).astype(x.dtype)
    return np.concatenate([np.ones_like(x[..., :1]), x, factor * x[..., i] * x[..., j]], -1)


def both_signs(y: Float[Array, "*rows f"]) -> Float[Array, "*rows F"]:
    """e^y and e^{−y}."""
    return np.concatenate([np.exp(y), np.exp(-y)], -1)


FEATURES = {"elu": elu, "relu": relu, "taylor": taylor, "exp": np.exp}
STEPS = Steps(matmul, np.tril, np.where, lambda x: x.astype(accumulator(x), copy=False), FEATURES, both_signs)


@quiet
def hedgehog_loss(query: Query, key: Key, hedgehog: Hedgehog, causal: bool) -> np.floating:
    """See :func:`attnlab.linear.hedgehog_loss`."""
    dtype, (n, d), m = accumulator(query), query.shape[-2:], key.shape[-2]
    q, k = query.astype(dtype), key.astype(dtype)
    visible = np.tri(n, m, m - n if causal else m, dtype=bool)
    s = np.where(visible, matmul(q, k.swapaxes(-1, -2)) / math.sqrt(d), -np.inf)
    phi_q, phi_k = STEPS.maps(LinearOptions("quadratic", causal, 1.0, 1, "hedgehog"), hedgehog)
    a = np.where(visible, matmul(phi_q(q), phi_k(k).swapaxes(-1, -2)), 0)
    rows = visible.any(-1)
    p = np.exp(s - np.where(rows, s.max(-1, initial=-np.inf), 0)[..., None])
    log_a = np.log(np.where(visible, a, 1)) - np.log(np.where(rows, a.sum(-1), 1))[..., None]
    per_row = -(p * log_a).sum(-1) / np.where(rows, p.sum(-1), 1)
    return per_row[..., rows].mean()
