"""What each cut of a cache costs a trained model: fewer bits, fewer keys, fewer layers with all keys.

    python -m attnlab_course.lessons.lesson24.cuts        a part of `make model`; some three minutes on one core

writes lesson24/cuts.json, which notebook 24 reads. A cut is an attention to plug into the model. All queries of a text
are computed at once, each with the keys that its cache would hold at that time. Sources: Liu et al. 2024, "KIVI"
(few bits, the newest keys in full); Zhang et al. 2023, "H2O" (eviction by weight); Tang et al. 2024, "Quest".
"""

import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path

import attnlab
from attnlab.cache import dequantize, quantize
from attnlab.costs import cache_bytes
from attnlab.paged import page_bounds
from attnlab_course import model
from attnlab_course.model import Model

import numpy as np
from numpy import ndarray as Array

STORED = Path(__file__).parent / "cuts.json"
GROUP = 32
LENGTH, ROWS, APART = 512, 8, 14_000
WINDOW, BUDGETS, PAGE, SINKS = 64, (32, 64, 128), 16, 4
LAYERS, SEEDS = range(4), (0, 1, 2)


def price(lm: Model, attend: Callable | None, first: int = 0, rows: int = ROWS) -> dict[str, float]:
    """What a cut costs: bits per byte of ``rows`` stretches of held-out text, from byte ``first`` on, and again."""
    from attnlab_course.lessons.lesson18.conversion import again  # which needs PyTorch; what is stored doesn't

    data, starts = model.excerpt(), range(first, first + rows * APART, APART)
    tokens = np.stack([model.tokens(data[start : start + LENGTH - 1]) for start in starts])
    found = {"bits": model.bits(lm.logits(tokens, attend), tokens).mean(), "again": again(lm, attend)}
    return {name: round(float(x), 4) for name, x in found.items()}


# Fewer keys: visible(layer, query, key) -> boolean (..., H, N, N), which keys each query reads


def masked(visible: Callable) -> Callable:
    """Attention to the keys that ``visible`` names, of rotated arrays."""
    def attend(layer: int, query: Array, key: Array, value: Array) -> Array:
        query, key = attnlab.rotary(query), attnlab.rotary(key)
        return attnlab.tiled_attention(query, key, value, causal=True, mask=visible(layer, query, key))

    return attend


def distances(n: int) -> Array:
    """(N, N): how far key j is behind query i."""
    return np.arange(n)[:, None] - np.arange(n)


def newest(budget: int, sinks: int = 0) -> Callable:
    """The last keys and the first ``sinks``, ``budget`` in all."""
    def visible(layer: int, query: Array, key: Array) -> Array:
        d = distances(query.shape[-2])
        return (d < budget - sinks) | (np.arange(len(d)) < sinks)

    return visible


def evicting(budget: int, worth: str, recent: int | None = None, decay: float = 1.0, seed: int = 0) -> Callable:
    """One key goes at every step once ``budget`` are held: of those before the newest, the one of least worth.

    ``worth``: "weight", the sum of the weights that it has got so far, at each step times ``decay`` (H2O); or
    "chance", of ``seed``. ``recent``: how many of the newest keys stay in any case, half of the budget by default.
    """
    recent = budget // 2 if recent is None else recent

    def visible(layer: int, query: Array, key: Array) -> Array:
        rng, n = np.random.default_rng([seed, layer]), query.shape[-2]
        s = query @ key.mT / math.sqrt(query.shape[-1])
        held, worthy = np.zeros((*s.shape[:-2], n), bool), np.zeros((*s.shape[:-2], n))
        rows = np.zeros(s.shape, bool)
        if worth == "chance":
            worthy[:] = rng.random(worthy.shape)
        for i in range(n):
            held[..., i] = True
            if i >= budget:
                old = held & (np.arange(n) <= i - recent)
                gone = np.where(old, worthy, np.inf).argmin(-1)
                np.put_along_axis(held, gone[..., None], False, -1)
            rows[..., i, :] = held
            if worth == "weight":
                row = np.where(held, s[..., i, :], -np.inf)
                p = np.exp(row - row.max(-1, keepdims=True))
                worthy = decay * worthy + p / p.sum(-1, keepdims=True)
        return rows

    return visible


