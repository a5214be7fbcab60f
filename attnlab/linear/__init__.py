"""Linear attention: weights that are products of features, so that sums over keys can be taken before the query comes.

    a_ij = φ(q_i)·φ(k_j),   out_i = Σ_j a_ij v_j / Σ_j a_ij = φ(q_i) U / φ(q_i)·Z,   U = Σ φ(k_j) v_jᵀ,  Z = Σ φ(k_j)

Where softmax attention folds (m, l, o) by ⊕, linear attention adds: the state (U, Z) has a fixed size, F·(Dv + 1)
numbers for F features, and takes one more key by a sum. Causal attention reads the state of the keys so far. Three
forms compute the same: quadratic (all weights), recurrent (a token at a time), chunked (weights within a chunk, the
state for what came before). Derived in notebooks 17 and 18.
"""

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypedDict, Unpack, overload

from attnlab.core.arguments import (
    boolean, check_arrays, check_broadcast, check_choice, check_device, check_kind, dtype_name, integer, kind_of,
    number,
)
from attnlab.core.bundle import group
from attnlab.core.dispatch import backend, in_autocast
from attnlab.core.other_names import errors_end_at_calls
from attnlab.core.signature import Array
from attnlab.linear.delta import FORMS, Form, delta_attention

__all__ = ["FEATURES", "FORMS", "Hedgehog", "delta_attention", "feature_count", "hedgehog_loss", "linear_attention"]

Name = Literal["elu", "relu", "taylor", "exp"]
FEATURES: dict[Name, Callable[[int], int]] = {
    "elu": lambda d: d,
    "relu": lambda d: d,
    "taylor": lambda d: 1 + d + d * (d + 1) // 2,
    "exp": lambda d: d,
}
"""The named feature maps and how many features they make of a head of size d.

elu: elu(x) + 1. relu: max(x, 0). taylor: 1, x and the products x_i x_j, i ≤ j, so that the weight is 1 + s + s²/2 with
s = scale · q·k. exp: e^x. Each acts on queries and keys alike.
"""


class Hedgehog(NamedTuple):
    """A learned feature map: e^{xW} and e^{−xW}, with weights of their own for queries and for keys.

    ``query``: (Hq, D, F / 2), ``key``: (Hk, D, F / 2), arrays of one library and of the dtype of the inputs. A pytree
    in JAX; differentiable in JAX and PyTorch. Exponentials are not guarded: they hold while |xW| < 88.7 in float32.
    Source: Zhang et al. 2024, "The Hedgehog & the Porcupine", section 4.2 (without its bias).
    """

    query: Any
    key: Any


Features = Name | Hedgehog | Callable[[Any], Any] | tuple[Callable[[Any], Any], Callable[[Any], Any]]


class LinearOptions(NamedTuple):
    """What a call asks for besides arrays: hashable, static in JAX."""

    form: str
    causal: bool
    scale: float
    chunk: int
    features: Any  # a name, "hedgehog", or a pair of functions


class LinearInputs(NamedTuple):
    """The arrays of a call with heads grouped: query (*batch, Hk, G, N, D), key (*batch, Hk, M, D), state (U, Z)."""

    query: Any
    key: Any
    value: Any
    mask: Any
    state: tuple[Any, Any] | None
    hedgehog: Hedgehog | None


class _LinearKeywords(TypedDict, total=False):
    features: Features
    causal: bool
    mask: Any
    scale: float | None
    form: Form
    chunk_size: int | None
    state: tuple[Any, Any] | None


