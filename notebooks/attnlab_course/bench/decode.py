"""A step of decoding (``--decode``): one query a head joins a cache of M tokens, and attends to all of them.

Beside ``KVCache.attend`` of each library stands PyTorch's scaled_dot_product_attention on the same keys in a row,
which appends nothing. A step reads its whole cache and does little else, so its rate, bytes of keys and values over
time, is compared with that at which NumPy copies 128 MiB, bytes copied over time: a smaller cache may be read faster,
as it stays in the processor's own. In JAX steps are compiled and the cache is donated.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from attnlab.cache import KVCache
from attnlab_course.bench.calls import inputs, prepare, random_arrays
from attnlab_course.bench.contestants import ORDER, UNIT, Contestant, available
from attnlab_course.bench.setting import Setting
from attnlab_course.bench.table import grid
from attnlab_course.instruments import hardware
from attnlab_course.instruments.timing import medians, ready, timed

import numpy as np

LENGTHS = (16, 1024, 4096, 16384, 65536)
FAMILIES = [
    Setting(1, 1, batch=batch, kv_heads=kv_heads, dtype=dtype)
    for dtype in ("float32", "bfloat16") for batch in (1, 8) for kv_heads in (8, 2)
]  # fmt: skip
COPY, COPIED = "numpy copy", 2**27  # bytes of its array


def print_steps(lengths: Sequence[int] | None, rounds: int | None, seconds: float | int) -> None:
    """Measure every library that is installed, and print a table for each dtype, batch and number of key heads."""
    libraries, _ = available("cpu", ORDER)
    for family in FAMILIES:
        rows, large = [], []
        for m in lengths or LENGTHS:
            setting = replace(family, m=m)
            if cache_bytes(setting) > hardware.memory_size() / 16:  # it is there once for every library
                large.append(f"{m:,} keys left out: their cache is {cache_bytes(setting) / 2**30:.1f} GiB")
            else:
                rows.append(line(setting, libraries, medians(timed(steps(libraries, setting), rounds, seconds))))
        print(title(family), *grid(head(libraries), rows), *large, "", sep="\n", flush=True)


def steps(libraries: Sequence[str], setting: Setting) -> dict[str, Callable[[], object]]:
    """PyTorch's own attention, the copy, and in each library a step, which returns what its query sees."""
    found = {}
    for library in libraries:
        if library == UNIT.library:
            found[UNIT.name] = prepare(UNIT, setting)
        if library == "numpy":
            found[COPY] = _copy()
        query, key, value, *_ = inputs(Contestant(library, "step"), setting)
        new = query, key[..., -1:, :], value[..., -1:, :]
        cache = KVCache.empty(*new[1:], capacity=setting.m)
        cache = replace(cache, keys=key, values=value, length=cache.length + setting.m)
        found[f"{library} step"] = (_compiled if library == "jax" else _in_place)(cache, new)
    random_arrays.cache_clear()  # they are large, and those of JAX are given away
    return found


def _copy() -> Callable[[], object]:
    """Copies one array to another."""
    source, target = np.ones(COPIED, np.uint8), np.ones(COPIED, np.uint8)
    return lambda: np.copyto(target, source)


def _in_place(cache: KVCache, new: tuple) -> Callable[[], object]:
    """A step that takes the place of the newest token, again and again."""

    def step() -> object:
        cache.length -= 1
        return cache.attend(*new)[0]

    return step


def _compiled(cache: KVCache, new: tuple) -> Callable[[], object]:
    """The same in JAX; the cache of one call is donated to the next."""
    import jax

    def attend(cache: KVCache, *new: jax.Array) -> tuple[jax.Array, KVCache]:
        out, cache = replace(cache, length=cache.length - 1).attend(*new)
        return out, cache

    held, attend = [cache], jax.jit(attend, donate_argnums=0)

    def step() -> object:
        out, held[0] = attend(held[0], *new)
        return ready(out)

    return step


def cache_bytes(setting: Setting) -> int:
    """Bytes of all keys and values."""
    size = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}[setting.dtype]
    return 2 * setting.batch * setting.kv_heads * setting.keys * setting.d * size


def title(family: Setting) -> str:
    """What a table is about."""
    batch = f"batch {family.batch}, " * (family.batch > 1)
    heads = f"{family.heads} heads" if family.heads == family.kv_heads else f"{family.heads} heads on {family.kv_heads}"
    return f"one query, {batch}{heads} of size {family.d}, {family.dtype}; times in µs"


def head(libraries: Sequence[str]) -> list[str]:
    """The columns: the time of sdpa, and three numbers a library."""
    return ["keys", "sdpa", *(name for library in libraries for name in (library, "÷ sdpa", "÷ copy"))]


def line(setting: Setting, libraries: Sequence[str], middle: Mapping[str, float]) -> list[str]:
    """A row: medians in µs, ratios to PyTorch's function, and of the rates at which bytes pass."""
    unit, copy = middle.get(UNIT.name), middle.get(COPY)
    cells = [f"{setting.keys:,}", "–" if unit is None else f"{1e6 * unit:,.0f}"]
    for library in libraries:
        step = middle[f"{library} step"]
        beside = "–" if unit is None else f"{step / unit:.2f}"
        rate = "–" if copy is None else f"{cache_bytes(setting) / step / (COPIED / copy):.2f}"
        cells += [f"{1e6 * step:,.0f}", beside, rate]
    return cells
