"""Frequencies for texts longer than those of the training. Array-free.

    linear    f / s
    llama3    f where old · f is above high, f / s where it is below low, between them a blend, linear in old · f
    yarn      f for the first dimensions, f / s for the last, between them a blend, linear in the dimension
    longrope  f / a number for each dimension, of one list up to old tokens, of another beyond
    dynamic   those of the base times (s · n / old − (s − 1))^{D / (D − 2)} for a text of n > old tokens, else f

f in turns a token, s the factor, old the length of text of the training: old · f turns are made in it.
"""

import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from attnlab.core.arguments import boolean, integer, number

PI = Decimal("3.14159265358979323846264338327950288419716939937510582")
OLD = "original_max_position_embeddings"
NEEDED = {"default": (), "linear": ("factor",), "yarn": ("factor", OLD)}
NEEDED["llama3"] = ("factor", "low_freq_factor", "high_freq_factor", OLD)
NEEDED |= {"longrope": ("short_factor", "long_factor", OLD), "dynamic": ("factor", OLD)}
OPTIONAL = {"yarn": ("beta_fast", "beta_slow", "truncate", "attention_factor", "mscale", "mscale_all_dim")}
OPTIONAL |= {"longrope": ("factor", "attention_factor", "length"), "dynamic": ("length",)}


class Kind(NamedTuple):
    """How a vector is turned; hashable, static in JAX. ``scaling``: items of a checked scaling. ``size``: rotated."""

    base: float
    scaling: tuple[tuple[str, Any], ...]
    size: int
    interleaved: bool = False


def check_scaling(scaling: Any, size: int) -> tuple[tuple[str, Any], ...]:
    """The numbers of a scaling by name; all that it needs for ``size``, and nothing that would be ignored."""
    if scaling is None:
        return (("rope_type", "default"),)
    if not isinstance(scaling, Mapping):
        raise TypeError(f"scaling is {scaling!r}; it must be a dictionary, as rope_scaling in a model's config.json")
    kind = scaling.get("rope_type", scaling.get("type"))
    if kind not in NEEDED:
        raise ValueError(f"scaling has rope_type {kind!r}; it must be one of {', '.join(NEEDED)}")
    given = {name: x for name, x in scaling.items() if name not in ("rope_type", "type") and x is not None}
    lacking = [name for name in NEEDED[kind] if name not in given]
    if lacking:
        raise ValueError(f"scaling lacks {lacking[0]!r}, which {kind!r} needs")
    for name, x in given.items():
        if name not in (*NEEDED[kind], *OPTIONAL.get(kind, ())):
            advice = {"rope_theta": ": give base", "partial_rotary_factor": ": give size"}.get(name, "")
            raise ValueError(f"scaling has {name!r}, which {kind!r} does not take{advice}")
        given[name] = _checked(name, x, size)
    if kind == "llama3" and not given["low_freq_factor"] < given["high_freq_factor"]:
        low, high = given["low_freq_factor"], given["high_freq_factor"]
        raise ValueError(f"scaling has low_freq_factor {low} and high_freq_factor {high}; the second must be larger")
    if kind == "longrope" and not given.keys() & {"factor", "attention_factor"}:
        raise ValueError(f"scaling lacks 'factor', which 'longrope' needs: max_position_embeddings / {OLD}")
    return (("rope_type", kind), *sorted(given.items()))


def _checked(name: str, x: Any, size: int) -> Any:
    if name == "truncate":
        return boolean("scaling['truncate']", x)
    if name == "length":
        return integer("scaling['length']", x, 1)
    several = name in ("short_factor", "long_factor")
    if several and (not isinstance(x, list | tuple) or len(x) != size // 2):
        raise ValueError(f"scaling[{name!r}] is {x!r}; it must be a list of {size // 2} numbers, one for each pair")
    numbers = tuple(number(f"scaling[{name!r}]", y) for y in (x if several else [x]))
    if min(numbers) <= 0:
        raise ValueError(f"scaling[{name!r}] is {x}; it must be positive")
    return numbers if several else numbers[0]


def at_length(scaling: tuple[tuple[str, Any], ...], length: Callable[[], int]) -> tuple[tuple[str, Any], ...]:
    """The scaling for one text: its own ``length``, or as many tokens as ``length`` tells, where they matter."""
    given = dict(scaling)
    if given["rope_type"] not in ("longrope", "dynamic"):
        return scaling
    tokens = max(given.pop("length", None) or length(), given[OLD])
    if given["rope_type"] == "dynamic":
        return (*given.items(), ("length", tokens))
    short, long = given.pop("short_factor"), given.pop("long_factor")
    return (*given.items(), ("factors", long if tokens > given[OLD] else short))


def scaled(turns: list[Decimal], kind: Kind) -> list[Decimal]:
    """The frequencies, in turns a token, as the scaling changes them."""
    given = dict(kind.scaling)
    rule = given["rope_type"]
    if rule == "default":
        return turns
    if rule == "longrope":
        return [f / Decimal(factor) for f, factor in zip(turns, given["factors"])]
    factor = Decimal(given["factor"])
    if rule == "dynamic":
        growth = factor * Decimal(given["length"] / given[OLD]) - (factor - 1)
        return [f * growth ** (Decimal(-2 * k) / max(kind.size - 2, 1)) for k, f in enumerate(turns)]
    if rule == "linear":
        return [f / factor for f in turns]
    kept = _kept_by_llama(turns, given) if rule == "llama3" else _kept_by_yarn(kind, given)
    return [keep * f + (1 - keep) * f / factor for f, keep in zip(turns, kept)]


def _kept_by_llama(turns: list[Decimal], given: dict[str, Any]) -> list[Decimal]:
    """How much of each frequency stays: all where many turns are made in the old length, nothing where few are."""
    low, high, old = (Decimal(given[name]) for name in ("low_freq_factor", "high_freq_factor", OLD))
    return [min(max((old * f - low) / (high - low), Decimal(0)), Decimal(1)) for f in turns]


def _kept_by_yarn(kind: Kind, given: dict[str, Any]) -> list[Decimal]:
    """How much of each frequency stays: a ramp from the dimension of ``beta_fast`` turns to that of ``beta_slow``."""

    def dimension(name: str, turns: int) -> float:
        turns = given.get(name, turns)
        return kind.size * math.log(given[OLD] / (turns * 2 * math.pi)) / (2 * math.log(kind.base))

    first, last = dimension("beta_fast", 32), dimension("beta_slow", 1)
    if given.get("truncate", True):
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, kind.size - 1)
    width = last - first or 0.001  # as in the reference, where both are one dimension
    return [1 - Decimal(min(max((k - first) / width, 0), 1)) for k in range(kind.size // 2)]


def magnitude(kind: Kind) -> float:
    """What the result is multiplied by: YaRN's or LongRoPE's attention factor, 1 for the others."""
    given = dict(kind.scaling)
    if given["rope_type"] not in ("yarn", "longrope"):
        return 1.0
    if "attention_factor" in given:
        return given["attention_factor"]
    growth = math.log(max(given["factor"], 1))
    if given["rope_type"] == "longrope":
        return math.sqrt(1 + growth / math.log(given[OLD]))
    if "mscale" in given and "mscale_all_dim" in given:
        return (0.1 * given["mscale"] * growth + 1) / (0.1 * given["mscale_all_dim"] * growth + 1)
    return 0.1 * growth + 1