@overload
def linear_attention(
    query: Array, key: Array, value: Array, *, return_state: Literal[False] = False, **options: Unpack[_LinearKeywords]
) -> Array: ...
@overload
def linear_attention(
    query: Array, key: Array, value: Array, *, return_state: Literal[True], **options: Unpack[_LinearKeywords]
) -> tuple[Array, tuple[Array, Array]]: ...
def linear_attention(
    query: Any, key: Any, value: Any, *, features: Features = "elu", causal: bool = False, mask: Any = None,
    scale: float | None = None, form: Form = "chunked", chunk_size: int | None = None,
    state: tuple[Any, Any] | None = None, return_state: bool = False,
) -> Any:
    """Attention with weights φ(q)·φ(k) in place of e^{q·k}: time linear in length, a state of fixed size.

    ``query`` (..., Hq, N, D), ``key`` (..., Hk, M, D), ``value`` (..., Hk, M, Dv), grouped as in every attention
    function. ``features``: a name of ``FEATURES``; a function of an array whose last axis is the head, or a pair of
    them (query's, key's), applied chunk by chunk, so each token must be mapped by itself (NumPy tries two tokens and
    refuses what mixes them; JAX and PyTorch cannot tell), and nowhere negative, or the weights may sum to almost 0; or
    a :class:`Hedgehog`.
    ``causal`` is aligned to the bottom right. ``mask``: boolean, broadcasting to (..., Hk, 1, M), True = the key takes
    part; others may hold NaN. ``scale`` multiplies the query and belongs to "taylor", 1 / sqrt(D) by default.
    ``form``: "chunked" (``chunk_size`` tokens at a time, 128 by default), "recurrent" or "quadratic"; they agree.
    ``state``: (U (..., Hk, F, Dv), Z (..., Hk, F)) of earlier keys, which every query sees. Causal calls on the parts
    of a sequence, each with N = M and with the state of the one before, give the rows of one call over all of it.

    Returns out (..., Hq, N, Dv) in query's dtype, or (out, state) with ``return_state``, the state in float32 (float64
    for float64 input). A query whose weights sum to 0, or are all too small for that dtype, gives 0 and no gradient.
    Features are not shifted: with "exp" and Hedgehog the result is right while features and their sums are finite.
    Differentiable in JAX and PyTorch, in reverse mode. A function given as ``features`` is static in JAX, so hand over
    the same one at each call; in PyTorch the gradient of the chunked form calls it again, so don't change in place
    before that what the function reads: nothing would notice. In jax.export N = M may be a symbol; torch.compile
    unrolls the chunks, or the tokens of the recurrent form.
    Extra memory of the chunked form with C tokens, a head: C² + 2CF + F(Dv + 1) numbers, whatever N and M; the gradient
    adds the N / C states of the chunks and as much as query, key and value have. The quadratic form holds N·M.
    Raises TypeError or ValueError, naming the argument.
    Source: Katharopoulos et al. 2020, "Transformers are RNNs"; the chunks as in Yang et al. 2024, section 2.
    """
    module = backend("query", query, __name__)
    query, key, value = in_autocast(query, key, value)
    features = Hedgehog(*in_autocast(*features)) if isinstance(features, Hedgehog) else features
    q, k, v = group(query, key, value)
    (*batch, hk, _, _, d), (m, dv) = q.shape, v.shape[-2:]
    name, hedgehog = _features(features, q, query)
    chunk = 128 if chunk_size is None else integer("chunk_size", chunk_size, 1)
    check_choice("form", form, FORMS)
    if scale is not None and name != "taylor":
        raise ValueError(f"scale is {scale}, and it belongs to features='taylor' only; otherwise multiply query by it")
    scale = number("scale", scale) if scale is not None else 1 / math.sqrt(max(d, 1)) if name == "taylor" else 1.0
    options = LinearOptions(form, boolean("causal", causal), scale, chunk, name)
    mask = mask if mask is None else _grouped_mask(mask, query, (*batch, hk, 1, m))
    front = tuple(value.shape[:-2])
    if state is not None:
        steps = getattr(module, "STEPS", module)  # JAX has functions of its own
        count = steps.keys(options, hedgehog, k[..., :0, :], v[..., :0, :], None)[0].shape[-1]
        state = _grouped_state(state, query, front, (*batch, hk), dv, count)
    out, (u, z) = module.linear_attention(options, LinearInputs(q, k, v, mask, state, hedgehog))
    out = out.reshape((*query.shape[:-1], dv))
    return (out, (u.reshape((*front, *u.shape[-2:])), z.reshape((*front, z.shape[-1])))) if return_state else out


def hedgehog_loss(query: Array, key: Array, hedgehog: Hedgehog, *, causal: bool = False) -> Array:
    """Cross-entropy between softmax attention's weights and those of a Hedgehog map: what distillation minimizes.

    ``query`` (..., Hq, N, D), ``key`` (..., Hk, M, D). Returns the mean of −Σ_j p_ij log a_ij over all queries that see
    a key, a scalar: p are the weights of softmax attention with scale 1 / sqrt(D), a those of ``hedgehog``, both over
    the visible keys (``causal`` as everywhere). Differentiable in JAX and PyTorch. At least the entropy of p. Extra
    memory: a few arrays of N·M numbers a head. Source: Zhang et al. 2024, section 4.2.
    """
    module = backend("query", query, __name__)
    if not isinstance(hedgehog, Hedgehog):
        raise TypeError(f"hedgehog is of type {type(hedgehog).__name__}; it must be a Hedgehog(query, key)")
    q, k, _ = group(query, key, key)
    return module.hedgehog_loss(q, k, _features(hedgehog, q, query)[1], boolean("causal", causal))