def chosen(budget: int, by: str) -> Callable:
    """All keys are kept and ``budget`` are read: the largest of all ("keys"), or pages of the largest bounds ("pages").

    The page of the query itself is always among its pages, filled or not.
    """
    def visible(layer: int, query: Array, key: Array) -> Array:
        n = query.shape[-2]
        s = np.where(distances(n) >= 0, query @ key.mT, -np.inf)
        if by == "keys":
            least = np.partition(s, n - min(budget, n), -1)[..., n - min(budget, n), None]
            return s >= least
        bound = bounds(query, key)
        behind = np.arange(n)[:, None] // PAGE - np.arange(bound.shape[-1])
        bound = np.where(behind > 0, bound, np.where(behind == 0, np.inf, -np.inf))
        count = min(budget // PAGE, bound.shape[-1])
        least = np.partition(bound, -count, -1)[..., -count, None]
        return np.repeat(bound >= least, PAGE, -1)[..., :n]

    return visible


def bounds(query: Array, key: Array) -> Array:
    """(..., H, N, P): the most that any key of each page may score, by its box; of whole pages, unscaled."""
    *heads, n, d = key.shape
    pages = np.pad(key, [(0, 0)] * len(heads) + [(0, -n % PAGE), (0, 0)]).reshape((-1, 1, PAGE, d))
    low, high = (x.reshape((*heads, -1, d)) for x in page_bounds(pages))
    return np.maximum(query, 0) @ high.mT + np.minimum(query, 0) @ low.mT


# Fewer bits


def few_bits(keys: int | None, values: int | None, **how: int | bool) -> Callable:
    """Keys and values in so many bits, None for all; see ``quantized``."""
    return lambda layer, *x: quantized(*x, bits=(keys, values), **how)


def quantized(
    query: Array, key: Array, value: Array, *, bits: tuple[int | None, int | None], axes: tuple[int, int] = (-2, -1),
    rotated: bool = True, rest: bool = True, window: int | None = None,
) -> Array:
    """Attention as over a cache in few bits: groups of 32 tokens that are complete, what is newer in full.

    ``axes``: of keys and values, −2 for a step per channel, −1 for a step per token. ``rotated``: keys are quantized
    after rotation, else before. ``rest``: False quantizes the newest as well. ``window``: how many tokens of complete
    groups are kept, a multiple of 32, None for all.
    """
    n = query.shape[-2]
    rough_key = attnlab.rotary(key) if rotated else key
    rough_key, rough_value = (rounded(x, b, axis) for x, b, axis in zip((rough_key, value), bits, axes))
    rough_key = rough_key if rotated else attnlab.rotary(rough_key)
    query, key = attnlab.rotary(query), attnlab.rotary(key)
    end = (np.arange(1, n + 1) // GROUP * GROUP if rest else np.full(n, n))[:, None]  # of the complete groups
    kept, complete = np.arange(n) >= end - (n if window is None else window), np.arange(n) < end
    parts = [attnlab.tiled_attention(query, k, v, mask=mask, causal=True, return_lse=True)
             for k, v, mask in ((rough_key, rough_value, complete & kept), (key, value, ~complete))]
    return attnlab.merge(*parts)[0]


def rounded(x: Array, bits: int | None, axis: int) -> Array:
    """To codes and back, groups of 32; what fills the last group up is cut off again."""
    if bits is None:
        return x
    n = x.shape[-2]
    padded = np.concatenate([x, np.repeat(x[..., -1:, :], -n % GROUP, -2)], -2)
    return dequantize(quantize(padded, bits, axis=axis, group=GROUP), x.dtype)[..., :n, :]


# Fewer layers with all keys

Plan = Sequence[tuple[int, int]]
"""For each layer a window, of LENGTH where all keys stay, and the bits of a number, 16 where it stays in full."""


def local(layers: tuple[int, ...], window: int) -> Callable:
    """All keys in these layers, a window in all others."""
    return planned([(LENGTH if layer in layers else window, 16) for layer in LAYERS])


def planned(plan: Plan) -> Callable:
    """What a plan keeps. Where bits are few its window counts complete groups; up to 31 keys come on top in full."""

    def attend(layer: int, *x: Array) -> Array:
        window, bits = plan[layer]
        return masked(newest(window))(layer, *x) if bits == 16 else quantized(*x, bits=(bits, bits), window=window)

    return attend


def share(plan: Plan, length: int = LENGTH) -> float:
    """The most that a plan's cache holds up to ``length`` tokens, over all keys of all layers at 16 bits: (24.9)."""
    held = sum(cache_bytes(length, GROUP, window=window, bits=bits, group=GROUP) for window, bits in plan)
    return held / (len(plan) * cache_bytes(length, GROUP))


# What is stored


def plans() -> dict[str, Plan]:
    """The plans of the lesson's last table."""
    last = [(LENGTH, 16)], [(LENGTH, 4)]
    return {
        "all keys in full": last[0] * 4, "4 bits": last[1] * 4, "2 bits": [(LENGTH, 2)] * 4,
        "windows of 64": [(WINDOW, 16)] * 4, "layer 3, windows of 64": [(WINDOW, 16)] * 3 + last[0],
        "the same at 4 bits": [(WINDOW, 4)] * 3 + last[1], "windows of 32, at 4 bits": [(WINDOW // 2, 4)] * 3 + last[1],
        "windows of 32, 64, 64, at 4 bits": [(WINDOW // 2, 4), (WINDOW, 4), (WINDOW, 4)] + last[1],
    }  # fmt: skip


def rows() -> Iterator[tuple[str, str, Callable | None, int]]:
    """(table, row, cut, first byte of the text) of everything that is stored."""
    yield from ((*row, 0) for row in single_cuts())
    for table, first in (("plans", 0), ("plans elsewhere", APART // 2)):
        yield from ((table, name, planned(plan), first) for name, plan in plans().items())


def single_cuts() -> Iterator[tuple[str, str, Callable | None]]:
    """(table, row, cut) where one thing is cut."""
    yield "bits", "in full", None
    for bits in (8, 4, 2):
        yield "bits", f"{bits}", few_bits(bits, bits)
    yield "bits", "2, no rest", few_bits(2, 2, rest=False)
    for bits in (4, 2):
        for rotated in (True, False):
            for axis, per in ((-2, "channel"), (-1, "token")):
                cut = few_bits(bits, None, axes=(axis, -1), rotated=rotated)
                yield "bits", f"keys {bits}, per {per}, {'after' if rotated else 'before'} rotary", cut
        for axis, per in ((-1, "token"), (-2, "channel")):
            yield "bits", f"values {bits}, per {per}", few_bits(None, bits, axes=(-2, axis))
    for budget in BUDGETS:
        yield "keys", f"window {budget}", masked(newest(budget))
        yield "keys", f"sinks {budget}", masked(newest(budget, SINKS))
        yield "keys", f"weight {budget}", masked(evicting(budget, "weight"))
        for seed in SEEDS:
            yield "keys", f"chance {budget}, seed {seed}", masked(evicting(budget, "chance", seed=seed))
        yield "keys", f"pages {budget}", masked(chosen(budget, "pages"))
        yield "keys", f"largest {budget}", masked(chosen(budget, "keys"))
    yield "keys", "largest 8", masked(chosen(8, "keys"))
    yield "keys", "weight 64, no newest", masked(evicting(64, "weight", recent=0))
    yield "keys", "weight 64, fading", masked(evicting(64, "weight", decay=0.95))
    for count in range(len(LAYERS) + 1):
        for layers in combinations(LAYERS, count):
            yield "layers", " ".join(map(str, layers)), local(layers, WINDOW)


def stored() -> dict[str, dict[str, dict[str, float]]]:
    """What the script has written: for each table and row bits per byte, and of a text that returns."""
    return json.loads(STORED.read_text(encoding="utf-8"))


def main() -> None:
    """Price every cut."""
    from tqdm import tqdm

    lm, tables = model.load(), {}
    for table, row, cut, first in tqdm(list(rows()), file=sys.stderr):
        tables.setdefault(table, {})[row] = price(lm, cut, first)
        lines = {name: ",\n".join(f"{json.dumps(row)}: {json.dumps(found)}" for row, found in rest.items())
                 for name, rest in tables.items()}  # fmt: skip
        text = ",\n".join(f'"{name}": {{\n{text}\n}}' for name, text in lines.items())
        STORED.write_text("{" + text + "}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
