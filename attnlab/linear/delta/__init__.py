"""The delta rule: a linear state that forgets by a gate and overwrites what a key held before.

    S_t = a_t (I − b_t k_t k_tᵀ) S_{t−1} + b_t k_t v_tᵀ,   out_t = q_t S_t

Read it as error correction: decay the state, look up what it has stored under k, and write b times the difference to v.
Unrolled, S_i = γ_i S_0 + Σ_{j≤i} G_ij k_j w_jᵀ with γ_i = a_1…a_i, G_ij = a_{j+1}…a_i and the errors
w_i = b_i (v_i − a_i k_i S_{i−1}). Inserted into one another they are one triangular system,

    (I + A) W = b ∘ (V − γ ∘ K S_0),   A_ij = b_i G_ij k_i·k_j for j < i,

and with W known the rest is linear attention's chunk, W in place of V. The quadratic form is one chunk of all tokens.
With a = b = 1 and nothing erased this is linear attention's numerator; a constant a gives RetNet, a gate of the token
Mamba-2; erasing alone DeltaNet, with a gate Gated DeltaNet.
"""

from typing import Any, Literal, NamedTuple, TypedDict, Unpack, get_args, overload

from attnlab.core.arguments import (
    boolean, check_choice, check_device, check_float, check_kind, check_mask, dtype_name, integer, kind_of,
)
from attnlab.core.bundle import group
from attnlab.core.dispatch import backend, in_autocast
from attnlab.core.signature import Array

__all__ = ["FORMS", "delta_attention"]

Form = Literal["chunked", "recurrent", "quadratic"]
FORMS = get_args(Form)
CHUNK = 64


class Rule(NamedTuple):
    """What a call asks for besides arrays: hashable, static in JAX."""

    form: str
    erase: bool
    chunk: int

    def steps(self, n: int) -> int:
        """How many of ``n`` tokens are taken at once."""
        return {"recurrent": 1, "quadratic": max(n, 1), "chunked": self.chunk}[self.form]


class Tokens(NamedTuple):
    """The arrays of a call, heads grouped, or some tokens of them.

    query (*batch, Hk, G, N, F), key (*batch, Hk, N, F), value (*batch, Hk, N, Dv); beta, log_decay and mask
    (*batch, Hk, N) or None. A mask may have axes of size 1.
    """

    query: Any
    key: Any
    value: Any
    beta: Any
    log_decay: Any
    mask: Any


class _DeltaKeywords(TypedDict, total=False):
    beta: Any
    log_decay: Any
    erase: bool
    mask: Any
    form: Form
    chunk_size: int | None
    state: Any


