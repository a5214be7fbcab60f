"""Work on a few heads at a time, so that their tiles of scores fit into a CPU's shared cache.

In NumPy on several threads: its products use them all by themselves, and everything else that it computes uses one.
"""

import contextvars
import functools
import inspect
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

from attnlab.core.bundle import AT_ONCE, Inputs, Rules, Sizes
from attnlab.core.dispatch import Array
from attnlab.core.geometry import blocks

import numpy as np
from threadpoolctl import ThreadpoolController

CACHE_SCORES = 2**21
"""Scores of the tiles that are worked on together: 8 MiB in float32, for a cache that all threads share."""
WORTH_THREADS = 2**21
"""A call with at least this many scores is worth starting threads for; that takes about 0.1 ms."""
THREADS_IN_USE = threading.Lock()
"""Held while threads are at work: limits of products hold for the whole process, so that calls must not mix them."""


def one_tile_at_once(formula: Callable) -> Callable[[Callable], Callable]:
    """Decorator of the loops of a core or gradient: where one small tile holds all scores, ``formula`` takes them."""

    def decorate(loops: Callable) -> Callable:
        @functools.wraps(loops)
        def core(rules: Rules, sizes: Sizes, x: Inputs, *rest: Array | bool) -> tuple[Array, ...]:
            one = rules.in_one_tile(sizes, x) and can_take_whole(x.key) and can_take_whole(x.value)
            return formula(rules, x, *rest) if one else loops(rules, sizes, x, *rest)

        return core

    return decorate


def can_take_whole(y: Array) -> bool:
    """Whether nothing large is copied of keys or values: NumPy widens them, PyTorch makes batch and heads one axis."""
    is_view = y.itemsize >= 4 if isinstance(y, np.ndarray) else math.prod(y.shape[:-3]) == 1 or y.is_contiguous()
    return is_view or math.prod(y.shape) <= AT_ONCE


def by_heads_in_cache(loops: Callable) -> Callable:
    """Decorator of the loops of a core or a gradient in NumPy or PyTorch, called for a few batch elements or heads.

    ``loops(rules, sizes, x, *rest, empty)`` return what ``empty(x, *rest)``, by default their own, has made for them;
    for a few heads it gives those of the whole result, so that no part is copied. In NumPy each thread has a few
    heads; PyTorch, which does everything on all threads, gains nothing by that. Heads that depend on each other stay
    together: dropout numbers them, and the gradient of a bias may be a sum over them.
    """
    empty = inspect.signature(loops).parameters["empty"].default

    @functools.wraps(loops)
    def core(rules: Rules, sizes: Sizes, x: Inputs, *rest: Array | bool) -> tuple[Array, ...]:
        parts, workers = _parts_and_workers(rules, x)
        if len(parts) == 1:
            with products_on_one_thread(rules, x):
                return loops(rules, sizes, x, *rest)
        whole = empty(x, *rest)

        def fill(part: tuple[slice, ...]) -> None:
            x_part, place = Inputs(*(take_heads(y, part) for y in x)), tuple(take_heads(y, part) for y in whole)
            fewer = replace(rules, heads=tuple(x_part.query.shape[:-2]))
            loops(fewer, sizes, x_part, *(take_heads(y, part) for y in rest), lambda *_: place)

        side_by_side(fill, parts, workers)
        return whole

    return core


def _parts_and_workers(rules: Rules, x: Inputs) -> tuple[list[tuple[slice, ...]], int]:
    """Cut the heads into parts that fit the cache, and say on how many threads to work on them.

    Each of NumPy's threads has one head at a time, whose tile stays in its core's own cache; of small tiles it has
    several, else threads wait for Python more often than they compute.
    """
    *heads, g = x.query.shape[:-2]  # under vmap one more than in rules
    band, count = rules.band, math.prod(heads)
    num_scores = band.n * g * band.m * count
    if count == 1 or num_scores < min(CACHE_SCORES, WORTH_THREADS):
        return [()], 1
    if x.bias is not None or x.seed is not None or str(x.query.device) != "cpu":
        return [()], 1
    workers = threads() if isinstance(x.query, np.ndarray) and num_scores >= WORTH_THREADS else 1
    side = 256 if rules.small else 512  # as in geometry.tile_sizes
    tile = max(min(band.n * g, side) * min(band.m, side), 1)
    one = workers > 1 and not rules.small
    most = 1 if one else min(CACHE_SCORES // workers // tile, math.ceil(count / workers))
    return list(cut_heads(heads, max(most, 1))), workers


def products_on_one_thread(rules: Rules, x: Inputs) -> AbstractContextManager:
    """For a call in NumPy that's too small for threads: two on one small product wait for each other.

    The limit takes 10 µs, which the smallest calls don't lose by two threads. Products of a few rows, as in decoding,
    read more than they compute, and two threads read faster.
    """
    rows, num_scores = rules.band.n * rules.heads[-1], rules.band.n * math.prod(rules.heads) * rules.band.m
    few = rows >= 32 and 2**14 <= num_scores < WORTH_THREADS and isinstance(x.query, np.ndarray)
    return one_thread() if few else nullcontext()


@contextmanager
def one_thread() -> Iterator[bool]:
    """Let every product use one thread, if no other call holds the threads; says whether it does."""
    if not THREADS_IN_USE.acquire(blocking=False):
        yield False
        return
    try:
        with blas().limit(limits=1):
            yield True
    finally:
        THREADS_IN_USE.release()


def cut_heads(heads: Sequence[int], most: int) -> Iterator[tuple[slice, ...]]:
    """Slices of the leading axes that cut the heads into parts of about equal size, at most ``most`` heads each."""
    if math.prod(heads) <= most:
        yield ()
        return
    axis = next(a for a, size in enumerate(heads) if size > 1)
    step = max(most // math.prod(heads[axis + 1 :]), 1)
    for part in blocks(heads[axis], math.ceil(heads[axis] / math.ceil(heads[axis] / step))):
        for within in cut_heads(heads[axis + 1 :], most) if step == 1 else [()]:
            yield *axis * (slice(None),), part, *within


def take_heads(y: Any, part: tuple[slice, ...]) -> Any:
    """A part of an array along its leading axes. An axis of size 1 stays whole, and so does anything but an array."""
    shape = getattr(y, "shape", ())
    return y[tuple(at if size > 1 else slice(None) for at, size in zip(part, shape))] if shape else y


@functools.cache
def blas() -> ThreadpoolController:
    """The controller that tells and sets how many threads NumPy's products use."""
    return ThreadpoolController().select(user_api="blas")


def threads() -> int:
    """How many threads a product uses: one for each core, or as many as OMP_NUM_THREADS and the like allow."""
    return max((library.num_threads for library in blas().lib_controllers), default=1)


def side_by_side(work: Callable[[Any], None], parts: Iterable[Any], workers: int) -> None:
    """Do ``work`` on each part, on ``workers`` threads, while a product uses one.

    If another call has the threads, or ``workers`` is 1, work on one part after the other here.
    """
    with one_thread() if workers > 1 else nullcontext(False) as alone:
        if not alone:
            for part in parts:
                work(part)
            return
        context = contextvars.copy_context()  # it says how NumPy treats overflow
        with ThreadPoolExecutor(workers) as pool:
            for _ in pool.map(lambda part: context.copy().run(work, part), parts):
                pass  # what it raises is raised here
