"""Peak extra memory of a call, exact and repeatable: beyond its inputs and its result, in bytes.

NumPy: tracemalloc sees every array buffer. PyTorch: the profiler's allocation events on a CPU, the
allocator's counter on a GPU. JAX: the compiler's own account of temporary memory, without running.
"""

import functools
import importlib
import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

from attnlab.arguments import kind_of

import numpy as np

HONEST_XLA = "--xla_cpu_experimental_ynn_fusion_type="
"""Without this flag XLA's account for a CPU leaves out the scratch memory of some fusions. Times must be
measured without it."""


def honest_xla() -> None:
    """Have XLA count all memory in this process, so that JAX functions can be measured in it.

    Call before jax is imported; RuntimeError if it is too late. Times taken afterwards are not XLA's best.
    """
    flags = os.environ.get("XLA_FLAGS", "").split()
    if HONEST_XLA not in flags:
        if "jax" in sys.modules:
            raise RuntimeError("jax is imported already; call honest_xla() first")
        os.environ["XLA_FLAGS"] = " ".join([*flags, HONEST_XLA])


def extra_bytes(function: Callable, *arrays: Any) -> int:
    """Peak memory of ``function(*arrays)`` in bytes, beyond ``arrays`` and beyond what it returns.

    The library of the first array chooses the instrument. For JAX, ``function`` is compiled, not run, and
    RuntimeError is raised on a CPU unless ``XLA_FLAGS`` held ``HONEST_XLA`` before jax was imported.
    """
    kind = kind_of(arrays[0])
    return {"numpy": numpy_bytes, "torch": torch_bytes, "jax": jax_bytes}[kind](function, *arrays)


def numpy_bytes(function: Callable, *arrays: Any) -> int:
    """Traced peak, less the result."""
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    result = function(*arrays)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak - before - result_bytes(result)


def torch_bytes(function: Callable, *arrays: Any) -> int:
    """Highest running sum of the allocator's events, less the result."""
    import torch

    if arrays[0].is_cuda:
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        result = function(*arrays)
        return torch.cuda.max_memory_allocated() - before - result_bytes(result)
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # else the profiler writes to stderr when it starts and stops
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        result = function(*arrays)
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak - result_bytes(result)


def jax_bytes(function: Callable, *arrays: Any) -> int:
    """The compiler's temporary memory of ``function``, which is not run: jax.ShapeDtypeStruct will do for arrays."""
    import jax

    if jax.default_backend() == "cpu" and HONEST_XLA not in os.environ.get("XLA_FLAGS", "").split():
        raise RuntimeError(f"set XLA_FLAGS={HONEST_XLA} before jax is imported: without it XLA hides memory")
    return jax.jit(function).lower(*arrays).compile().memory_analysis().temp_size_in_bytes


def result_bytes(result: Any) -> int:
    """Bytes of the arrays that a call returned."""
    return sum(x.nbytes for x in (result if isinstance(result, tuple | list) else [result]))


def attention_bytes(
    method: str, library: str, lengths: Sequence[int], *, d: int = 64, gradient: bool = False, **options: Any
) -> dict[int, int]:
    """Measured extra memory of one attention function at N = M = each of ``lengths``, in bytes.

    One head of size ``d`` in float32; ``gradient`` measures the call and its gradient by query, key and
    value together. JAX is measured in a process of its own, which has the flag that the instrument needs.
    """
    task = {"method": method, "library": library, "lengths": list(lengths), "d": d, "gradient": gradient}
    return many_bytes([{**task, "options": options}])[0]


def many_bytes(tasks: Sequence[dict[str, Any]]) -> list[dict[int, int]]:
    """:func:`attention_bytes` for several tasks; those of JAX share one process."""
    found: dict[int, dict[int, int]] = {}
    theirs = {i: task for i, task in enumerate(tasks) if task["library"] == "jax"}
    if theirs:
        flags = f"{os.environ.get('XLA_FLAGS', '')} {HONEST_XLA}".strip()
        command = [sys.executable, "-m", "attnlab.measure", json.dumps(list(theirs.values()))]
        done = subprocess.run(command, env={**os.environ, "XLA_FLAGS": flags}, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"the measuring process failed:\n{done.stderr}")
        found = dict(zip(theirs, json.loads(done.stdout.splitlines()[-1])))
        found = {i: {int(n): size for n, size in sizes.items()} for i, sizes in found.items()}
    return [found[i] if i in found else measure_lengths(**task) for i, task in enumerate(tasks)]


def measure_lengths(
    method: str, library: str, lengths: Sequence[int], d: int, gradient: bool, options: dict[str, Any]
) -> dict[int, int]:
    """The work of :func:`attention_bytes`, done in this process."""
    module = importlib.import_module(f"attnlab.{method}.{library}")
    forward = functools.partial(getattr(module, f"{method}_attention"), **options)
    call = functools.partial(GRADIENTS[library], forward) if gradient else forward
    sizes = {}
    for n in lengths:
        rng = np.random.default_rng(n)
        count = 4 if gradient else 3
        if library == "jax":
            import jax

            sizes[n] = jax_bytes(call, *[jax.ShapeDtypeStruct((1, n, d), np.float32)] * count)
            continue
        arrays = [rng.standard_normal((1, n, d), dtype=np.float32) for _ in range(count)]
        if library == "torch":
            import torch

            arrays = [torch.asarray(x) for x in arrays]
            if not sizes:
                call(*arrays)  # a library's first call also allocates what it keeps for good
        sizes[n] = extra_bytes(call, *arrays)
    return sizes


def numpy_gradient(forward: Callable, query: Any, key: Any, value: Any, dout: Any) -> tuple:
    """(out, dq, dk, dv) by the explicit backward of tiled attention."""
    from attnlab.tiled.numpy import tiled_attention_backward

    out, lse = forward(query, key, value, return_lse=True)
    return out, *tiled_attention_backward(query, key, value, out, lse, dout, **forward.keywords)


def torch_gradient(forward: Callable, query: Any, key: Any, value: Any, dout: Any) -> tuple:
    """(out, dq, dk, dv) by autograd."""
    import torch

    inputs = [x.detach().requires_grad_() for x in (query, key, value)]
    out = forward(*inputs)
    return out.detach(), *torch.autograd.grad(out, inputs, dout)


def jax_gradient(forward: Callable, query: Any, key: Any, value: Any, dout: Any) -> tuple:
    """(out, dq, dk, dv) by reverse mode."""
    import jax

    out, pull = jax.vjp(forward, query, key, value)
    return out, *pull(dout)


GRADIENTS = {"numpy": numpy_gradient, "torch": torch_gradient, "jax": jax_gradient}

if __name__ == "__main__":
    print(json.dumps([measure_lengths(**task) for task in json.loads(sys.argv[1])]))

def binary(size: int) -> str:
    """A number of bytes in the largest binary unit that divides it well."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            return f"{size:.4g} {unit}"
        size = size / 1024
    raise AssertionError
