"""What each cut of a cache costs a trained model: fewer bits, fewer keys, fewer layers with all keys.

    python -m attnlab_course.lessons.lesson24.cuts        a part of `make model`; some three minutes on one core

writes lesson24/cuts.json, which notebook 24 reads. A cut is an attention to plug into the model. All queries of a text
are computed at once, each with the keys that its cache would hold at that time. Sources: Liu et al. 2024, "KIVI"
(few bits, the newest keys in full); Zhang et al. 2023, "H2O" (eviction by weight); Tang et al. 2024, "Quest";
DeepSeek-AI 2025, "DeepSeek-V3.2" (an index that is learned: indexer.py).
"""

import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import attnlab
from attnlab.cache import dequantize, quantize
from attnlab.costs import cache_bytes
from attnlab.paged import page_bounds
from attnlab_course import model
from attnlab_course.lessons.lesson24 import indexer
from attnlab_course.model import Model

import ml_dtypes
import numpy as np
from numpy import ndarray as Array

STORED = Path(__file__).parent / "cuts.json"
GROUP = 32
LENGTH, ROWS, APART = 512, 8, 14_000
WINDOW, BUDGETS, PAGE, SINKS = 64, (32, 64, 128), 16, 4
SEEDS = (0, 1, 2)


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


def evicting(budget: int, worth: str, recent: int | None = None, seed: int = 0) -> Callable:
    """One key goes at every step once ``budget`` are held: of those before the newest, the one of least worth.

    ``worth``: "weight", the sum of the weights that it has got so far (H2O), or by lot, of ``seed``: "chance", one for
    each key, or "anew", drawn again at every step. ``recent``: how many of the newest keys stay in any case, half of
    the budget by default.
    """
    recent = budget // 2 if recent is None else recent

    def visible(layer: int, query: Array, key: Array) -> Array:
        rng, n = np.random.default_rng([seed, layer]), query.shape[-2]
        s = query @ key.mT / math.sqrt(query.shape[-1])
        held, worthy = np.zeros((*s.shape[:-2], n), bool), np.zeros((*s.shape[:-2], n))
        rows = np.zeros(s.shape, bool)
        if worth != "weight":
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
                worthy += p / p.sum(-1, keepdims=True)
            elif worth == "anew":
                worthy[:] = rng.random(worthy.shape)
        return rows

    return visible


