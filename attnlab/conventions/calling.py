"""How to call an attention function, found out by trying: whose arrays, which order of axes, which keywords."""

import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from attnlab.core.arguments import LIBRARIES, check_choice, kind_of
from attnlab.measure import GRADIENTS

import numpy as np

Array = np.ndarray
D = 8  # the size of queries, keys and values
NEAR = 5e-3  # weights that bfloat16 rounds are as far apart
LAYOUTS = ("BHND", "BNHD", "HND", "NHD", "ND")  # examples, heads, tokens, sizes; H may as well be B
AXES = dict.fromkeys(("mask", "bias"), ("BHNM", "HNM", "BNM", "NM", "BM")) | {"sink": ("H",)}  # by role
SCORES = np.random.default_rng(1).normal(size=(2, 3, 5, 5))
SHOWN = np.arange(25).reshape(5, 5) % 3 != np.arange(6).reshape(2, 3, 1, 1) % 2
ROLES: dict[str, tuple[Any, ...]] = {
    "grouped": ("enable_gqa", True),
    "seed": ("seed", 7),
    "scale": ("scale softmax_scale sm_scale scaling scale_factor", 0.5),
    "causal": ("causal is_causal use_causal_mask unidirectional", True),
    "mask": ("mask attn_mask attention_mask bias attn_bias", SHOWN),
    "bias": ("bias attn_bias attention_bias position_bias attn_mask mask attention_mask", SHOWN / 2),
    "window": ("window window_size local_window_size sliding_window sliding_window_size left_window_size", 1, (1, 1)),
    "softcap": ("softcap soft_cap logits_soft_cap logit_cap", 0.5),
    "sink": ("sinks sink s_aux", 0 * SCORES + 0.5),
    "lse": ("return_lse return_residual return_softmax_lse return_attn_probs with_lse", True),
    "dropout": ("dropout dropout_p dropout_rate", 0.5),
}
"""{role of an argument: (what libraries call it, what is tried)}."""


class Missing(Exception):
    """The function has nothing that could be asked."""


def pack(x: Array, axes: str, of: str = "BHND") -> Array:
    """``x`` with ``axes`` in that order; of an axis that isn't among them, index 0."""
    x = x[tuple(slice(None) if a in axes else 0 for a in of)]
    return np.einsum(f"{''.join(a for a in of if a in axes)}->{axes}", x)


def letters(x: Any) -> str:
    """The axes of an array that belongs to 2 examples, 3 heads and 5 tokens of size 8."""
    return "".join({2: "B", 3: "H", 5: "N", D: "D"}.get(size, "?") for size in x.shape)


def softmax(scores: Array) -> Array:
    """NaN in a row of −∞."""
    return np.exp(scores - np.logaddexp.reduce(scores, -1, keepdims=True))


def hid(visible: Array) -> Array:
    """What to add to scores."""
    return np.where(visible, 0, -np.inf)


def to_numpy(x: Any) -> Array:
    """In float64, whatever it came in."""
    return np.asarray(x.detach().double().cpu() if kind_of(x) == "torch" else x).astype(float)


def said(error: Exception) -> str:
    """The kind of an error, and the first line of its words."""
    return ": ".join([type(error).__name__, *str(error).strip().splitlines()[:1]])