@overload
def delta_attention(
    query: Array, key: Array, value: Array, *, return_state: Literal[False] = False, **options: Unpack[_DeltaKeywords]
) -> Array: ...
@overload
def delta_attention(
    query: Array, key: Array, value: Array, *, return_state: Literal[True], **options: Unpack[_DeltaKeywords]
) -> tuple[Array, Array]: ...
def delta_attention(
    query: Any, key: Any, value: Any, *, beta: Any = None, log_decay: Any = None, erase: bool = True, mask: Any = None,
    form: Form = "chunked", chunk_size: int | None = None, state: Any = None, return_state: bool = False,
) -> Any:
    """Causal linear attention whose state forgets (a gate) and overwrites (the delta rule), in linear time.

    ``query`` (..., Hq, N, F), ``key`` (..., Hk, N, F), ``value`` (..., Hk, N, Dv), grouped as in every attention
    function: a group's queries read one state. ``beta`` (..., Hk, N), 1 by default: how much of the error is written;
    not bounded, and stable for 0 ≤ beta ≤ 2 with keys of length 1. ``log_decay`` (..., Hk, N), the logarithm of a_t,
    0 by default, at most 0; −∞ forgets everything (documents in a row). ``erase=False`` adds without looking up, as
    linear attention does. ``mask``: boolean, broadcasting to (..., Hk, 1, N), True = the token takes part; others leave
    the state alone and may hold NaN. No feature map, scale or normalization: the caller maps, commonly
    ``k = silu(k); k = k / norm(k)``. ``form``: "chunked" (``chunk_size`` tokens at a time, 64 by default), "recurrent"
    or "quadratic"; they agree. ``state`` (..., Hk, F, Dv), in float32 (float64 for float64 input), of earlier tokens.
    Calls on the parts of a sequence, each with the state of the one before, give the rows of one call.

    Returns out (..., Hq, N, Dv) in query's dtype, or (out, state) with ``return_state``. Differentiable in JAX and
    PyTorch, in reverse mode (parametrize log_decay, as −softplus: through a.log() the gradient at a = 0 is NaN).
    Extra memory of the chunked form with C tokens, a head: 2C² + C(F + 2Dv) + 2F·Dv numbers, whatever N; the gradient
    adds the N / C states of the chunks and as much as the inputs have. The quadratic form holds N² numbers, twice.
    Raises TypeError or ValueError, naming the argument.
    Source: Schlag et al. 2021, "Linear Transformers Are Secretly Fast Weight Programmers"; the triangular system as in
    Yang et al. 2024, "Parallelizing Linear Transformers with the Delta Rule", the gate as in "Gated Delta Networks".
    """
    module = backend("query", query, __name__)
    query, key, value = in_autocast(query, key, value)
    q, k, v = group(query, key, value)
    (*heads, _, n, f), dv = q.shape, v.shape[-1]
    heads = tuple(heads)
    if k.shape[-2] != n:
        raise ValueError(f"key has length {k.shape[-2]}, query has {n}; they must be equal: a token writes, then reads")
    front = tuple(value.shape[:-2])
    beta = _per_token("beta", beta, query, front, heads, n)
    log_decay = _per_token("log_decay", log_decay, query, front, heads, n)
    if log_decay is not None and module.positive(log_decay):
        raise ValueError("log_decay has a value above 0; it is the logarithm of a decay in [0, 1]")
    if mask is not None:
        check_mask(mask, query, (*front, 1, n))
        mask = mask.reshape((1,) * (len(heads) + 2 - mask.ndim) + tuple(mask.shape))[..., 0, :]
    state = state if state is None else _grouped(state, query, front, heads, (f, dv))
    chunk = CHUNK if chunk_size is None else integer("chunk_size", chunk_size, 1)
    rule = Rule(check_choice("form", form, FORMS), boolean("erase", erase), chunk)
    out, state = module.delta_attention(rule, Tokens(q, k, v, beta, log_decay, mask), state)
    out = out.reshape((*query.shape[:-1], dv))
    return (out, state.reshape((*front, f, dv))) if return_state else out


def _per_token(name: str, x: Any, query: Any, front: tuple[int, ...], heads: tuple[int, ...], n: int) -> Any:
    """A number per token and key head, heads grouped."""
    if x is None:
        return None
    check_kind(name, x, kind_of(query))
    check_float(name, x)
    check_device(name, x, query)
    if tuple(x.shape) != (*front, n):
        raise ValueError(f"{name} has shape {tuple(x.shape)}; it must be (..., Hk, N) = {(*front, n)}")
    return x.reshape((*heads, n))


def _grouped(state: Any, query: Any, front: tuple[int, ...], heads: tuple[int, ...], size: tuple[int, int]) -> Any:
    """The state that came in, heads grouped."""
    check_kind("state", state, kind_of(query))
    check_device("state", state, query)
    wide = "float64" if dtype_name(query) == "float64" else "float32"
    if dtype_name(state) != wide:
        raise TypeError(f"state has dtype {dtype_name(state)}; with this query it must be {wide}")
    if tuple(state.shape) != (*front, *size):
        raise ValueError(f"state has shape {tuple(state.shape)}; it must be (..., Hk, F, Dv) = {(*front, *size)}")
    return state.reshape((*heads, *size))
