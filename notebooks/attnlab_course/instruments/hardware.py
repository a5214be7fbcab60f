"""Machines as two numbers: arithmetic per second and bytes per second.

``ACCELERATORS`` are named ones, from their datasheets; ``this_machine()`` measures the reader's in a few seconds and
returns the same type of object. Taught in notebook 07. What three of the named ones consist of, ``MULTIPROCESSORS``,
their L2 caches included, is for notebooks 07, 12 and 13.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from attnlab.core.arguments import FLOATS, LIBRARIES, check_choice


KIB, GIB = 2**10, 2**30


@dataclass(frozen=True)
class Accelerator:
    """One machine with one memory.

    flops: peak of dense matrix products, FLOP/s, in half precision unless the source says otherwise. bandwidth: of
    the memory, B/s. memory: its size in bytes; GB of a datasheet are GiB unless the source says other. on_chip: bytes
    of fast memory that a program fills itself, without caches, all units together, None if unknown. source: of these.
    """

    name: str
    flops: float
    bandwidth: float
    memory: int
    on_chip: int | None
    source: str

    @property
    def balance(self) -> float:
        """FLOP for each byte moved at which arithmetic and memory are busy equally long."""
        return self.flops / self.bandwidth

    def attainable(self, intensity: float | int) -> float:
        """The roof over an arithmetic intensity, in FLOP/s: the memory's slope, then the peak."""
        return min(self.flops, self.bandwidth * intensity)

    def time(self, flops: float | int, bytes_moved: float | int) -> float:
        """Seconds at the least: arithmetic and transfers overlap, so the longer of the two."""
        return max(flops / self.flops, bytes_moved / self.bandwidth)

    def decoding(
        self, weights: float | int, cache: float | int, batch: int = 1, *, group: int = 1, itemsize: int = 2
    ) -> tuple[float, float]:
        """Seconds of a step of decoding at the least, by memory and by arithmetic: the longer one bounds it.

        By memory (weights + batch · cache) / bandwidth: all sequences share one reading of the weights, and each has a
        cache of its own. ``weights``, ``cache``: bytes, the latter of one sequence, all layers together; ``itemsize``
        bytes each number. By arithmetic: every sequence multiplies and adds once for each weight, and once for each
        number of its cache and each of the ``group`` query heads that share a key head.
        """
        flops = 2 * batch * (weights + group * cache) / itemsize
        return (weights + batch * cache) / self.bandwidth, flops / self.flops


ACCELERATORS = {
    machine.name: machine
    for machine in (
        Accelerator("T4", 65e12, 300e9, 16 * GIB, 40 * 64 * KIB,
                    "NVIDIA T4 datasheet; Turing white paper: 40 multiprocessors of 64 KB shared memory"),
        Accelerator("TPU v3", 123e12, 900e9, 32 * GIB, 2 * 16 * 2**20,
                    "Google Cloud documentation, one chip, bfloat16; Norrie et al. 2021: 2 cores of 16 MiB"),
        Accelerator("A100 40 GB", 312e12, 1.555e12, 40 * GIB, 108 * 164 * KIB,
                    "NVIDIA A100 datasheet, SXM, dense; Ampere white paper: 108 multiprocessors of 164 KB shared"),
        Accelerator("A100 80 GB", 312e12, 2.039e12, 80 * GIB, 108 * 164 * KIB,
                    "NVIDIA A100 datasheet, SXM, dense; Ampere white paper: 108 multiprocessors of 164 KB shared"),
        Accelerator("H100", 989.4e12, 3.35e12, 80 * GIB, 132 * 228 * KIB,
                    "NVIDIA H100 datasheet, SXM, half of the rate with sparsity; 132 multiprocessors of 228 KB"),
        Accelerator("H200", 989.4e12, 4.8e12, 143_771 * 2**20, 132 * 228 * KIB,
                    "NVIDIA H200 datasheet, SXM, half of the rate with sparsity; 132 multiprocessors of 228 KB; memory "
                    "as the driver reports"),
        Accelerator("MI300X", 1307.4e12, 5.3e12, 192 * GIB, 304 * 64 * KIB,
                    "AMD Instinct MI300X datasheet, dense; 304 compute units of 64 KB local data share"),
        Accelerator("B200", 2.25e15, 8e12, 183_359 * 2**20, None,
                    "NVIDIA Blackwell architecture technical brief, dense, at 1000 W; memory as the driver reports"),
    )
}
"""Named accelerators by name, oldest first."""


@dataclass(frozen=True)
class Multiprocessors:
    """The units of a GPU on which the programs of a kernel run, each with fast memory of its own.

    count: how many there are. registers, shared: bytes in each, and of the latter what one program may have. vector:
    float32 FLOP/s outside of matrix products, all units together. special: exponentials in each, per cycle. clock: Hz.
    l2: bytes of the L2 cache, between them and the memory. l2_cycle: bytes that it delivers per cycle to all units,
    at its peak, None if unknown.
    """

    count: int
    registers: int
    shared: int
    vector: float
    special: int
    clock: float
    l2: int
    l2_cycle: int | None
    source: str

    @property
    def l2_bandwidth(self) -> float | None:
        """Peak of bytes per second from the L2 cache, all units together; None if unknown."""
        return self.l2_cycle and self.l2_cycle * self.clock

    @property
    def exponentials(self) -> float:
        """Exponentials per second, all units together."""
        return self.count * self.special * self.clock


