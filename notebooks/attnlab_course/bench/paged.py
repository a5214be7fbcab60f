"""A decoding step through pages (``--paged``): one query a sequence, against keys in a row and in blocks of S tokens.

Beside paged attention stand tiled attention over contiguous keys, in the same library, and PyTorch's
scaled_dot_product_attention. Blocks are taken in random order, as after many sequences have come and gone.
"""

import argparse
import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from attnlab.core.dispatch import backend
from attnlab.paged import paged_attention
from attnlab_course.bench.calls import bind, make_inputs, prepare
from attnlab_course.bench.contestants import ORDER, UNIT, Contestant, find_libraries
from attnlab_course.bench.question import Question, Times, format_ms, format_ratio
from attnlab_course.bench.setting import Setting
from attnlab_course.instruments.timing import Call

import numpy as np

SETTINGS = [Setting(1, m, batch=batch) for m in (4096, 16384) for batch in (1, 8)]
BLOCKS = (16, 64, 128)


def make_questions(options: argparse.Namespace) -> Iterator[Question]:
    """A table, a row for each number of keys and sequences and each library."""
    libraries, _ = find_libraries(options.device, ORDER)
    settings = [replace(setting, device=options.device, dtype=options.dtype[0]) for setting in SETTINGS]
    head = "", "", "in a row, ms", "÷ sdpa", *(f"pages of {size}" for size in BLOCKS)
    yield Question("One query a sequence; pages as ratios to the same keys in a row", head, settings,
                   functools.partial(prepare_steps, libraries), functools.partial(make_rows, libraries))  # fmt: skip


def prepare_steps(libraries: Sequence[str], setting: Setting) -> dict[str, Call]:
    """PyTorch's own attention; in each library a step over keys in a row, and over pages of each size."""
    found: dict[str, Call] = {}
    for library in libraries:
        if library == UNIT.library:
            found[UNIT.name] = prepare(UNIT, setting)
        tiled = Contestant(library, "tiled")
        query, key, value, *_ = make_inputs(tiled, setting)
        found[f"{library} in a row"] = prepare(tiled, setting)
        for size in BLOCKS:
            found[f"{library} pages of {size}"] = bind(library, paged_attention, query, *_paged(key, value, size))
    return found


def _paged(key: Any, value: Any, size: int) -> tuple[Any, ...]:
    """The same memory taken for pages, a table that lists them in random order, and lengths."""
    batch, heads, length, _ = key.shape
    pages = [x.reshape((-1, heads, size, x.shape[-1])) for x in (key, value)]
    table = np.random.default_rng(0).permutation(len(pages[0])).astype(np.int32).reshape((batch, -1))
    as_integers = backend("key", key, "attnlab.paged").as_integers
    return *pages, as_integers(table, key), as_integers(np.full(batch, length, np.int32), key)


def make_rows(libraries: Sequence[str], setting: Setting, times: Times) -> Iterator[list[str]]:
    """For each library the time of keys in a row, its ratio to PyTorch's function, and those of pages to it."""
    for library in libraries:
        contiguous = times.get(f"{library} in a row")
        paged = (format_ratio(times.get(f"{library} pages of {size}"), contiguous) for size in BLOCKS)
        yield [f"{setting.keys:,} keys, {setting.sizes}", library, format_ms(contiguous),
               format_ratio(contiguous, times.get(UNIT.name)), *paged]  # fmt: skip
