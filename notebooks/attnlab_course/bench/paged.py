"""A decoding step through pages (``--paged``): one query a sequence, against keys in a row and in blocks of S tokens.

Beside paged attention stand tiled attention over contiguous keys, in the same library, and PyTorch's
scaled_dot_product_attention. Blocks are taken in random order, as after many sequences have come and gone.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attnlab import tiled_attention
from attnlab.core.dispatch import backend
from attnlab.paged import paged_attention
from attnlab_course.bench.calls import inputs
from attnlab_course.bench.contestants import ORDER, UNIT, Contestant, available
from attnlab_course.bench.setting import Setting
from attnlab_course.bench.table import grid
from attnlab_course.instruments.timing import medians, ready, timed

import numpy as np

SETTINGS = [Setting(1, m, batch=batch) for m in (4096, 16384) for batch in (1, 8)]
BLOCKS = (16, 64, 128)


def print_ratios(rounds: int | None, seconds: float | int) -> None:
    """Measure every library that is installed, and print a table for each number of keys and sequences."""
    libraries, _ = available("cpu", ORDER)
    for setting in SETTINGS:
        middle = medians(timed(steps(libraries, setting), rounds, seconds))
        print(setting, *grid(("", "time", "÷ sdpa", "÷ in a row"), ratios(middle)), "", sep="\n", flush=True)


def steps(libraries: Sequence[str], setting: Setting) -> dict[str, Callable[[], object]]:
    """PyTorch's own attention; in each library a step over keys in a row, and over pages of each size."""
    found = {}
    for library in libraries:
        query, key, value, *_ = inputs(Contestant(library, "tiled"), setting)
        if library == UNIT.library:
            from torch.nn.functional import scaled_dot_product_attention

            found[UNIT.name] = _bound(library, scaled_dot_product_attention, query, key, value)
        found[f"{library} in a row"] = _bound(library, tiled_attention, query, key, value)
        for size in BLOCKS:
            found[f"{library} pages of {size}"] = _bound(library, paged_attention, query, *_paged(key, value, size))
    return found


def _paged(key: Any, value: Any, size: int) -> tuple[Any, ...]:
    """The same memory taken for pages, a table that lists them in random order, and lengths."""
    batch, heads, length, _ = key.shape
    pages = [x.reshape((-1, heads, size, x.shape[-1])) for x in (key, value)]
    table = np.random.default_rng(0).permutation(len(pages[0])).astype(np.int32).reshape((batch, -1))
    integers = backend("key", key, "attnlab.paged").integers
    return *pages, integers(table, key), integers(np.full(batch, length, np.int32), key)


def _bound(library: str, function: Callable, *arrays: Any) -> Callable[[], object]:
    """A call without arguments, compiled in JAX, which ends when the result is there."""
    if library == "jax":
        import jax

        function = jax.jit(function)
    return lambda: ready(function(*arrays))


def ratios(middle: Mapping[str, float]) -> Iterator[list[str]]:
    """Rows: medians in ms, and as ratios to PyTorch's function and to the same keys in a row."""
    for name, seconds in middle.items():
        row = middle.get(f"{name.partition(' ')[0]} in a row")
        unit = f"{seconds / middle[UNIT.name]:.2f}" if UNIT.name in middle else ""
        beside = "" if name == UNIT.name or row is None else f"{seconds / row:.2f}"
        yield [name, f"{1e3 * seconds:.2f} ms", unit, beside]