# H100: NVIDIA gives no rate of its L2; assumed is the A100's, in bytes per clock. ``clock`` is that of the tensor rate,
# 1.83 GHz for the H100 and 1.855 for the B200; the vector rates of both are those of 1.98.
MULTIPROCESSORS = {
    "A100": Multiprocessors(108, 256 * KIB, 163 * KIB, 19.5e12, 16, 1.41e9, 40 * 2**20, 5120,
                            "NVIDIA A100 datasheet; CUDA programming guide, compute capability 8.0; Ampere white "
                            "paper: 40 MB of L2, 5120 bytes per clock"),
    "H100": Multiprocessors(132, 256 * KIB, 227 * KIB, 67e12, 16, 1.83e9, 50 * 2**20, 5120,
                            "NVIDIA H100 datasheet, SXM; CUDA programming guide, compute capability 9.0; Hopper white "
                            "paper: 50 MB of L2; its rate: assumed, bytes per clock as the A100"),
    "B200": Multiprocessors(148, 256 * KIB, 227 * KIB, 75e12, 16, 1.855e9, 126 * 2**20, None,
                            "NVIDIA HGX B200 datasheet; CUDA programming guide, compute capability 10.0; Blackwell "
                            "tuning guide: 126 MB of L2; 148 multiprocessors, as the driver reports"),
}
"""Inside of three of them, by the name of the chip."""


def this_machine(library: str = "numpy", dtype: str = "float32", *, seconds: float | int = 1.0) -> Accelerator:
    """Measure the machine this runs on: matrix products in ``dtype``, and an array streamed through memory.

    Rate and bandwidth are the best that the library reached, about ``seconds`` spent on each: what its programs can
    hope for here, not what a datasheet promises. PyTorch runs on the CPU, JAX on its default device. Raises
    ValueError for a library or a dtype that there is not.
    """
    matmul, add = operations(library, dtype)
    flops, run = product_rate(matmul, seconds), add(2**27)
    run()
    return Accelerator(  # each byte is read once and written once
        f"this machine, {library}, {dtype}", flops, 2 * 2**27 / fastest(run, seconds), memory_size(), None,
        "measured: the best of repeated matrix products, and of adding 1 in place to an array of 128 MiB",
    )


def product_rate(matmul: Callable[[int], Callable], seconds: float | int) -> float:
    """FLOP/s of the fastest n×n product; n doubles until a single one takes a good part of ``seconds``."""
    rates, n, taken = [], 64, 0.0
    while taken < seconds / 8 and n <= 16384:
        run = matmul(n)
        run()
        taken = fastest(run, seconds / 16)
        rates.append((2 * n**3 / taken, n, run))
        n *= 2
    rate, n, run = max(rates, key=lambda found: found[0])
    return max(rate, 2 * n**3 / fastest(run, seconds))


def fastest(run: Callable[[], Any], seconds: float | int) -> float:
    """The shortest time of a call, over rounds that last ``seconds`` together; three at least."""
    shortest, end, rounds = float("inf"), time.perf_counter() + seconds, 0
    while rounds < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        shortest, rounds = min(shortest, time.perf_counter() - start), rounds + 1
    return shortest


def operations(library: str, dtype: str) -> tuple[Callable[[int], Callable], Callable[[int], Callable]]:
    """Two functions that make calls to time: of n, a product of n×n matrices; of a size in bytes, x += 1 on float32.

    The second is always float32: memory does not know what its bytes mean, but half precision may be slow to add.
    """
    check_choice("library", library, LIBRARIES)
    check_choice("dtype", dtype, [name for name in FLOATS if (library, name) != ("numpy", "bfloat16")])
    return _jax_operations(dtype) if library == "jax" else _operations_in_place(import_module(library), dtype)


def _operations_in_place(xp: Any, dtype: str) -> tuple[Callable, Callable]:
    """In NumPy and PyTorch."""

    def matmul(n: int) -> Callable:
        a = xp.full((n, n), 0.5, dtype=getattr(xp, dtype))
        out = xp.empty_like(a)
        return lambda: xp.matmul(a, a, out=out)

    def add(size: int) -> Callable:
        x = xp.zeros(size // 4, dtype=xp.float32)
        return lambda: xp.add(x, 1, out=x)

    return matmul, add


def _jax_operations(dtype: str) -> tuple[Callable, Callable]:
    """On JAX's default device; the array's memory is donated, so that the sum takes its place."""
    import jax
    import jax.numpy as jnp

    def matmul(n: int) -> Callable:
        with jax.enable_x64(dtype == "float64"):
            a = jnp.full((n, n), 0.5, dtype)
            product = jax.jit(lambda a: a @ a).lower(a).compile()
        return lambda: product(a).block_until_ready()

    def add(size: int) -> Callable:
        held = [jnp.zeros(size // 4, jnp.float32)]
        plus = jax.jit(lambda x: x + 1, donate_argnums=0)

        def run() -> None:
            held[0] = plus(held[0]).block_until_ready()

        return run

    return matmul, add


def memory_size() -> int:
    """Bytes of memory of this machine; 0 where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0
