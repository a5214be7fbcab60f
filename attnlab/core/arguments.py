"""The checks of a call's arguments: every error names the argument, what came, and the rule.

Array-free: arrays are asked for shape, dtype and device only, so one file serves three backends.
"""

import functools
import math
import reprlib
import sys
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np

LIBRARIES = {"numpy": "NumPy", "jax": "JAX", "torch": "PyTorch"}
FLOATS = ("float16", "bfloat16", "float32", "float64")
DRAWN = {
    "numpy": "int(rng.integers(2**32))",
    "jax": 'jax.random.bits(key, (), "uint32")',
    "torch": "int(torch.randint(2**32, ()))",
}
"""A seed drawn by each library's generator."""
CONVERTS = {"numpy": "numpy.asarray", "jax": "jax.numpy.asarray", "torch": "torch.as_tensor"}

BETWEEN = {
    ("torch", "numpy"): ".detach().cpu().numpy()",
    ("torch", "jax"): "jax.numpy.from_dlpack", ("jax", "torch"): "torch.from_dlpack",
}  # fmt: skip
"""What converts an array of one library to another's, where it isn't ``CONVERTS``."""

SCALARS = {type(None), bool, int, float, str}
KNOWN = {np.ndarray: "numpy"} | dict.fromkeys((*SCALARS, tuple, list))
"""Types whose library is known, so that nobody looks twice. JAX decides for each of its tracers."""


def kind_of(x: Any) -> str | None:
    """x's library: 'numpy', 'jax', 'torch' or None. Imports none: a library that nobody imported has no arrays."""
    if type(x) in KNOWN:
        return KNOWN[type(x)]
    for kind, name in (("numpy", "ndarray"), ("jax", "Array"), ("torch", "Tensor")):
        if isinstance(x, getattr(sys.modules.get(kind), name, ())):
            return None if kind == "numpy" and isinstance(x, np.matrix | np.ma.MaskedArray) else kind
    return None


def know_torch() -> None:
    """Make PyTorch's types known; torch.compile calls this while it traces, as no table may change that it has read."""
    if hasattr(torch := sys.modules.get("torch"), "nn"):
        KNOWN.update({torch.Tensor: "torch", torch.nn.Parameter: "torch"})


know_torch._dynamo_marked_constant = True


def dtype_name(x: Any) -> str:
    """The name of x's dtype, such as 'float32', whatever the library."""
    return _dtype_name(x.dtype)


@functools.cache  # NumPy puts a name together whenever it's asked, for 3 µs
def _dtype_name(dtype: Any) -> str:
    return getattr(dtype, "name", None) or str(dtype).removeprefix("torch.")


def check_kind(name: str, x: Any, kind: str) -> None:
    """Refuse anything but an array of the library ``kind``."""
    found = kind_of(x)
    if found != kind:
        what = f"a {LIBRARIES[found]} array" if found else f"of type {type(x).__name__}"
        by = BETWEEN.get((found, kind), CONVERTS[kind])
        by = name + by if by[0] == "." else by
        way = f"; {by} converts it" if found or isinstance(x, list | tuple) else ""
        raise TypeError(f"{name} is {what}; this call takes {LIBRARIES[kind]} arrays only{way}")


def check_float(name: str, x: Any) -> str:
    """Refuse integer, boolean, complex and exotic float arrays; returns the dtype's name."""
    dtype = dtype_name(x)
    if dtype not in FLOATS:
        raise TypeError(f"{name} has dtype {dtype}; supported are {', '.join(FLOATS)}: convert it to one of them")
    return dtype


