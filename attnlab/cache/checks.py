"""The checks of a cache's arguments: every error names the argument, what came, and the rule. Array-free."""

from collections.abc import Iterable
from typing import Any

from attnlab.core.arguments import FLOATS, check_device, check_float, check_kind, dtype_name, number
from attnlab.core.bundle import Inputs
from attnlab.core.dispatch import library_of


def check_kept(key: Any, value: Any, dtype: Any) -> str:
    """Refuse keys and values that don't belong together. Returns the name of the dtype in which they're kept."""
    check_kind("value", value, library_of("key", key))
    for name, x in (("key", key), ("value", value)):
        check_float(name, x)
        if x.ndim < 2:
            raise ValueError(f"{name} has shape {tuple(x.shape)}; it needs at least 2 axes, (..., heads, length, size)")
    if dtype_name(value) != dtype_name(key):
        raise TypeError(f"value has dtype {dtype_name(value)}, key has {dtype_name(key)}; they must be equal")
    if value.shape[:-1] != key.shape[:-1]:
        raise ValueError(f"value has shape {tuple(value.shape)}, key {tuple(key.shape)}; only the last axis may differ")
    name = dtype_name(key) if dtype is None else getattr(dtype, "__name__", str(dtype)).removeprefix("torch.")
    if name not in FLOATS:
        raise TypeError(f"dtype is {dtype!r}; supported are {', '.join(FLOATS)}")
    if (name == "float64") != (dtype_name(key) == "float64"):
        raise TypeError(f"dtype is {name}, key has {dtype_name(key)}; float64 is kept as float64, and nothing else is")
    return name


def check_latent(key: Any, latent: int) -> None:
    """Refuse a latent size that no key has."""
    library_of("key", key)
    if key.ndim < 2 or latent > key.shape[-1]:
        raise ValueError(f"value is {latent}, and key has shape {tuple(key.shape)}: no key has so many numbers")


def value_of(latent: int | None, key: Any, value: Any) -> Any:
    """The values of a call: those given, or in a latent cache the front of the keys."""
    if latent is None:
        return value
    if value is not None:
        raise ValueError(f"value must be None: this cache was made for values that are the first {latent} of the key")
    library_of("key", key)
    return key[..., :latent]


def check_rotation(key: Any, rotary: Any, sink_positions: Any) -> None:
    """Refuse a base that isn't positive, an odd D, and "cache" positions without a base."""
    if sink_positions not in ("text", "cache"):
        raise ValueError(f"sink_positions is {sink_positions!r}; it must be 'text' or 'cache'")
    if rotary is None and sink_positions == "cache":
        raise ValueError("sink_positions is 'cache' without rotary; keys that come rotated have their positions")
    if rotary is not None and number("rotary", rotary) <= 0:
        raise ValueError(f"rotary is {rotary}; it is the base of the angles and must be positive")
    if rotary is not None and key.shape[-1] % 2:
        raise ValueError(f"key has size {key.shape[-1]}; with rotary the last axis D must be even")


def check_tokens(cache: Any, x: Inputs) -> None:
    """Refuse tokens unless there are as many queries as keys, at least one, and they fit the cache's arrays."""
    check_kind("query", x.query, library_of("the array of the cache's keys", cache.keys))
    check_device("the cache", cache.keys, x.query)
    values = cache.keys[..., : x.value.shape[-1]] if cache.values is None else cache.values
    slots = cache.keys.shape[-2], values.shape[-2]
    if slots[0] != slots[1]:
        raise ValueError(f"the cache has {slots[0]} slots for keys and {slots[1]} for values; they must be equal")
    count = x.key.shape[-2]
    if count < 1 or x.query.shape[-2] != count:
        raise ValueError(f"query has {x.query.shape[-2]} tokens, key has {count}; they must be equal, and at least 1")
    for name, new, kept in (("key", x.key, cache.keys), ("value", x.value, values)):
        came, holds = ((*y.shape[:-2], y.shape[-1]) for y in (new, kept))
        if came != holds:
            raise ValueError(f"{name} has batch, heads and size {came}; the cache was made for {holds}")
    mine, kept = dtype_name(x.query), dtype_name(cache.keys)
    if (mine == "float64") != (kept == "float64"):
        raise TypeError(f"query has dtype {mine}, the cache {kept}; float64 goes with float64, and with nothing else")


def check_capacity(length: int, count: int, capacity: int) -> None:
    """Refuse tokens that don't fit."""
    if length + count > capacity:
        full = f"the cache is full: it holds {length} of {capacity} tokens, and key brings {count} more"
        raise ValueError(f"{full}; make it with capacity={length + count} or more")


def check_rows(keys: Any, rows: Any, name: str = "rows") -> None:
    """Refuse rows unless they are one axis of integers, and the keys have a batch axis."""
    if keys.ndim < 4:
        raise ValueError(f"keys has shape {tuple(keys.shape)}; for {name} it needs a batch axis before its heads")
    if rows.ndim != 1 or not (dtype_name(rows).startswith(("int", "uint")) or rows.shape == (0,)):
        raise TypeError(f"{name} is {dtype_name(rows)} of shape {tuple(rows.shape)}; it must be (B,) integers")


def check_lengths(keys: Any, lengths: Any) -> None:
    """Refuse lengths unless there is one integer for each row of the first batch axis."""
    check_rows(keys, lengths, "lengths")
    if lengths.shape[0] != keys.shape[0]:
        raise ValueError(f"lengths has {lengths.shape[0]} numbers; the cache has {keys.shape[0]} rows")


def check_known_lengths(lengths: Iterable[int], now: int, count: int, capacity: int) -> None:
    """Refuse a row that is longer than the cache, or whose new tokens don't fit; ``lengths`` are known numbers."""
    for b, length in enumerate(lengths):
        if not 0 <= length <= now:
            raise ValueError(f"lengths[{b}] is {length}; the cache holds {now} tokens, so it must be in 0 … {now}")
        check_capacity(length, count, capacity)


def check_known_rows(rows: Any, batch: int) -> None:
    """Refuse a row that doesn't exist; ``rows`` are known numbers."""
    for row in rows:
        if not 0 <= row < batch:
            raise ValueError(f"rows has {row}; there are {batch} rows, counted from 0")


def check_length(length: int, now: int) -> None:
    """Refuse to cut a cache to a length that it doesn't have."""
    if length > now:
        raise ValueError(f"length is {length}; the cache holds {now} tokens, and cannot be cut to more")
