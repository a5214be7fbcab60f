"""What XLA plans for functions of a notebook, compiled in a process of its own, where JAX's account is honest.

``measure.in_fresh_process`` imports what it calls; functions that stand in a notebook travel as text instead.
"""

import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence

HEAD = """
import functools
import sys
from attnlab import measure
measure.honest_xla()
import jax
import jax.numpy as jnp
from jax import lax
from attnlab_course.instruments.planned import planned_bytes, process_peak
"""


def printed_by_a_process(functions: Sequence[Callable], *calls: str) -> Iterator[int]:
    """Define ``functions`` in a new process, run ``calls``, given as text, and yield the integers that they print."""
    source = "\n".join([HEAD, *map(inspect.getsource, functions), *calls])
    with subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True) as process:
        yield from map(int, process.stdout)
    if process.returncode:
        raise RuntimeError(f"the process that compiles ended with {process.returncode}")


def planned_bytes(attention: Callable, lengths: Sequence[int]) -> None:
    """Print the temporary memory that XLA plans for one head of size 64 in float32, a line a length; nothing is run."""
    import jax

    from attnlab import measure

    for n in lengths:
        shape = jax.ShapeDtypeStruct((n, 64), "float32")
        print(measure.jax_bytes(attention, shape, shape, shape), flush=True)


def process_peak(attention: Callable, n: int) -> None:
    """Print what XLA plans for one head of size 64, and by how much the peak of this process grows when it runs."""
    import resource

    import jax
    import psutil

    x = jax.numpy.ones((n, 64))
    call = jax.jit(attention).lower(x, x, x).compile()
    before = psutil.Process().memory_info().rss
    call(x, x, x).block_until_ready()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    print(call.memory_analysis().temp_size_in_bytes, peak - before, sep="\n", flush=True)