@dataclass
class Call:
    """The function in one form: NumPy arrays (B, H, N, D) and roles (causal, mask, ...) in, NumPy arrays out."""

    function: Callable
    library: str
    axes: str
    device: Any
    patience: float
    out_axes: str = ""
    ways: dict[str, tuple[str, str]] = field(default_factory=dict)  # by role: a keyword, and axes if it's an array
    scale: float = 1.0  # what it multiplies by when it isn't told
    attend: bool = True  # what True in a boolean mask means

    @property
    def name(self) -> str:
        """The function's, that of what ``functools.partial`` holds, or its class's."""
        function = getattr(self.function, "func", self.function)
        return getattr(function, "__name__", type(function).__name__)

    def array(self, x: Any, axes: str, of: str = "BHND", dtype: str = "float32") -> Any:
        """A NumPy array as one of the function's library, with these axes."""
        if not isinstance(x, np.ndarray):
            return x
        x, dtype = pack(x[(None,) * (4 - x.ndim)], axes, of), "bool" if x.dtype == bool else dtype
        if self.library == "torch":
            torch = importlib.import_module("torch")
            return torch.tensor(x, dtype=getattr(torch, dtype), device=self.device)
        jax = importlib.import_module("jax") if self.library == "jax" else None
        return jax.device_put(x.astype(dtype), self.device) if jax else x.astype(dtype)

    def results(self, *qkv: Any, dtype: str = "float32", **roles: Any) -> tuple:
        """What the function returns, as a tuple of arrays of its library. The axes of a role's array end in N, M."""
        if lost := [role for role in roles if role not in self.ways]:
            raise Missing(f"no argument found for {lost[0]}")
        if len({self.ways[role][0] for role in roles}) < len(roles):
            raise Missing(f"one argument for {' and '.join(roles)}")
        roles |= {"seed": 7} if "dropout" in roles and "seed" in self.ways else {}
        options = {self.ways[x][0]: self.array(given, self.ways[x][1], "BHNM", dtype) for x, given in roles.items()}
        start = time.perf_counter()
        got = self.function(*(self.array(x, self.axes, dtype=dtype) for x in qkv), **options)
        if (took := time.perf_counter() - start) > self.patience:
            raise TimeoutError(f"a call of {self.name} took {took:.0f} s; to wait longer pass patience=")
        return tuple(got) if isinstance(got, tuple | list) else (got,)

    def __call__(self, *qkv: Array, **roles: Any) -> Array:
        """The output as (B, H, N, D): length 1 where it has no such axis."""
        there = "".join(a for a in "BHND" if a in self.out_axes)
        out = np.einsum(f"{self.out_axes}->{there}", to_numpy(self.results(*qkv, **roles)[0]))
        return np.expand_dims(out, [i for i, a in enumerate("BHND") if a not in there])

    def inputs(self, scores: Array) -> list[Array]:
        """Queries whose scores are these (..., N, M), once scaled; keys and values are rows of the unit matrix."""
        one = np.zeros((*scores.shape[:-2], 1, 1)) + np.eye(scores.shape[-1], D)
        return [scores / self.scale @ one, one, one.copy()]

    def weights(self, scores: Array, **roles: Any) -> Array:
        """The weights (N, M) that these scores get: with such values, they are the output."""
        return self(*self.inputs(scores), **roles)[0, 0, :, : scores.shape[-1]]

    def gradient(self, scores: Array, **roles: Any) -> dict[str, Array]:
        """Of the sum of the output of query 0, for query, key and value."""
        if self.library == "numpy":
            raise Missing("no gradients in NumPy")
        arrays = (self.array(x, self.axes) for x in self.inputs(scores))
        first = self.array(np.eye(len(scores), 1) + np.zeros(D), self.out_axes)
        _, *found = GRADIENTS[self.library](lambda *qkv: self.results(*qkv, **roles)[0], *arrays, first)
        return dict(zip(("query", "key", "value"), map(to_numpy, found)))

    def hide(self, **visible: Array) -> dict[str, Any]:
        """What to give by these roles so that only what's ``visible`` by each remains."""
        ways = {"mask": lambda x: x == self.attend, "bias": hid, "causal": lambda x: True}
        return {role: ways[role](x) for role, x in visible.items()}


