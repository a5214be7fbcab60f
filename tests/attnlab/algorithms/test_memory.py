"""Measured extra memory against the promised formulas, and how it grows."""

import functools
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attnlab.core.geometry import chunk_sizes
from attnlab.measure import attention_bytes, extra_bytes, in_fresh_process, known_flags
from attnlab.tiled.numpy import tiled_attention_backward
from tests.support import needs
from tests.support.libraries import ALGORITHMS, EVERYWHERE, LIBRARIES, function

D = 64
AT_ONCE = dict(naive="matrix", safe="matrix", lazy="key", online="key", chunked="chunk", tiled="tile")
"""The scores that exist at a time."""
LENGTHS = {name: {"matrix": 512, "key": 256}.get(unit, 1024) for name, unit in AT_ONCE.items()}
FACTOR = {name: {"matrix": 4, "chunk": 2.5}.get(unit, 3) for name, unit in AT_ONCE.items()}
LONG = {"lazy": 256, "online": 256, "chunked": 2048, "tiled": 2048}
PLACED = [("tiled", "forward"), ("tiled", "gradient"), ("chunked", "forward")]
QUICK_CODE = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
"""XLA lays memory out before it makes machine code: that may be slow, and is made in half the time."""
# make test measures in JAX and PyTorch what grows with the length, and the rest in NumPy
LATER = [pytest.param(library, marks=() if library == "numpy" else pytest.mark.full) for library in LIBRARIES]
HIDING = dict(causal=True, window=[900, 2], dropout=0.25, seed=3)


