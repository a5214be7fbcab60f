"""A step of decoding (``--decode``): one query a head joins a cache of M tokens, and attends to all of them.

Beside ``KVCache.attend`` of each library stands PyTorch's scaled_dot_product_attention on the same keys in a row,
which appends nothing: with enable_gqa (sdpa), and on a view in which the heads of a group are rows of one product
(grouped), which is what to beat. A step reads its whole cache and does little else, so its rate, bytes of keys and
values over time, is compared with that at which NumPy copies 128 MiB, bytes copied over time: a smaller cache may be
read faster, as it stays in the processor's own. In JAX steps are compiled and the cache is donated.
"""

import argparse
import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from attnlab.cache import KVCache
from attnlab_course.bench.calls import make_inputs, prepare
from attnlab_course.bench.contestants import GROUPED, ORDER, UNIT, Contestant, find_libraries
from attnlab_course.bench.question import Question, Times, format_ms, format_ratio
from attnlab_course.bench.setting import Setting
from attnlab_course.instruments import hardware
from attnlab_course.instruments.timing import Call, wait_for

import numpy as np

LENGTHS = (16, 1024, 4096, 16384, 65536)
FAMILIES = [
    Setting(1, 1, batch=batch, kv_heads=kv_heads, dtype=dtype)
    for dtype in ("float32", "bfloat16") for batch in (1, 8) for kv_heads in (8, 2)
]  # fmt: skip
COPY, COPIED = "numpy copy", 2**27  # bytes of its array


def make_questions(options: argparse.Namespace) -> Iterator[Question]:
    """A table for each dtype, batch and number of key heads, a row for each length of the cache."""
    libraries, _ = find_libraries("cpu", ORDER)
    head = ["keys", "sdpa", "grouped"]
    head += [name for library in libraries for name in (library, "÷ sdpa", "÷ grouped", "÷ copy")]
    for family in FAMILIES:
        settings = [replace(family, m=m) for m in ([options.m] if options.m else LENGTHS)]
        fitting = [x for x in settings if cache_bytes(x) <= hardware.memory_size() / 16]  # each library has one
        large = {f"{x.keys:,} keys": "left out, as the cache is too large" for x in settings if x not in fitting}
        yield Question(f"One query, {family.sizes}; ms", head, fitting, functools.partial(prepare_steps, libraries),
                       functools.partial(make_row, libraries), large)  # fmt: skip


def prepare_steps(libraries: Sequence[str], setting: Setting) -> dict[str, Call]:
    """PyTorch's own attention, the copy, and in each library a step, which returns what its query sees."""
    found: dict[str, Call] = {}
    for library in libraries:
        if library == UNIT.library:
            found |= {own.name: prepare(own, setting) for own in (UNIT, GROUPED)}
        if library == "numpy":
            found[COPY] = functools.partial(np.copyto, *np.ones((2, COPIED), np.uint8))
        query, key, value, *_ = make_inputs(Contestant(library, "step"), setting)
        new = query, key[..., -1:, :], value[..., -1:, :]
        cache = KVCache.empty(*new[1:], capacity=setting.m)
        cache = replace(cache, keys=key, values=value, length=cache.length + setting.m)
        found[f"{library} step"] = (_compiled if library == "jax" else _in_place)(cache, new)
    return found


def _in_place(cache: KVCache, new: tuple) -> Call:
    """A step that takes the place of the newest token, again and again."""

    def step() -> object:
        cache.length -= 1
        return cache.attend(*new)[0]

    return step


def _compiled(cache: KVCache, new: tuple) -> Call:
    """The same in JAX; the cache of one call is donated to the next."""
    import jax

    def attend(cache: KVCache, *new: jax.Array) -> tuple[jax.Array, KVCache]:
        out, cache = replace(cache, length=cache.length - 1).attend(*new)
        return out, cache

    held, attend = [cache], jax.jit(attend, donate_argnums=0)

    def step() -> object:
        out, held[0] = attend(held[0], *new)
        return wait_for(out)

    return step


def cache_bytes(setting: Setting) -> int:
    """Bytes of all keys and values."""
    size = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}[setting.dtype]
    return 2 * setting.batch * setting.kv_heads * setting.keys * setting.d * size


def make_row(libraries: Sequence[str], setting: Setting, times: Times) -> Iterator[list[str]]:
    """For each library a time, its ratios to PyTorch's function, and that of the rates at which bytes pass."""
    own, copy = [times.get(UNIT.name), times.get(GROUPED.name)], times.get(COPY)
    cells = [f"{setting.keys:,}", *map(format_ms, own)]
    for library in libraries:
        step = times.get(f"{library} step")
        copied = copy and copy * cache_bytes(setting) / COPIED  # what it takes to copy as many bytes
        cells += [format_ms(step), *(format_ratio(step, unit) for unit in own), format_ratio(copied, step)]
    yield cells
