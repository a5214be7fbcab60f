"""What a small call costs beyond its arithmetic (``--overhead``): 64 queries, or one, against 64 keys of 8 heads.

The arithmetic is safe attention written out in the library's own operations, without checks or options. Beside it
stands PyTorch's scaled_dot_product_attention. Nothing asks for a gradient; in JAX all calls are compiled.
"""

import importlib
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attnlab import tiled_attention
from attnlab_course.bench.calls import inputs
from attnlab_course.bench.contestants import ORDER, UNIT, Contestant, available
from attnlab_course.bench.setting import Setting
from attnlab_course.bench.table import grid
from attnlab_course.instruments.timing import timed

SETTINGS = [Setting(n, 64) for n in (64, 1)]
HEAD = "", "call", "arithmetic", "overhead", "sdpa", "call ÷ sdpa"


def print_overheads(rounds: int | None, seconds: float | int) -> None:
    """Measure every library that is installed, and print a table for each number of queries."""
    libraries, _ = available("cpu", ORDER)
    for setting in SETTINGS:
        taken = timed(small_calls(libraries, setting), rounds, seconds)
        print(f"{setting}; µs", *grid(HEAD, overheads(libraries, taken)), "", sep="\n", flush=True)


def small_calls(libraries: Sequence[str], setting: Setting) -> dict[str, Callable[[], object]]:
    """PyTorch's own attention; in each library tiled attention and the arithmetic."""
    found = {}
    for library in libraries:
        *arrays, _ = inputs(Contestant(library, "tiled"), setting)
        functions = {f"{library} tiled": tiled_attention, f"{library} arithmetic": _written_out(library)}
        if library == UNIT.library:
            from torch.nn.functional import scaled_dot_product_attention

            functions[UNIT.name] = scaled_dot_product_attention
        for name, function in functions.items():
            found[name] = _compiled(function, arrays) if library == "jax" else _bound(function, arrays)
    return found


def _bound(function: Callable, arrays: Sequence[Any]) -> Callable[[], object]:
    """A call without arguments."""
    return lambda: function(*arrays)


def _compiled(function: Callable, arrays: Sequence[Any]) -> Callable[[], object]:
    """A call without arguments of the compiled function, which ends when the result is there."""
    import jax

    function = jax.jit(function)
    return lambda: function(*arrays).block_until_ready()


def _written_out(library: str) -> Callable[[Any, Any, Any], Any]:
    """Safe attention of query, key and value in six operations of the library."""
    xp = importlib.import_module("jax.numpy" if library == "jax" else library)

    def attention(query: Any, key: Any, value: Any) -> Any:
        s = query @ key.mT * query.shape[-1] ** -0.5
        p = xp.exp(s - xp.amax(s, axis=-1, keepdims=True))
        return p / xp.sum(p, axis=-1, keepdims=True) @ value

    return attention


def overheads(libraries: Sequence[str], taken: Mapping[str, Sequence[float]]) -> Iterator[list[str]]:
    """Rows in µs: the median of the rounds and the fastest round."""
    judges = {"median": statistics.median, "fastest": min}
    for library in libraries:
        for name, judge in judges.items():
            call, bare = (1e6 * judge(taken[f"{library} {what}"]) for what in ("tiled", "arithmetic"))
            unit = 1e6 * judge(taken[UNIT.name]) if UNIT.name in taken else None
            beside = ["", ""] if unit is None else [f"{unit:.1f}", f"{call / unit:.2f}"]
            yield [f"{library} tiled, {name}", f"{call:.1f}", f"{bare:.1f}", f"{call - bare:.1f}", *beside]
