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
import tempfile
import tracemalloc
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, get_args

from attnlab.core.arguments import LIBRARIES, check_choice, kind_of
from attnlab.core.other_names import ends_at_call
from attnlab.core.signature import Method

import numpy as np

HONEST_XLA = "--xla_cpu_experimental_ynn_fusion_type="
"""Without this flag XLA's account for a CPU leaves out the scratch memory of some fusions. Times must be
measured without it. Where an XLA doesn't have it, memory is measured without it, after a warning."""
QUICKLY = {
    "xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_use_fusion_emitters": False,
}  # fmt: skip
"""What XLA is told where a program is not run: on a CPU it plans the memory before it makes machine code."""


@functools.cache
def known_flags(flags: str) -> str:
    """Those of ``flags`` that XLA has; all, if there is no JAX.

    XLA ends a process that sets another, so a child process tries them, for a second: all at once, then one by one.
    """
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", "import jax; jax.devices()"]
    if find_spec("jax") is None or subprocess.run(command, env=environment, capture_output=True).returncode == 0:
        return flags
    names = flags.split()
    return " ".join(filter(None, map(known_flags, names))) if len(names) > 1 else ""


def _honest_flag() -> str:
    """``HONEST_XLA``, or nothing, after a warning, where XLA doesn't have it."""
    if not (flag := known_flags(HONEST_XLA)):
        words = f"this XLA has no flag {HONEST_XLA}, so memory is measured without it, and some scratch may be left out"
        warnings.warn(words, stacklevel=3)
    return flag


def honest_xla() -> None:
    """Have XLA count all memory in this process, so that JAX functions can be measured in it.

    Call before jax is imported; RuntimeError if it is too late. Times taken afterwards are not XLA's best.
    """
    flags = os.environ.get("XLA_FLAGS", "").split()
    if HONEST_XLA not in flags:
        if "jax" in sys.modules:
            raise RuntimeError("jax is imported already; call honest_xla() first")
        os.environ["XLA_FLAGS"] = " ".join([*flags, _honest_flag()]).strip()


@ends_at_call
def extra_bytes(function: Callable, *arrays: Any) -> int:
    """Peak memory of ``function(*arrays)`` in bytes, beyond ``arrays`` and beyond what it returns.

    The library of the first array chooses the instrument. For JAX, ``function`` is compiled, not run, and
    RuntimeError is raised on a CPU unless ``XLA_FLAGS`` held ``HONEST_XLA``, if XLA has it, before jax was imported.
    """
    kind = kind_of(arrays[0]) if arrays else None
    if kind is None:
        what = f"the first of arrays is of type {type(arrays[0]).__name__}" if arrays else "there are no arrays"
        raise TypeError(f"{what}; extra_bytes(function, array, ...) takes those that function is called with")
    return {"numpy": _numpy_bytes, "torch": torch_bytes, "jax": jax_bytes}[kind](function, *arrays)


