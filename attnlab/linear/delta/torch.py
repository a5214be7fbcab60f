"""The delta rule in PyTorch; the gradient computes each chunk once more, from the state before it."""

from attnlab.core.arrays.torch import Out, Values, accumulator, matmul
from attnlab.core.shapes import Float
from attnlab.core.torch_operator import has_no_values, without_autocast
from attnlab.linear.delta import Rule, Tokens

import torch
from torch import Tensor as Array
from torch.utils.checkpoint import checkpoint

State = Float[Array, "*batch Hk F Dv"]
Queries = Float[Array, "*batch Hk G C F"]
Keys = Float[Array, "*batch Hk C F"]
Each = Float[Array, "*batch Hk C"]


def delta_attention(rule: Rule, x: Tokens, state: State | None) -> tuple[Out, State]:
    """See :func:`attnlab.linear.delta_attention`. Autocast is off inside, or sums would be half precision."""
    with without_autocast(x.query):
        return _delta_attention(rule, x, state)


def _delta_attention(rule: Rule, x: Tokens, state: State | None) -> tuple[Out, State]:
    *heads, n, f = x.key.shape
    shape = (*x.query.shape[:-1], x.value.shape[-1])
    state = x.key.new_zeros((*heads, f, shape[-1]), dtype=accumulator(x.query)) if state is None else state
    learns = torch.is_grad_enabled() and any(y is not None and y.requires_grad for y in (*x, state))
    step = token if rule.form == "recurrent" else chunk
    again = learns and step is chunk and not torch._C._are_functorch_transforms_active()  # which know no checkpoint
    out, found = (None if learns else x.query.new_empty(shape)), []
    start = 0
    for part in cut(x, rule.steps(n)):
        if again:
            rows, state = checkpoint(see, step, rule.erase, state, *part, use_reentrant=False)
        else:
            rows, state = see(step, rule.erase, state, *part)
        if learns:
            found.append(rows)
        else:
            out[..., start : start + rows.shape[-2], :] = rows
        start += rows.shape[-2]
    if learns:
        out = torch.cat(found, -2) if found else x.query.new_zeros(shape)
    return out, state


def see(step: object, erase: bool, state: State, *part: Array | None) -> tuple[Out, State]:
    """The rows of some tokens, in query's dtype, and the state after them. A checkpoint sees bare tensors alone."""
    x = Tokens(*part)
    out, state = step(*wide(x), state, erase)
    return out.to(x.query.dtype), state


def token(q: Queries, k: Keys, v: Values, b: Each, g: Each, state: State, erase: bool) -> tuple[Out, State]:
    """The definition, for one token: decay, look up what is stored under the key, write the error, read."""
    state = g.exp()[..., None] * state
    error = v - k @ state if erase else v
    state = state + k.mT @ (b[..., None] * error)
    return matmul(q, state), state


def chunk(q: Queries, k: Keys, v: Values, b: Each, g: Each, state: State, erase: bool) -> tuple[Out, State]:
    """Some tokens at once: their errors W by one triangular system, then weights within the chunk as for values W."""
    b = b[..., None]
    decay, since = weights(g), g.cumsum(-1).exp()[..., None]  # G_ij and γ_i
    w = b * (v - since * (k @ state)) if erase else b * v
    if erase:
        a = b * decay * (k @ k.mT)  # its diagonal is read as 1
        w = torch.linalg.solve_triangular(a, w, upper=False, unitriangular=True)
    scores = matmul(q, k.mT) * decay[..., None, :, :]
    out = since[..., None, :, :] * matmul(q, state) + matmul(scores, w)
    return out, since[..., -1:, :] * state + (decay[..., -1, :, None] * k).mT @ w


def weights(g: Each) -> Float[Array, "*batch Hk C C"]:
    """G_ij = a_{j+1} … a_i for j ≤ i, else 0: a sum of logarithms over (j, i], see the NumPy version."""
    below = g.new_ones((g.shape[-1],) * 2, dtype=torch.bool).tril(-1)
    return torch.where(below, g[..., :, None], 0).cumsum(-2).exp().tril()


def cut(x: Tokens, size: int) -> list[Tokens]:
    """The tokens in parts, cut at once: the gradient of a slice is as large as what it was cut from."""
    n = x.key.shape[-2]
    if n == 0:
        return []
    count = -(-n // size)
    axes = Tokens(-2, -2, -2, -1, -1, -1)
    whole = [y is None or (name == "mask" and y.shape[-1] == 1) for name, y in zip(Tokens._fields, x)]
    parts = [[y] * count if keep else y.split(size, axis) for y, keep, axis in zip(x, whole, axes)]
    return [Tokens(*part) for part in zip(*parts)]


def wide(x: Tokens) -> tuple[Queries, Keys, Values, Each, Each]:
    """Query, key, value, beta and log decay in the accumulation dtype; nothing of what the mask leaves out."""
    dtype = accumulator(x.query)
    q, k, v = (y.to(dtype) for y in x[:3])
    b = k.new_ones(k.shape[:-1]) if x.beta is None else x.beta.to(dtype)
    g = k.new_zeros(k.shape[:-1]) if x.log_decay is None else x.log_decay.to(dtype)
    if x.mask is None:
        return q, k, v, b, g
    k, v = (torch.where(x.mask[..., None], y, 0) for y in (k, v))
    return q, k, v, torch.where(x.mask, b, 0), torch.where(x.mask, g, 0)


def positive(log_decay: Float[Array, "*batch Hk N"]) -> bool:
    """Whether a decay would grow; unknown, and so no, where tensors hold no numbers to look at."""
    unknown = has_no_values(log_decay) or torch._C._are_functorch_transforms_active()
    return not unknown and bool((log_decay > 0).any())