def chosen(budget: int, by: str) -> Callable:
    """All keys are kept and ``budget`` are read: the largest of all ("keys"), or pages of the largest bounds ("pages").

    The page of the query itself is always among its pages, filled or not.
    """
    def visible(layer: int, query: Array, key: Array) -> Array:
        n = query.shape[-2]
        if by == "keys":
            return largest(np.where(distances(n) >= 0, query @ key.mT, -np.inf), budget)
        bound = bounds(query, key)
        behind = np.arange(n)[:, None] // PAGE - np.arange(bound.shape[-1])
        bound = np.where(behind > 0, bound, np.where(behind == 0, np.inf, -np.inf))
        return np.repeat(largest(bound, budget // PAGE), PAGE, -1)[..., :n]

    return visible


def largest(x: Array, count: int) -> Array:
    """Where the ``count`` largest numbers of each row are; of equal ones, the last."""
    seen = np.zeros(x.shape, bool)
    np.put_along_axis(seen, x.argsort(-1, kind="stable")[..., -count:], True, -1)
    return seen


def indexed(size: int, budget: int) -> Callable:
    """All keys are kept; the heads of a layer read ``budget``, half of it the newest, half by a learned index."""
    index = indexer.stored(size)

    def attend(layer: int, query: Array, key: Array, value: Array) -> Array:
        s = indexer.scores(query, key, *(x[layer] for x in index))
        d = distances(s.shape[-1])
        seen = largest(np.where(d < 0, -np.inf, np.where(d < budget // 2, np.inf, s)), budget)[..., None, :, :]
        return masked(lambda *x: seen)(layer, query, key, value)

    return attend


def bounds(query: Array, key: Array) -> Array:
    """(..., H, N, P): the most that any key of each page may score, by its box; of whole pages, unscaled."""
    *heads, n, d = key.shape
    pages = np.pad(key, [(0, 0)] * len(heads) + [(0, -n % PAGE), (0, 0)]).reshape((-1, 1, PAGE, d))
    low, high = (x.reshape((*heads, -1, d)) for x in page_bounds(pages))
    return np.maximum(query, 0) @ high.mT + np.minimum(query, 0) @ low.mT


# Fewer bits


def few_bits(keys: int | str | None, values: int | str | None, **how: int | bool) -> Callable:
    """Keys and values in so many bits, see ``quantized``."""
    return lambda layer, *x: quantized(*x, bits=(keys, values), **how)


def quantized(
    query: Array, key: Array, value: Array, *, bits: tuple, axes: tuple[int, int] = (-2, -1),
    turn: bool = False, rest: bool = True, window: int | None = None,
) -> Array:
    """Attention as over a cache in few bits: groups of 32 tokens that are complete, what is newer in full.

    ``axes``: of keys and values, −2 for a step per channel, −1 for a step per token. ``turn``: queries and keys are
    multiplied by one orthogonal matrix before keys are quantized. ``rest``: False quantizes the newest as well.
    ``window``: how many tokens of complete groups are kept, a multiple of 32, None for all.
    """
    n, turned = query.shape[-2], hadamard(query.shape[-1]) if turn else np.eye(query.shape[-1])
    query, key = (attnlab.rotary(x) @ turned.astype(x.dtype) for x in (query, key))
    rough = (rounded(x, b, axis) for x, b, axis in zip((key, value), bits, axes))
    end = (np.arange(1, n + 1) // GROUP * GROUP if rest else np.full(n, n))[:, None]  # of the complete groups
    kept, complete = np.arange(n) >= end - (n if window is None else window), np.arange(n) < end
    parts = [attnlab.tiled_attention(query, k, v, mask=mask, causal=True, return_lse=True)
             for (k, v), mask in ((rough, complete & kept), ((key, value), ~complete))]
    return attnlab.merge(*parts)[0]


def hadamard(n: int) -> Array:
    """An orthogonal matrix of entries ±1/√n, for n a power of two."""
    return np.eye(1) if n == 1 else np.kron([[1, 1], [1, -1]], hadamard(n // 2)) / math.sqrt(2)


def rounded(x: Array, bits: int | str | None, axis: int) -> Array:
    """To codes and back, groups of 32; what fills the last group up is cut off again.

    Or to floats: "FP8" is e4m3 with a scale of 1, "FP4" e2m1 with an e4m3 scale for 16 channels, as NVIDIA's NVFP4.
    """
    if bits is None:
        return x
    if bits == "FP8":
        return x.astype(ml_dtypes.float8_e4m3fn).astype(x.dtype)
    if bits == "FP4":
        groups = x.reshape((*x.shape[:-1], -1, 16))
        scale = (abs(groups).max(-1, keepdims=True) / 6).astype(ml_dtypes.float8_e4m3fn).astype(x.dtype)
        scale[scale == 0] = 1
        return ((groups / scale).astype(ml_dtypes.float4_e2m1fn).astype(x.dtype) * scale).reshape(x.shape)
    n = x.shape[-2]
    padded = np.concatenate([x, np.repeat(x[..., -1:, :], -n % GROUP, -2)], -2)
    return dequantize(quantize(padded, bits, axis=axis, group=GROUP), x.dtype)[..., :n, :]


# Fewer layers with all keys

Plan = Sequence[tuple[int, int]]
"""For each layer a window, of LENGTH where all keys stay, and the bits of a number, 16 where it stays in full."""


def planned(plan: Plan) -> Callable:
    """What a plan keeps. Where bits are few its window counts complete groups; up to 31 keys come on top in full."""

    def attend(layer: int, *x: Array) -> Array:
        window, bits = plan[layer]
        return masked(newest(window))(layer, *x) if bits == 16 else quantized(*x, bits=(bits, bits), window=window)

    return attend


def share(plan: Plan, length: int = LENGTH) -> float:
    """The most that a plan's cache holds up to ``length`` tokens, over all keys of all layers at 16 bits: (24.10)."""
    held = sum(cache_bytes(length, GROUP, window=window, bits=bits, group=GROUP) for window, bits in plan)
    return held / (len(plan) * cache_bytes(length, GROUP))


# What is stored


def plans() -> dict[str, Plan]:
    """The plans of the lesson's last table."""
    last = [(LENGTH, 16)], [(LENGTH, 4)]
    return {
        "all keys in full": last[0] * 4, "4 bits": last[1] * 4, "2 bits": [(LENGTH, 2)] * 4,
        "windows of 64": [(WINDOW, 16)] * 4, "layer 3, windows of 64": [(WINDOW, 16)] * 3 + last[0],
        "windows of 32, at 4 bits": [(WINDOW // 2, 4)] * 3 + last[1],
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
    for axis, per in ((-2, "channel"), (-1, "token")):
        yield "bits", f"keys 2, per {per}", few_bits(2, None, axes=(axis, -1))
        yield "bits", f"values 2, per {per}", few_bits(None, 2, axes=(-2, axis))
    yield "bits", "keys 2, per token, turned", few_bits(2, None, axes=(-1, -1), turn=True)
    for kind in ("FP8", "FP4"):
        yield "bits", kind, few_bits(kind, kind, rest=False)
    for budget in BUDGETS:
        yield "keys", f"window {budget}", masked(newest(budget))
        yield "keys", f"sinks {budget}", masked(newest(budget, SINKS))
        yield "keys", f"weight {budget}", masked(evicting(budget, "weight"))
        for seed in SEEDS:
            yield "keys", f"chance {budget}, seed {seed}", masked(evicting(budget, "chance", seed=seed))
        yield "keys", f"anew {budget}", masked(evicting(budget, "anew"))
        yield "keys", f"pages {budget}", masked(chosen(budget, "pages"))
        for size in indexer.SIZES:
            yield "keys", f"index {size}, {budget}", indexed(size, budget)
        yield "keys", f"largest {budget}", masked(chosen(budget, "keys"))
    yield "keys", "largest 8", masked(chosen(8, "keys"))
    yield "keys", "weight 64, no newest", masked(evicting(64, "weight", recent=0))
    for short in (None, 0, 1, 2):
        plan = [(WINDOW // 2 if layer == short else WINDOW, 4) for layer in range(3)] + [(LENGTH, 4)]
        yield "one shorter", f"{short}", planned(plan)


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