def check_arrays(kind: str, **arrays: Any) -> None:
    """Refuse arrays unless they share the library ``kind``, a supported dtype and a device."""
    dtypes: dict[str, str] = {}
    for name, x in arrays.items():
        check_kind(name, x, kind)
        dtypes[name] = check_float(name, x)
        if dtypes[name] != dtypes["query"]:
            way = f"{name}.{'to' if kind == 'torch' else 'astype'}(query.dtype)"
            raise TypeError(f"{name} has dtype {dtypes[name]}, query has {dtypes['query']}; they must be equal: {way}")
        if kind == "torch" and x is not arrays["query"]:
            check_device(name, x, arrays["query"])


def check_device(name: str, x: Any, query: Any) -> None:
    """Refuse a PyTorch tensor on another device than query's. NumPy has no devices, JAX checks its own."""
    if kind_of(x) == "torch" and x.device != query.device:
        where = f"{name} is on device {x.device}, query is on {query.device}"
        raise ValueError(f"{where}; they must be equal: {name}.to(query.device)")


def check_shapes(query: tuple[int, ...], key: tuple[int, ...], value: tuple[int, ...]) -> None:
    """Refuse shapes other than query (..., Hq, N, D), key (..., Hk, M, D) and value (..., Hk, M, Dv)."""
    for name, shape in (("query", query), ("key", key), ("value", value)):
        if len(shape) < 2:
            raise ValueError(f"{name} has shape {shape}; it needs at least 2 axes, (..., heads, length, size)")
        if len(shape) != len(query):
            raise ValueError(f"{name} has {len(shape)} axes, query has {len(query)}; they must be equal")
        if shape[:-3] != query[:-3]:
            raise ValueError(f"{name} has batch axes {shape[:-3]}, query has {query[:-3]}; they are never broadcast")
    if key[-1] != query[-1]:
        raise ValueError(f"key has size {key[-1]}, query has {query[-1]}; the last axis of both is D")
    if value[-2] != key[-2]:
        raise ValueError(f"value has length {value[-2]}, key has {key[-2]}; both are M")
    if value[:-2] != key[:-2]:
        raise ValueError(f"value has {value[-3]} heads, key has {key[-3]}; they must be equal")
    if len(query) > 2 and query[-3] and (key[-3] == 0 or query[-3] % key[-3]):
        swapped = key[-2] and not query[-2] % key[-2] and query[-3] != key[-3]
        way = "; if axes are (batch, length, heads, size), swap 1 and 2" if swapped and len(query) == 4 else ""
        heads = f"key has {key[-3]} heads, which does not divide query's {query[-3]}"
        raise ValueError(f"{heads} (GQA needs Hq % Hk == 0){way}")


def check_broadcast(name: str, shape: tuple[int, ...], target: tuple[int, ...], axes: str = "(..., Hq, N, M)") -> None:
    """Refuse a shape that doesn't broadcast to ``target``, or would enlarge it."""
    sizes = zip(shape[::-1], target[::-1], strict=False)
    if len(shape) > len(target) or any(size not in (1, full) for size, full in sizes):
        b, n, m = (target[0], *target[2:]) if len(target) == 4 else (None,) * 3
        ways = {(b, m): "marks padding, give {}[:, None, None, :]", (b, n, m): "is for all heads, give {}[:, None]"}
        way = f"; if it {ways[shape].format(name)}" if shape in ways else ""
        raise ValueError(f"{name} has shape {shape}, which does not broadcast to {axes} = {target}{way}")


def check_mask(mask: Any, query: Any, target: tuple[int, ...]) -> None:
    """Refuse a mask unless it is boolean, of query's library and device, and broadcasts to the scores."""
    check_kind("mask", mask, kind_of(query))
    if dtype_name(mask) != "bool":
        what = f"mask has dtype {dtype_name(mask)}; masks are boolean (True = attend)"
        raise TypeError(f"{what}: for 0 and 1 give mask != 0, for numbers to be added to the scores use bias")
    check_device("mask", mask, query)
    check_broadcast("mask", tuple(mask.shape), target)