def find_call(function: Callable, libraries: list[str], layouts: tuple[str, ...], *limits: Any) -> Call:
    """How to call it at all: query n scores 60 with one key at most n, random in each head, and 0 with the others.

    Only in the right order of axes is the output about that key's value, be the function causal or not.
    """
    random, tried, wrong = np.random.default_rng(0), dict[str, str](), list[str]()
    chosen, value = random.integers(0, np.arange(1, 6), (2, 3, 5)), random.normal(size=(2, 3, 5, D))
    query, key = 60 * np.eye(5, D)[chosen], np.zeros((2, 3, 5, D)) + np.eye(5, D)
    for call in (Call(function, library, axes, *limits) for library in libraries for axes in layouts):
        try:
            out = call.results(query, key, value)[0]
            found, call.out_axes = (to_numpy(out), letters(out)) if kind_of(out) == call.library else (out, "")
        except TimeoutError:
            raise
        except Exception as error:
            tried.setdefault(call.library, said(error))
            continue
        if not call.out_axes:
            wrong.append(f"for {LIBRARIES[call.library]} arrays it returns {type(out).__name__}")
        elif sorted(call.out_axes) != sorted(call.axes):
            wrong.append(f"for a query of shape {pack(query, call.axes).shape} it returns shape {found.shape}")
        elif not np.allclose(found, pack(np.take_along_axis(value, chosen[..., None], 2), call.out_axes), atol=0.02):
            wrong.append(f"with axes {call.axes} it returns something else than softmax(query·key)·value")
        else:
            return call
    reason = "; ".join(wrong[:1] or dict.fromkeys(tried.values()))
    advice = "wrap it as a function of query, key and value, or pass library= or axes="
    if any(word in reason.lower() for word in ("cuda", "gpu", "device")):
        advice = "pass device=, such as 'cuda'"
    raise TypeError(f"{call.name} could not be called as attention: {reason}; {advice}")


def find_ways(call: Call, names: dict[str, str]) -> None:
    """The scale, and what else can be asked: a keyword plays a role if it is accepted and changes the result.

    The scale shows in the last of four queries, which sees four keys even where the function is causal unless told.
    """
    even, uneven = (call.weights(x * np.eye(1, 4).repeat(4, 0))[3, [0, 3]] for x in (0, 1))
    if not (even * uneven > 0).all() or not np.diff(uneven).any():
        raise ValueError(f"{call.name} hides something from its last query, unless told; wrap it")
    call.scale = float(np.diff(np.log(even / uneven))[0])
    plain = call.results(*call.inputs(SCORES))
    for role in (*ROLES, *names):
        keywords, *tries = ROLES[check_choice("a role in names", role, ROLES)]
        ways = [(name, axes) for name in names.get(role, keywords).split() for axes in AXES.get(role, ("",))]
        way = next((w for rank in (2, 1) for w in ways for x in tries if effect(call, role, w, x, plain) >= rank), None)
        if way:
            call.ways[role] = way
        elif role in names:
            raise ValueError(f"names has {role}={names[role]!r}, which {call.name} refuses or ignores")
    if "mask" in call.ways:
        call.attend = not np.diff(call.weights(np.zeros((4, 4)), mask=np.arange(4) < np.full((4, 1), 3))[3])[2] > 0


def effect(call: Call, role: str, way: tuple[str, str], given: Any, plain: tuple) -> int:
    """Of a keyword: 0 if it's refused or changes nothing, 2 if it does what it should, 1 if something else."""
    call = replace(call, ways=call.ways | {role: way})
    few = [np.zeros((1, heads, 5, D)) for heads in (4, 2, 2)]
    try:
        got = call.results(*(few if role == "grouped" else call.inputs(SCORES)), **{role: given})
        out = to_numpy(got[0])
    except Exception:
        return 0
    if role in ("grouped", "seed", "lse"):
        return 2 * (role != "lse" or len(got) > len(plain))
    if np.allclose(out, to_numpy(plain[0]), atol=1e-3, equal_nan=True):
        return 0
    if role not in ("mask", "bias"):
        return 2
    x = given[tuple(slice(None if a in way[1] else 1) for a in "BHNM")]
    axes, added = call.out_axes.replace("D", "M"), [x] if role == "bias" else [hid(x), hid(~x)]
    return 1 + any(np.allclose(out[..., :5], pack(softmax(SCORES + y), axes, "BHNM"), atol=NEAR) for y in added)
