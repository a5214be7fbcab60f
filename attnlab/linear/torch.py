"""Linear attention in PyTorch; the gradient computes each chunk once more, from the state before it."""

import math
from collections.abc import Callable, Iterator

from attnlab.core.arrays.torch import Key, Keys, Out, Query, Rows, Values, accumulator, matmul
from attnlab.core.geometry import blocks
from attnlab.core.shapes import Bool, Float
from attnlab.core.torch_operator import without_autocast
from attnlab.linear import Hedgehog, LinearInputs, LinearOptions, spans
from attnlab.linear.steps import Steps, absorb, sum_keys

import torch
from torch import Tensor as Array
from torch.utils.checkpoint import checkpoint

State = tuple[Float[Array, "*batch Hk F Dv"], Float[Array, "*batch Hk F"]]
KeyMask = Bool[Array, "..."] | None


def linear_attention(options: LinearOptions, x: LinearInputs) -> tuple[Out, State]:
    """See :func:`attnlab.linear.linear_attention`. Autocast is off inside, or sums would be half precision."""
    with without_autocast(x.query):
        return _linear_attention(x.query, options, x)


def _linear_attention(query: Query, options: LinearOptions, x: LinearInputs) -> tuple[Out, State]:
    n, m = query.shape[-2], x.key.shape[-2]
    none = x.key[..., :0, :], x.value[..., :0, :], None
    state = sum_keys(*STEPS.keys(options, x.hedgehog, *none)) if x.state is None else x.state
    if options.form == "quadratic":
        q, (k, v) = STEPS.queries(options, x.hedgehog, query), STEPS.keys(options, x.hedgehog, x.key, x.value, x.mask)
        sums, state = STEPS.chunk(q, k, v, state, options.causal)
        return STEPS.divide(*sums).to(query.dtype), state

    step, size = (STEPS.token, 1) if options.form == "recurrent" else (STEPS.chunk, options.chunk)
    ahead, alone, aligned = ([b.stop - b.start for b in blocks(count, size)] for count in spans(options, n, m))
    parts = list(zip(*(cut(y, [*ahead, *aligned]) for y in (x.key, x.value)), masks(x.mask, [*ahead, *aligned])))
    arrays = (query, x.key, x.value, *state, *(x.hedgehog or ()))
    learns = torch.is_grad_enabled() and any(y.requires_grad for y in arrays)
    again = learns and options.form == "chunked"
    again = again and not torch._C._are_functorch_transforms_active()  # which know no checkpoint
    for part in parts[: len(ahead)]:
        state = absorb(state, *STEPS.keys(options, x.hedgehog, *part))

    def results() -> Iterator[Out]:
        nonlocal state
        rows = cut(query, [*alone, *aligned])
        for q in rows[: len(alone)]:
            yield STEPS.divide(*STEPS.read(STEPS.queries(options, x.hedgehog, q), state)).to(query.dtype)
        for q, part in zip(rows[len(alone) :], parts[len(ahead) :]):
            call = (step, options, q, *part, *state, *(x.hedgehog or ()))
            out, *state = checkpoint(see, *call, use_reentrant=False) if again else see(*call)
            yield out.to(query.dtype)

    if learns:
        found = list(results())
        return torch.cat(found, -2) if found else query.new_zeros((*query.shape[:-1], x.value.shape[-1])), tuple(state)
    out = query.new_empty((*query.shape[:-1], x.value.shape[-1]))
    for place, part in zip(cut(out, [*alone, *aligned]), results()):
        place.copy_(part)
    return out, tuple(state)


def see(
    step: Callable, options: LinearOptions,
    q: Rows, k: Keys, v: Values, kept: KeyMask, u: Array, z: Array, *weights: Array,
) -> tuple[Array, Array, Array]:
    """One step: the output of some queries, and the state after their keys. A checkpoint sees bare tensors alone."""
    hedgehog, state = Hedgehog(*weights) if weights else None, (u, z)
    sums, state = step(STEPS.queries(options, hedgehog, q), *STEPS.keys(options, hedgehog, k, v, kept), state)
    return STEPS.divide(*sums), *state


def cut(x: Array, sizes: list[int]) -> tuple[Array, ...]:
    """The tokens of x in parts, cut at once: the gradient of a slice is as large as what it was cut from."""
    return x.split(sizes, -2) if sizes else ()


def masks(mask: KeyMask, sizes: list[int]) -> list[KeyMask]:
    """The mask in parts; one that all keys share stays whole."""
    if mask is None or mask.shape[-1] == 1:
        return [mask] * len(sizes)
    return list(mask.split(sizes, -1)) if sizes else []


def elu(x: Float[Array, "*rows D"]) -> Float[Array, "*rows D"]:
    """elu(x) + 1: x + 1 above 0, e^x below."""
    return torch.where(x > 0, x + 1, torch.where(x > 0, 0, x).exp())  # elu(x) + 1 cancels where e^x is small


def taylor(x: Float[Array, "*rows D"]) -> Float[Array, "*rows F"]:
    """1, x and the products x_i x_j for i ≤ j, the squares divided by √2: φ(q)·φ(k) = 1 + q·k + (q·k)² / 2."""
    i, j = torch.triu_indices(x.shape[-1], x.shape[-1], device=x.device)
    factor = x.new_ones(len(i)).masked_fill(i == j, math.sqrt(0.5))
    return torch.cat([torch.ones_like(x[..., :1]), x, factor * x[..., i] * x[..., j]], -1)


def both_signs(y: Float[Array, "*rows f"]) -> Float[Array, "*rows F"]:
    """e^y and e^{−y}."""
    return torch.cat([y.exp(), (-y).exp()], -1)


FEATURES = {"elu": elu, "relu": torch.relu, "taylor": taylor, "exp": torch.exp}
STEPS = Steps(matmul, torch.tril, torch.where, lambda x: x.to(accumulator(x)), FEATURES, both_signs)


def hedgehog_loss(query: Query, key: Key, hedgehog: Hedgehog, causal: bool) -> Array:
    """See :func:`attnlab.linear.hedgehog_loss`."""
    (n, d), m = query.shape[-2:], key.shape[-2]
    q, k = query.to(accumulator(query)), key.to(accumulator(key))
    visible = torch.ones(n, m, dtype=torch.bool, device=q.device).tril(m - n if causal else m)
    rows = slice(max(n - m, 0) if causal and m else n * (m == 0), None)  # those before see no key
    s = torch.where(visible, matmul(q, k.mT) / math.sqrt(d), -math.inf)[..., rows, :]
    options = LinearOptions("quadratic", causal, 1.0, 1, "hedgehog")
    phi_q, phi_k = (phi(y) for phi, y in zip(STEPS.maps(options, hedgehog), (q, k)))
    a = torch.where(visible, matmul(phi_q, phi_k.mT), 0)[..., rows, :]
    log_a = torch.where(visible[rows], a, 1).log() - a.sum(-1, keepdim=True).log()
    return -(s.softmax(-1) * log_a).sum(-1).mean()
