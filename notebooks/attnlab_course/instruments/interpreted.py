"""A kernel run where there is no GPU: its programs one after another, in Triton's interpreter, on memory with an end.

For lessons and exercises. Arguments that are arrays become pointers into one piece of memory, with NaN before and after
each array: what a kernel reads there it computes with. Beyond the piece it can read nothing.
"""

import contextlib
import functools
from collections import Counter
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from attnlab.kernels.triton.gpu import check_interpreter

import numpy as np
import torch
import triton
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.jit import JITFunction

GUARD = 256  # numbers before and after each array
BFLOAT16 = "Triton's interpreter takes the bits of bfloat16 for integers when it computes: widen it to float32 first"
Function = Callable[..., Any]


def interpreted(kernel: Function, *, grid: Callable[..., tuple[int, ...]], out: int) -> Function:
    """A function that runs ``kernel`` for each program of ``grid(*arguments)`` and returns argument number ``out``.

    ``kernel`` may come with ``@triton.jit`` or without. The function takes the kernel's arguments, its arrays as
    NumPy's, which are not changed; they are stored in float16 if that is what they are, else in float32. Its ``counts``
    are of its last call: numbers loaded and stored, and how many of them outside of its arrays; loads under a mask,
    products (``tl.dot``), choices (``tl.where``) and divisions, one for each tile. Raises IndexError if the kernel
    writes anywhere but in its output, or reads far outside of its arrays, TypeError if it is no function or computes in
    bfloat16, which the interpreter can't, NotImplementedError where this Triton doesn't run with this NumPy; its own
    errors are raised as they are.
    """
    check_interpreter()
    kernel = getattr(kernel, "fn", kernel)

    @functools.wraps(kernel)
    def run(*args: Any) -> np.ndarray:
        if not isinstance(kernel, FunctionType):
            raise TypeError(f"a kernel is a function, with @triton.jit or without; this is a {type(kernel).__name__}")
        kernel.__globals__.setdefault("tl", tl)  # so that a file of kernels can be read where there is no Triton
        memory, places = _laid_out(args)
        before = memory.clone()
        views = [_view(memory[places[i]], x) if i in places else x for i, x in enumerate(args)]
        inside = np.zeros(len(memory), bool)
        for place in places.values():
            inside[place] = True
        with _watched(memory, inside) as run.counts, triton.knobs.runtime.scope():
            triton.knobs.runtime.interpret = not isinstance(tl.cdiv, JITFunction)  # as when Triton was imported
            try:
                _executor(kernel, grid(*args))(*views)
            except interpreter.InterpreterError as error:
                while isinstance(error, interpreter.InterpreterError) and error.__cause__:  # one for each function
                    error = error.__cause__
                raise error from None
        before[places[out]] = memory[places[out]]
        if not np.array_equal(before.numpy(), memory.numpy(), equal_nan=True):
            raise IndexError("the kernel writes outside of its output")
        return views[out].numpy().copy()

    run.counts = Counter()
    return run


def _laid_out(args: tuple) -> tuple[torch.Tensor, dict[int, slice]]:
    """Memory with the arrays among ``args`` in it, and where each lies."""
    parts, places, end = [np.full(GUARD, np.nan, np.float32)], {}, GUARD
    for i, x in enumerate(args):
        if isinstance(x, np.ndarray):
            numbers = x.ravel().astype(_stored(x))
            if numbers.nbytes % 4:
                numbers = np.append(numbers, np.float16(np.nan))
            parts += [numbers.view(np.float32), parts[0]]
            places[i] = slice(end, end + len(parts[-2]))
            end += len(parts[-2]) + GUARD
    return torch.asarray(np.concatenate(parts)), places


def _stored(x: np.ndarray) -> type:
    """The dtype in which an array lies in memory."""
    return np.float16 if x.dtype == np.float16 else np.float32


def _view(place: torch.Tensor, x: np.ndarray) -> torch.Tensor:
    """A place in memory in the dtype and the shape of the array that lies there."""
    return place.view(torch.float16 if _stored(x) is np.float16 else torch.float32)[: x.size].view(x.shape)


def _executor(kernel: Function, grid: tuple[int, ...]) -> Any:
    """What runs a kernel. Triton's own doesn't know constants whose annotation stands in quotation marks."""
    made = interpreter.InterpretedFunction(kernel)
    executor = interpreter.GridExecutor(made.rewrite(), made.arg_names, grid)
    executor.constexprs = [name for name, kind in kernel.__annotations__.items() if "constexpr" in str(kind)]
    return executor


def _called(function: JITFunction, *args: Any, **options: Any) -> Any:
    """Run what a kernel calls in the interpreter."""
    return interpreter.InterpretedFunction(function.fn).rewrite()(*args, **options)


def _after(function: Function, *looks: Function) -> Function:
    """The function, called after each of ``looks`` was with its arguments."""

    def of(*args: Any) -> Any:
        for look in looks:
            look(*args)
        return function(*args)

    return of


@contextlib.contextmanager
def _watched(memory: torch.Tensor, inside: np.ndarray) -> Iterator[Counter]:
    """While this context is open, the interpreter counts, and refuses addresses outside of ``memory``.

    ``inside``: which numbers of it belong to arrays.

    It interprets what a kernel calls, too, where that was to be compiled: Triton's own ``tl.sum``, say, which finds the
    language elsewhere than the kernel does.
    """
    counts, builder = Counter(), interpreter.interpreter_builder
    first, end = memory.data_ptr(), memory.data_ptr() + memory.nbytes

    def count(kind: str, by: int = 1) -> Function:
        return lambda *_: counts.update({kind: by})

    def pointers(kind: str, mask_at: int) -> Function:
        def look(where: Any, *rest: Any) -> None:
            used = where.data[np.broadcast_to(rest[mask_at].data, where.data.shape)]
            if used.size and (used.min() < first or used.max() >= end):
                raise IndexError("the kernel uses an address far outside of its arrays")
            counts[kind] += used.size
            if not (within := inside[(used - first) // memory.itemsize]).all():
                counts["outside"] += int((~within).sum())

        return look

    def refuse_bfloat16(*args: Any) -> None:
        tiles = [x for x in args if isinstance(x, interpreter.TensorHandle)]
        if not tiles or any(x.dtype.scalar == tl.bfloat16 for x in tiles):  # no tiles: a constant
            raise TypeError(BFLOAT16)

    looks = {
        "create_load": [count("masked", -1)],  # it goes on to create_masked_load
        "create_masked_load": [pointers("loads", 0), count("masked")],
        "create_masked_store": [pointers("stores", 1)],
        "create_dot": [refuse_bfloat16, count("products")], "create_select": [count("choices")],
        "create_fdiv": [count("divisions")], "create_fma": [refuse_bfloat16], "binary_op": [refuse_bfloat16],
        "unary_op": [refuse_bfloat16],
    }  # fmt: skip
    watched = {name: _after(getattr(builder, name), *before) for name, before in looks.items()}
    if not hasattr(builder, "get_bf16"):  # until 3.8 it has no constants either
        watched["get_bf16"] = refuse_bfloat16
    call, total, elsewhere = JITFunction.__call__, interpreter.ReduceOps.sum, interpreter._patch_lang(tl.cdiv.fn)
    vars(builder).update(watched)
    JITFunction.__call__ = _called
    interpreter.ReduceOps.sum = _after(total, lambda _, tile: refuse_bfloat16(tile.handle))  # past the builder
    try:
        yield counts
    finally:
        JITFunction.__call__, interpreter.ReduceOps.sum = call, total
        elsewhere.restore()
        for name in watched:
            vars(builder).pop(name)