def check_bias(bias: Any, query: Any, target: tuple[int, ...]) -> None:
    """Refuse a bias unless it has a float dtype and query's library and device, and broadcasts to the scores."""
    check_kind("bias", bias, kind_of(query))
    if dtype_name(bias) == "bool":
        raise TypeError("bias has dtype bool; booleans are a mask (True = attend): mask=")
    check_float("bias", bias)
    check_device("bias", bias, query)
    check_broadcast("bias", tuple(bias.shape), target)


def check_segments(segments: Any, query: Any, n: int, m: int) -> tuple[Any, Any]:
    """Returns (query_segments, key_segments); refuses all but integers of query's library, (..., N) and (..., M)."""
    pair = segments if isinstance(segments, tuple | list) else (segments, segments)
    if len(pair) != 2:
        raise ValueError(f"segments has {len(pair)} parts; it must be (query_segments, key_segments), or one array")
    if pair is not segments and n != m:
        raise ValueError(
            f"segments is one array for {n} queries and {m} keys; it must then be a pair (query_segments, key_segments)"
        )
    batch = tuple(query.shape[:-3])
    for name, x, length, axes in zip(("query_segments", "key_segments"), pair, (n, m), ("(..., N)", "(..., M)")):
        name = name if pair is segments else "segments"
        check_kind(name, x, kind_of(query))
        if not dtype_name(x).startswith(("int", "uint")):
            raise TypeError(f"{name} has dtype {dtype_name(x)}; segments are integers, equal where they may attend")
        check_device(name, x, query)
        check_broadcast(name, tuple(x.shape), (*batch, length), axes)
    return tuple(pair)


def shown(x: Any) -> str:
    """What an error says that came: short."""
    return f"a {LIBRARIES[kind]} array" if (kind := kind_of(x)) else reprlib.repr(x)


def integer(name: str, x: Any, least: int | None = None) -> int:
    """Returns x as an int; refuses all but a Python (or NumPy) integer of at least ``least``."""
    if type(x) is not int and (isinstance(x, bool) or not isinstance(x, Integral)):
        raise TypeError(f"{name} is {shown(x)}; it must be an integer")
    if least is not None and x < least:
        raise ValueError(f"{name} is {x}; it must be at least {least}")
    return int(x)


def number(name: str, x: Any) -> float:
    """Returns x as a float; refuses all but a finite Python (or NumPy) number."""
    if isinstance(x, bool) or not isinstance(x, Real):
        raise TypeError(f"{name} is {shown(x)}; it must be a number")
    if not math.isfinite(x):
        raise ValueError(f"{name} is {x}; it must be finite")
    return float(x)


def boolean(name: str, x: Any) -> bool:
    """Returns x as a bool; refuses all but True and False."""
    if not isinstance(x, (bool, np.bool_)):
        raise TypeError(f"{name} is {shown(x)}; it must be True or False")
    return bool(x)


def check_choice(name: str, x: Any, choices: Iterable[Any], error: type[Exception] = ValueError) -> Any:
    """Returns x; refuses all but one of ``choices``."""
    if kind_of(x) or x not in [*choices]:
        raise error(f"{name} is {shown(x)}; it must be one of {', '.join(map(str, choices))}")
    return x


def check_static(**options: Any) -> None:
    """Refuse an option that is an array (under ``jax.jit``, a traced one): options are Python values."""
    if {type(x) for x in options.values()} <= SCALARS:
        return
    for name, x in options.items():
        kind = kind_of(x) or (next(filter(None, map(kind_of, x)), None) if isinstance(x, tuple | list) else None)
        if kind:
            way = f"Under jax.jit, list {name!r} in static_argnames" if kind == "jax" else "Its .tolist() is one"
            way += "; a learned scale: give scale=1 and multiply query by it" if name == "scale" else ""
            raise TypeError(f"{name} is an array; options are Python values. {way}")