def feature_count(features: Features, d: int) -> int:
    """F, the features that a map makes of a head of size ``d``: the rows of U and the length of Z."""
    if isinstance(features, Hedgehog):
        return 2 * features.key.shape[-1]
    if features not in FEATURES:
        raise ValueError(f"features is {features!r}; counts are known of {', '.join(FEATURES)} and Hedgehog")
    return FEATURES[features](d)


def spans(options: LinearOptions, n: int, m: int) -> tuple[int, int, int]:
    """(keys to absorb first, queries that then see the state alone, tokens where a query stands over a key).

    Not causal: all keys, then all queries. Causal: if M > N, the first M − N keys precede all queries; if N > M, the
    first N − M queries see none; the rest is aligned.
    """
    return (max(m - n, 0), max(n - m, 0), min(n, m)) if options.causal else (m, n, 0)


def _features(features: Any, grouped: Any, query: Any) -> tuple[Any, Hedgehog | None]:
    if isinstance(features, Hedgehog):
        *_, hk, g, _, d = grouped.shape
        check_arrays(kind_of(query), query=query, **{"features.query": features.query, "features.key": features.key})
        for name, x, heads in (("query", features.query, hk * g), ("key", features.key, hk)):
            if x.ndim != 3 or tuple(x.shape[:2]) != (heads, d) or x.shape[-1] != features.key.shape[-1]:
                raise ValueError(f"features.{name} has shape {tuple(x.shape)}; it must be ({heads}, {d}, F / 2)")
        return "hedgehog", features._replace(query=features.query.reshape((hk, g, d, -1)))
    if isinstance(features, str):
        if features not in FEATURES:
            raise ValueError(f"features is {features!r}; it must be one of {', '.join(FEATURES)}, a function or a pair")
        return features, None
    pair = features if isinstance(features, tuple) and len(features) == 2 else (features, features)
    if not all(callable(f) for f in pair):
        given = f"a tuple of {', '.join(type(f).__name__ for f in pair)}" if pair is features else repr(features)
        kinds = "a name, a function, a pair of functions or a Hedgehog: Hedgehog(query, key)"
        raise TypeError(f"features is {given}; it must be {kinds}")
    return pair, None


def _grouped_mask(mask: Any, query: Any, target: tuple[int, ...]) -> Any:
    check_kind("mask", mask, kind_of(query))
    if dtype_name(mask) != "bool":
        raise TypeError(f"mask has dtype {dtype_name(mask)}; it must be boolean (True = the key takes part)")
    check_device("mask", mask, query)
    shape = tuple(mask.shape)
    check_broadcast("mask", shape, target, "(..., Hk, 1, M)")
    shape = (1,) * (len(target) - len(shape)) + shape
    return mask.reshape((*shape[:-2], shape[-1]))


def _grouped_state(
    state: Any, query: Any, front: tuple[int, ...], heads: tuple[int, ...], dv: int, count: int
) -> tuple[Any, Any]:
    if not isinstance(state, tuple | list) or len(state) != 2:
        raise TypeError("state must be a pair (U, Z), as return_state=True gives it")
    wide = "float64" if dtype_name(query) == "float64" else "float32"
    u, z = state
    for name, x in (("state[0]", u), ("state[1]", z)):
        check_kind(name, x, kind_of(query))
        check_device(name, x, query)
        if dtype_name(x) != wide:
            raise TypeError(f"{name} has dtype {dtype_name(x)}; with this query it must be {wide}")
    f = z.shape[-1] if z.ndim else 0
    if tuple(u.shape) != (*front, f, dv) or tuple(z.shape) != (*front, f):
        raise ValueError(f"state has shapes {tuple(u.shape)} and {tuple(z.shape)}; it must be (..., Hk, F, Dv) and "
                         f"(..., Hk, F) with (..., Hk) = {front} and Dv = {dv}")  # fmt: skip
    if count != f:
        raise ValueError(f"state has {f} features, and features makes {count} of a head of this size")
    return u.reshape((*heads, f, dv)), z.reshape((*heads, f))


errors_end_at_calls(__name__)