def promised(algorithm, n, m, d=D, dv=D):
    """Elements that the forward may hold by the table of the contract, for one head, with default blocks."""
    if AT_ONCE[algorithm] == "matrix":
        return n * m
    if AT_ONCE[algorithm] == "key":
        return n * (dv + 2)
    cq, ck = chunk_sizes(m, dv, None, None)
    if algorithm == "chunked":
        return min(cq, n) * min(ck, m) + min(cq, n) * -(-m // ck) * (dv + 2)
    bq, bk = min(512, n), min(512, m)
    return bq * bk + bq * (2 * d + dv + 2) + bk * (d + dv)


def task(algorithm, library, query, key, value=None, dtype="float32", **rest):
    """A measurement: the arguments of peak_bytes."""
    arrays = {"query": [query, dtype], "key": [key, dtype], "value": [value or key, dtype]}
    kinds = {"mask": "bool", "bias": "float32", "offset": "int32"}
    arrays |= {name: [rest.pop(name), kind] for name, kind in kinds.items() if name in rest}
    options = rest.pop("options", {}) | ({} if rest.get("gradient") else {"return_lse": True})
    return {"method": algorithm, "library": library, "arrays": arrays, "options": options} | rest


def tasks(library):
    """Everything measured for one library, by name, so that one process does it all."""
    todo = {}
    for algorithm in ALGORITHMS:
        n = LENGTHS[algorithm]
        for k in (n, 2 * n):
            todo[algorithm, "forward", k] = task(algorithm, library, [1, k, D], [1, k, D])
        todo[algorithm, "one query"] = task(algorithm, library, [8, 1, D], [1, 1024, D])
    for algorithm, n in LONG.items():
        todo[algorithm, "everything given"] = task(
            algorithm, library, [1, n, 8], [1, n, 8], mask=[1, 1, n], bias=[n, 1], options=HIDING
        )
    for algorithm in ["tiled"] if library == "numpy" else ["chunked", "tiled"]:
        for k in (1024, 2048):
            todo[algorithm, "gradient", k] = task(algorithm, library, [1, k, D], [1, k, D], gradient=True)
        todo[algorithm, "gradient, everything given"] = task(
            algorithm, library, [1, 2048, 8], [1, 2048, 8], mask=[1, 1, 2048], bias=[2048, 1], options=HIDING,
            gradient=True,
        )  # fmt: skip
    for algorithm in ("chunked", "tiled"):
        todo[algorithm, "full mask"] = task(algorithm, library, [1, 2048, 8], [1, 2048, 8], mask=[2048, 2048])
        todo[algorithm, "full bias"] = task(algorithm, library, [1, 2048, 8], [1, 2048, 8], bias=[2048, 2048])
        if library != "jax":  # whose arrays have no layout that a caller chooses
            todo[algorithm, "heads last"] = task(algorithm, library, [2, 4, 16, D], [2, 4, 4096, D], heads_last=True)
    for k in (1024, 2048):
        for hk in (1, 2):
            todo["tiled", "forward", k, hk] = task("tiled", library, [1, 2, k, D], [1, hk, k, D])
    todo["tiled", "half gradient"] = task("tiled", library, [1, 1024, D], [1, 1024, D], dtype="float16", gradient=True)
    for algorithm, name in PLACED:
        call = functools.partial(task, algorithm, library, gradient=name == "gradient")
        todo[algorithm, name, "causal"] = call([1, 1024, D], [1, 1024, D], options={"causal": True})
        for k in (1024, 2048):  # in JAX the offset is traced
            options = {"causal": True} | ({} if library == "jax" else {"offset": k // 2})
            traced = {"offset": []} if library == "jax" else {}
            todo[algorithm, name, "offset", k] = call([1, k, D], [1, k, D], options=options, **traced)
    if library == "jax":
        for name in ("forward", "gradient"):
            todo["tiled", "2²⁰", name] = task("tiled", "jax", *[[1, 2**20, D]] * 2, gradient=name == "gradient")
    return todo


class Peaks(dict):
    """Peak bytes of a library's tasks; of plain calls in one process, of all others in another."""

    def __init__(self, library):
        self.library = library

    def __missing__(self, key):
        todo = {other: one for other, one in tasks(self.library).items() if plain(other) == plain(key)}
        with pytest.MonkeyPatch.context() as here:
            here.setenv("XLA_FLAGS", known_flags(QUICK_CODE), prepend=" ")
            found = list(in_fresh_process("attnlab.measure:peak_bytes", list(todo.values())))
        self.update(zip(todo, found, strict=True))
        return self[key]


def plain(key):
    """Whether a task is a call without options, of one head or one query."""
    return key[1] == "one query" or (len(key) == 3 and isinstance(key[2], int))


@functools.cache
def measured(library):
    """The peaks of a library."""
    needs(library)
    return Peaks(library)


@pytest.mark.thin(3)
@EVERYWHERE
def test_forward_keeps_to_the_formula(algorithm, library):
    for k in (LENGTHS[algorithm], 2 * LENGTHS[algorithm]):
        peak = measured(library)[algorithm, "forward", k]
        assert peak <= 4 * FACTOR[algorithm] * promised(algorithm, k, k) + 16_000  # Python's own objects


@EVERYWHERE
def test_growth(library, algorithm):
    """Twice the queries and keys take at most 2.1 times the memory, unless the whole matrix is held: that is seen."""
    n, held = LENGTHS[algorithm], measured(library)
    small, large = (held[algorithm, "forward", k] for k in (n, 2 * n))
    whole = AT_ONCE[algorithm] == "matrix"
    assert (large <= 2.1 * small) is not whole, f"{small} bytes at {n}, {large} at {2 * n}"
    assert not whole or large >= 4 * (2 * n) ** 2


def below():
    """Algorithms, what is measured, bytes that it stays below, and whether NumPy's is enough every day."""
    tiles = ("chunked", "tiled")
    yield from ((name, "one query", 4 * 2 * 1024 * D, False) for name in ALGORITHMS)  # keys of one head, not repeated
    yield from ((name, "everything given", n**2, True) for name, n in LONG.items())  # not one byte for each (i, j)
    yield from ((name, "gradient, everything given", 2048**2, True) for name in tiles)
    yield from ((name, given, 2048**2, True) for name in tiles for given in ("full mask", "full bias"))  # not copied
    yield from ((name, "heads last", 4 * 2 * 4 * 4096 * D, True) for name in tiles)  # nor are (batch, M, heads, D)


BELOW = [
    pytest.param(library, *row, marks=pytest.mark.full if later and library != "numpy" else ())
    for library in LIBRARIES for *row, later in below() if tuple(row[:2]) in tasks(library)
]  # fmt: skip


@pytest.mark.thin(13)
@pytest.mark.parametrize(("library", "algorithm", "name", "limit"), BELOW)
def test_nothing_is_copied_or_made_a_matrix(library, algorithm, name, limit):
    assert measured(library)[algorithm, name] < limit


@pytest.mark.parametrize("library", LATER)
def test_tiled_forward_does_not_depend_on_n_and_m(library):
    """Nor with several heads: XLA copied the queries when their array had an axis of size 1."""
    for heads in ((), (1,), (2,)):
        small, large = (measured(library)["tiled", "forward", k, *heads] for k in (1024, 2048))
        assert abs(large - small) <= (4000 if library == "numpy" else 0)  # tracemalloc counts Python's objects too


@pytest.mark.parametrize("library", LATER)
@pytest.mark.parametrize(("algorithm", "name"), PLACED)
def test_an_offset_takes_no_memory(algorithm, name, library):
    """In JAX, where it is data, a loop takes its bounds, less than 100 bytes, and carries m and l of 512 queries."""
    peaks, more = measured(library), {"numpy": 12_000, "torch": 0, "jax": 100 + 2 * 4 * 512}[library]
    assert peaks[algorithm, name, "offset", 1024] <= peaks[algorithm, name, "causal"] + more
    grown = peaks[algorithm, name, "offset", 2048] - peaks[algorithm, name, "offset", 1024]
    if algorithm == "tiled":
        assert grown <= (0 if name == "forward" else 4 * 2 * 1024) + (12_000 if library == "numpy" else 0)
    else:
        assert grown <= 1.1 * peaks[algorithm, name, "offset", 1024]


@pytest.mark.parametrize("library", ["jax", "torch"])
@pytest.mark.parametrize("n", [1024, 2048])
def test_chunked_gradient_keeps_to_the_formula(n, library):
    peaks = measured(library)
    assert peaks["chunked", "gradient", n] <= 3 * peaks["chunked", "forward", n] + 4 * (n * D + n * 2 * D)


@pytest.mark.parametrize("library", LIBRARIES)
def test_tiled_gradient_keeps_to_the_formula(library):
    """lse and D, two numbers a query, and tiles."""
    peaks, python = measured(library), 12_000 if library == "numpy" else 0
    for n in (1024, 2048):
        assert peaks["tiled", "gradient", n] <= 4 * (2 * n + 3 * promised("tiled", n, n)) + python
    assert peaks["tiled", "gradient", 2048] - peaks["tiled", "gradient", 1024] <= 4 * 2 * 1024 + python


def test_numpy_gradient_makes_no_array_for_a_dlse_that_is_not_given():
    """Beside lse, which comes from outside, D alone."""
    def peak(n):
        q, out, k, v = (np.ones((size, 8), np.float32) for size in (n, n, 16, 16))
        return extra_bytes(tiled_attention_backward, q, k, v, out, q[:, 0].copy(), out)

    peak(16384)  # the first product that is large enough looks up the limits of threads
    assert peak(16384) - peak(2048) <= 4 * (16384 - 2048) + 12_000


@pytest.mark.parametrize("library", LATER)
def test_tiled_gradient_in_half_precision_also_holds_dq(library):
    n = 1024
    assert measured(library)["tiled", "half gradient"] <= 4 * (2 * n + n * D + 3 * promised("tiled", n, n)) + 12_000


@pytest.mark.full
def test_a_million_tokens_in_jax():
    assert measured("jax")["tiled", "2²⁰", "forward"] < 8_000_000
    most = 4 * (2 * 2**20 + 3 * promised("tiled", 2**20, 2**20))
    assert measured("jax")["tiled", "2²⁰", "gradient"] <= most


def lines(algorithm, n, gradient):
    """Size of the program that JAX hands to its compiler."""
    options = {"chunked": dict(query_chunk_size=64, key_chunk_size=64)}.get(algorithm, {})
    forward = functools.partial(function(algorithm), **options, causal=True)
    f = jax.grad(lambda *x: forward(*x).sum(), argnums=(0, 1, 2)) if gradient else forward
    return jax.jit(f).lower(*[jax.ShapeDtypeStruct((2, n, 8), jnp.float32)] * 3).as_text().count("\n")


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_jax_programs_do_not_grow_with_the_length(algorithm, gradient):
    assert lines(algorithm, 4096, gradient) == lines(algorithm, 2**16, gradient)


def test_numbers_of_numpy_are_of_the_call_alone():
    """What another thread of this process holds, such as those of a notebook's kernel, is not counted."""
    stop = threading.Event()

    def hold():
        while not stop.is_set():
            bytearray(10**7)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        peak = attention_bytes("naive", "numpy", [512])[512]
    finally:
        stop.set()
        thread.join()
    assert peak == pytest.approx(measured("numpy")["naive", "forward", 512], rel=0.01)


GROWTH = """
import resource
import sys
import torch, numpy as np
from attnlab import chunked_attention
from attnlab.measure import torch_bytes
rng = np.random.default_rng(0)
arrays = [torch.asarray(rng.standard_normal((1, n, 64), dtype=np.float32)) for n in (1024, 2**18, 2**18)]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
torch_bytes(lambda *x: chunked_attention(*x, query_chunk_size=1024, key_chunk_size=4096), *arrays)
unit = 1 if sys.platform == "darwin" else 1024  # bytes in macOS, KiB in Linux
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit // 2**20)
"""


@pytest.mark.full
def test_summaries_do_not_scatter_over_the_heap():
    """Kept between two large tiles a summary can pin the heap: the process then grew by 1.3 to 2 GiB, not by 0.2."""
    needs("torch")
    done = subprocess.run([sys.executable, "-c", GROWTH], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 600
