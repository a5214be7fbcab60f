"""Several threads: NumPy's products use them all, and everything else that it computes uses one."""

import contextvars
import functools
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from threadpoolctl import ThreadpoolController

THREADS_IN_USE = threading.Lock()
"""Held while threads are at work: limits of products hold for the whole process, so that calls must not mix them."""


@functools.cache
def blas() -> ThreadpoolController:
    """What tells and sets how many threads NumPy's products use."""
    return ThreadpoolController().select(user_api="blas")


def threads() -> int:
    """How many a product uses: by default one for each core, or as many as OMP_NUM_THREADS and the like allow."""
    return max((library.num_threads for library in blas().lib_controllers), default=1)


def side_by_side(work: Callable[[Any], None], parts: Iterable[Any], workers: int) -> None:
    """``work`` of each part, on so many threads, while a product uses one.

    Where another call has the threads, or ``workers`` is 1, it is done here, one part after the other.
    """
    if workers == 1 or not THREADS_IN_USE.acquire(blocking=False):
        for part in parts:
            work(part)
        return
    try:
        context = contextvars.copy_context()  # how NumPy treats overflow is told there
        with blas().limit(limits=1), ThreadPoolExecutor(workers) as pool:
            for _ in pool.map(lambda part: context.copy().run(work, part), parts):
                pass  # what it raises is raised here
    finally:
        THREADS_IN_USE.release()