def check_block_mask(x: Any, n: int, m: int, block_q: int | None, block_k: int | None) -> tuple[tuple[bool, ...], ...]:
    """Returns the table of ⌈N / block_q⌉ × ⌈M / block_k⌉ booleans, which must be known before the call is traced."""
    if block_q is None or block_k is None:
        raise ValueError("block_mask is given without block_q and block_k; it needs both, as it counts in their blocks")
    try:
        table = np.asarray(x)
    except Exception:  # JAX's own error for a traced array
        raise TypeError("block_mask is traced; under jax.jit close over it: it decides what is compiled") from None
    if table.dtype != bool:
        raise TypeError(f"block_mask has dtype {table.dtype}; it must be boolean (True = attend)")
    shape = (-(-n // block_q), -(-m // block_k))
    if table.shape != shape:
        raise ValueError(f"block_mask has shape {table.shape}; {n} queries by {m} keys in these blocks need {shape}")
    return tuple(tuple(row) for row in table.tolist())


def window_sides(window: Any) -> tuple[int | None, int | None]:
    """(left, right) of ``window``: an integer w is (w, w); None or −1 on a side is unbounded."""
    if window is None:
        return None, None
    sides = (window, window) if isinstance(window, Integral) else window
    if not isinstance(sides, tuple | list):
        raise TypeError(f"window is {window!r}; it must be None, an integer or a pair (left, right)")
    if len(sides) != 2:
        raise ValueError(f"window has {len(sides)} sides; it must be a pair (left, right)")
    left, right = (None if side is None else integer("window", side) for side in sides)
    for side in (left, right):
        if side is not None and side < -1:
            raise ValueError(f"window is {side}; it must be at least -1 (to align it to the top left, give offset=0)")
    return None if left == -1 else left, None if right == -1 else right


def check_offset(offset: Any, kind: str) -> Any:
    """Returns the offset: an integer of any size or None, in JAX also a traced integer scalar."""
    found = kind_of(offset)
    if found is None:
        return offset if offset is None else integer("offset", offset)
    if not kind == found == "jax":
        raise TypeError(f"offset is a {LIBRARIES[found]} array; it must be an integer")
    if offset.shape != () or not dtype_name(offset).startswith("int"):
        raise TypeError(f"offset is a {dtype_name(offset)} array of shape {offset.shape}; it must be an int32 scalar")
    return offset


def check_dropout(p: Any, seed: Any, kind: str) -> float:
    """Returns the dropout, in [0, 1]. Above 0 it needs a seed, in JAX also a traced integer scalar."""
    p = check_probability("dropout", p)
    if seed is not None:
        check_seed(seed, kind)
    elif p > 0:
        raise ValueError(
            f"dropout is {p} but seed is None; dropout needs a seed, an integer in [0, 2**32), such as {DRAWN[kind]}"
        )
    return p


def check_probability(name: str, p: Any) -> float:
    """Returns p; refuses all but a number in [0, 1]."""
    p = number(name, p)
    if not 0 <= p <= 1:
        raise ValueError(f"{name} is {p}; it must be between 0 and 1")
    return p


def check_seed(seed: Any, kind: str) -> None:
    """Refuse all but an integer in [0, 2³²), in JAX also a scalar array of integers; an error says how to draw one."""
    found = kind_of(seed)
    if kind == found == "jax":
        if seed.shape != () or dtype_name(seed) not in ("uint32", "int32", "int64", "uint64"):
            what = f"a {dtype_name(seed)} array of shape {seed.shape}"
            raise TypeError(f"seed is {what}; it must be a uint32 scalar, such as {DRAWN[kind]}")
        return
    if found or isinstance(seed, bool) or not isinstance(seed, Integral):
        what = f"a {LIBRARIES[found]} array" if found else shown(seed)
        raise TypeError(f"seed is {what}; it must be an integer in [0, 2**32), such as {DRAWN[kind]}")
    if not 0 <= seed < 2**32:
        raise ValueError(f"seed is {seed}; it must be in [0, 2**32)")
