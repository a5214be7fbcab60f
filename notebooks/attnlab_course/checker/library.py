"""In which library an answer is written, and arrays from NumPy to that library and back."""

import contextlib
import copy
import dis
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from attnlab.core.arguments import LIBRARIES
from attnlab_course.checker.exercise import Stream

import numpy as np


def library_of(function: Callable, default: str) -> str:
    """The library a function is written in: the one that is named, or else ``default``."""
    return named_library(function) or default


def named_library(function: Callable) -> str | None:
    """The library that a function's code, annotations or decorators name, or those of a function that it calls.

    NumPy beside another is no contradiction; where JAX and PyTorch are both named, or nothing is, it is None.
    """
    found = {_root(kind) for kind in type(function).__mro__}  # a compiled function, a Module
    for f in own_functions(function):
        found |= {_root(thing) for thing in (*_named(f), *_annotations(f))}
    found &= LIBRARIES.keys()
    found = found - {"numpy"} or found
    return found.pop() if len(found) == 1 else None


def own_functions(function: Callable) -> list[types.FunctionType]:
    """The functions of an answer: itself, what wraps it, and those it calls that come with no package."""
    found: list[types.FunctionType] = []
    todo = [function]
    while todo:
        f = todo.pop()
        todo += [inner for name in ("__wrapped__", "func") if (inner := getattr(f, name, f)) is not f]
        f = f if isinstance(f, types.FunctionType) else python_function(f)
        if f is not None and f not in found:
            found.append(f)
            todo += [x for x in _named(f) if isinstance(x, types.FunctionType) and _belongs(x, f)]
    return found


def _belongs(called: types.FunctionType, caller: types.FunctionType) -> bool:
    """Whether a function is of the caller's own module, or of another that no package has."""
    packaged = _root(called) in sys.stdlib_module_names | {"attnlab"} or "-packages" in called.__code__.co_filename
    return called.__module__ == caller.__module__ or not packaged


def python_function(function: Any) -> types.FunctionType | None:
    """The Python function behind decorators, partial calls and callable objects, if there is one."""
    function = getattr(function, "func", function)
    with contextlib.suppress(ValueError):  # it wraps itself
        function = inspect.unwrap(function)
    if isinstance(function, types.FunctionType):
        return function
    method = vars(type(function)).get("__call__")
    return method if isinstance(method, types.FunctionType) else None


def codes_of(f: types.FunctionType) -> list[types.CodeType]:
    """The code of a function and of the functions inside it."""
    codes = [f.__code__]
    for code in codes:
        codes.extend(c for c in code.co_consts if isinstance(c, types.CodeType))
    return codes


def _named(f: types.FunctionType) -> Iterator[Any]:
    """What the code of a function, and of the functions inside it, refers to."""
    for cell in f.__closure__ or ():
        with contextlib.suppress(ValueError):  # nothing is assigned yet
            yield cell.cell_contents
    for code in codes_of(f):
        for step in dis.get_instructions(code):
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "IMPORT_NAME"):
                yield f.__globals__.get(step.argval, step.argval)


def _annotations(f: types.FunctionType) -> list[Any]:
    """What a function is annotated with, or nothing if that can't be told: Python 3.14 looks names up only now."""
    try:
        return list(f.__annotations__.values())
    except Exception:  # whatever an expression of theirs may raise
        return []


def _root(thing: Any) -> str:
    """The package that something comes from; for a bare name, as in an import inside a function, its own first part."""
    if isinstance(thing, str):
        return thing.split(".")[0]
    name = thing.__name__ if isinstance(thing, types.ModuleType) else getattr(thing, "__module__", None)
    return str(name).split(".")[0].replace("jaxlib", "jax")


def to_library(args: Any, library: str) -> Any:
    """Fresh copies of a case's arguments, arrays in ``library``; for JAX, call it inside :func:`precise`."""
    if isinstance(args, Stream):
        stream = Stream(lambda: _handed(args, library, stream.handed))
        return stream
    if isinstance(args, tuple | list):
        return type(args)(to_library(x, library) for x in args)
    return _array(args, library) if isinstance(args, np.ndarray) else copy.deepcopy(args)


def _handed(stream: Stream, library: str, handed: list) -> Iterator[Any]:
    """Fresh items of a stream, each of which ``handed`` receives as well."""
    for item in stream.make():
        handed.append(to_library(item, library))
        yield handed[-1]


@contextlib.contextmanager
def precise(library: str) -> Iterator[None]:
    """While this context is open, JAX keeps float64 as the other libraries do, and PyTorch works plainly.

    It compiles nothing then, which takes longer than a check, and uses one thread, as others would wait by spinning.
    """
    if library == "jax":
        import jax

        with jax.enable_x64(True):
            yield
    elif library == "torch":
        import torch

        threads, compiled = torch.get_num_threads(), "torch._dynamo" in sys.modules  # else nothing was compiled
        torch.set_num_threads(1)
        try:
            with torch.compiler.set_stance("force_eager") if compiled else contextlib.nullcontext():
                yield
        finally:
            torch.set_num_threads(threads)
    else:
        yield


def unjitted(library: str) -> contextlib.AbstractContextManager:
    """While this context is open, JAX compiles no program: its functions and loops run as Python's."""
    if library == "jax":
        import jax

        return jax.disable_jit()
    return contextlib.nullcontext()


def _array(x: np.ndarray, library: str) -> Any:
    """A copy of ``x`` in ``library``."""
    if library == "torch":
        import torch

        if x.dtype.name == "bfloat16":  # PyTorch reads no array of ml_dtypes
            return torch.tensor(x.astype(np.float32)).bfloat16()
        return torch.tensor(x.copy())  # negative strides become positive
    if library == "jax":
        import jax.numpy as jnp

        return jnp.array(x)
    return x.copy(order="K")


def to_numpy(x: Any) -> Any:
    """An array of any library as NumPy's, without its history; anything else as it is."""
    if type(x).__module__.split(".")[0] == "torch" and hasattr(x, "detach"):
        x = x.detach().cpu()
        return (x.float() if str(x.dtype) == "torch.bfloat16" else x).numpy()  # NumPy has no bfloat16
    if type(x).__module__.split(".")[0].startswith("jax"):
        return np.asarray(x)
    return x