def _numpy_bytes(function: Callable, *arrays: Any) -> int:
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
    with torch.autograd.profiler.profile(profile_memory=True) as profile:  # torch.profiler's imports Inductor, too
        result = function(*arrays)
    events = [e for e in profile.kineto_results.events() if e.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak - result_bytes(result)


def jax_bytes(function: Callable, *arrays: Any) -> int:
    """The compiler's temporary memory of ``function``, which is not run: jax.ShapeDtypeStruct will do for arrays."""
    import jax

    on_cpu = jax.default_backend() == "cpu"
    if on_cpu and HONEST_XLA not in os.environ.get("XLA_FLAGS", "").split() and _honest_flag():
        raise RuntimeError(f"set XLA_FLAGS={HONEST_XLA} before jax is imported: without it XLA hides memory")
    program, options = jax.jit(function).lower(*arrays), dict(QUICKLY if on_cpu else {})
    while True:
        try:
            return program.compile(compiler_options=options or None).memory_analysis().temp_size_in_bytes
        except jax.errors.JaxRuntimeError:  # an option that XLA doesn't have: the newest goes first
            if not options:
                raise
            options.popitem()


def result_bytes(result: Any) -> int:
    """Bytes of the arrays that a call returned."""
    return sum(x.nbytes for x in (result if isinstance(result, tuple | list) else [result]))


def binary(size: int, digits: int = 4) -> str:
    """A number of bytes in the largest binary unit that divides it well."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            return f"{size:.{digits}g} {unit}"
        size = size / 1024
    raise AssertionError


@ends_at_call
def attention_bytes(
    method: str, library: str, lengths: Sequence[int], *, d: int = 64, gradient: bool = False, **options: Any
) -> dict[int, int]:
    """Measured extra memory of one attention function at N = M = each of ``lengths``, in bytes.

    One head of size ``d`` in float32; ``gradient`` measures the call and its gradient by query, key and
    value together. NumPy and JAX are measured in a process of their own: what other threads of this one allocate would
    count as NumPy's, and JAX's instrument needs a flag.
    """
    check_choice("method", method, get_args(Method)), check_choice("library", library, LIBRARIES)
    task = {"method": method, "library": library, "lengths": list(lengths), "d": d, "gradient": gradient}
    return many_bytes([{**task, "options": options}])[0]


def many_bytes(tasks: Sequence[dict[str, Any]]) -> list[dict[int, int]]:
    """:func:`attention_bytes` for several tasks; those of NumPy and JAX share one process."""
    apart = [task for task in tasks if task["library"] != "torch"]
    measured = iter(list(in_fresh_process("attnlab.measure:_at_lengths", apart)) if apart else [])
    sizes = [_at_lengths(**task) if task["library"] == "torch" else next(measured) for task in tasks]
    return [dict(zip(task["lengths"], found)) for task, found in zip(tasks, sizes)]


def _at_lengths(
    method: str, library: str, lengths: Sequence[int], d: int, gradient: bool, options: Mapping[str, Any]
) -> list[int]:
    """The work of :func:`attention_bytes`, done in this process."""
    sizes: list[int] = []
    for n in lengths:
        arrays = dict.fromkeys(("query", "key", "value"), ((1, n, d), "float32"))
        warm = library != "jax" and not sizes
        sizes.append(peak_bytes(method, library, arrays, options, gradient=gradient, warm=warm))
    return sizes


def peak_bytes(
    method: str, library: str, arrays: Mapping[str, tuple], options: Mapping[str, Any], *, gradient: bool = False,
    heads_last: bool = False, warm: bool = True,
) -> int:
    """Extra memory of one call of ``method``, in bytes, measured in this process.

    ``arrays``: shape and dtype by argument, query, key and value first; they hold ones, or True. ``gradient``: of the
    call and its gradient by those three together. ``heads_last``: they lie as (..., length, heads, size). ``warm``:
    call once before, as a library's first call also allocates what it keeps for good. JAX compiles and does not run.
    """
    attention = getattr(importlib.import_module(f"attnlab.{method}.{library}"), f"{method}_attention")
    shapes = list(arrays.values())
    if gradient:
        shapes.append(((*arrays["query"][0][:-1], arrays["value"][0][-1]), arrays["query"][1]))
    inputs = [_ones(library, tuple(shape), dtype, heads_last) for shape, dtype in shapes]

    def call(query: Any, key: Any, value: Any, *others: Any) -> Any:
        forward = functools.partial(attention, **dict(zip(list(arrays)[3:], others)), **options)
        return GRADIENTS[library](forward, query, key, value, others[-1]) if gradient else forward(query, key, value)

    if library == "jax":
        return jax_bytes(call, *inputs)
    if warm:
        call(*inputs)
    return extra_bytes(call, *inputs)


def _ones(library: str, shape: tuple[int, ...], dtype: str, heads_last: bool) -> Any:
    """An array of ones; for JAX its shape and dtype alone."""
    if library == "jax":
        import jax

        return jax.ShapeDtypeStruct(shape, dtype)
    swap = heads_last and len(shape) > 3
    x = np.ones((*shape[:-3], shape[-2], shape[-3], shape[-1]) if swap else shape, dtype)
    if library == "torch":
        import torch

        x = torch.from_numpy(x)
    return x.swapaxes(-2, -3) if swap else x


def in_fresh_process(function: str, tasks: Sequence[dict[str, Any]]) -> Iterator[Any]:
    """Call ``function``, such as "package.module:name", with each task's arguments in one new process; yield results.

    There JAX's account is honest, as after :func:`honest_xla`, which says where it can't be. Arguments and results must
    be JSON. Raises RuntimeError with what the process said if it fails.
    """
    flags = f"{os.environ.get('XLA_FLAGS', '')} {_honest_flag()}".strip()
    environment = {**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "attnlab.measure", function]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with tempfile.TemporaryFile("w+") as errors:
        with subprocess.Popen(command, env=environment, stderr=errors, **pipes) as process:
            process.stdin.write(json.dumps(list(tasks)))
            process.stdin.close()
            yield from map(json.loads, process.stdout)
        if process.returncode:
            errors.seek(0)
            raise RuntimeError(f"the measuring process failed:\n{errors.read()}")


def _numpy_gradient(forward: Callable, query: Any, key: Any, value: Any, dout: Any) -> tuple:
    """(out, dq, dk, dv) by the explicit backward of tiled attention."""
    from attnlab.tiled.numpy import tiled_attention_backward

    out, lse = forward(query, key, value, return_lse=True)
    return out, *tiled_attention_backward(query, key, value, out, lse, dout, **forward.keywords)


def _torch_gradient(forward: Callable, query: Any, key: Any, value: Any, dout: Any) -> tuple:
    """(out, dq, dk, dv) by autograd."""
    import torch

    inputs = [x.detach().requires_grad_() for x in (query, key, value)]
    out = forward(*inputs)
    return out.detach(), *torch.autograd.grad(out, inputs, dout)


def _jax_gradient(forward: Callable, query: Any, key: Any, value: Any, dout: Any) -> tuple:
    """(out, dq, dk, dv) by reverse mode."""
    import jax

    out, pull = jax.vjp(forward, query, key, value)
    return out, *pull(dout)


GRADIENTS = {"numpy": _numpy_gradient, "torch": _torch_gradient, "jax": _jax_gradient}
"""(out, dq, dk, dv) of a function, query, key, value and the gradient of out, by library."""


if __name__ == "__main__":  # run the tasks that in_fresh_process sends, and print each result as a line of JSON
    module, _, name = sys.argv[1].partition(":")
    function = getattr(importlib.import_module(module), name)
    for task in json.load(sys.stdin):
        print(json.dumps(function(**task)), flush=True)
