"""In which library an answer is written, and arrays from NumPy to that library and back."""

import contextlib
import copy
import dis
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

from attnlab.arguments import LIBRARIES
from attnlab.check.exercise import Stream

import numpy as np


def library_of(function: Callable, default: str) -> str:
    """The library a function is written in: JAX or PyTorch if its code, or a function it calls, names one of them.

    A function that names neither is in ``default`` if it does not name NumPy, either.
    """
    found: set[str] = set()
    seen: set[int] = set()
    todo = [function]
    while todo:
        f = python_function(todo.pop())
        if f is not None and id(f) not in seen:
            seen.add(id(f))
            for thing in _named(f):
                if isinstance(thing, types.FunctionType) and thing.__module__ == f.__module__:
                    todo.append(thing)
                else:
                    found |= {_root(thing)} & LIBRARIES.keys()
    found = found - {"numpy"} or found
    return found.pop() if len(found) == 1 else default


def python_function(function: Any) -> types.FunctionType | None:
    """The Python function behind decorators, partial calls and callable objects, if there is one."""
    function = getattr(function, "func", function)
    with contextlib.suppress(ValueError):  # it wraps itself
        function = inspect.unwrap(function)
    if isinstance(function, types.FunctionType):
        return function
    method = vars(type(function)).get("__call__")
    return method if isinstance(method, types.FunctionType) else None


def _named(f: types.FunctionType) -> Iterator[Any]:
    """What the code of a function, and of the functions inside it, refers to."""
    for cell in f.__closure__ or ():
        with contextlib.suppress(ValueError):  # nothing is assigned yet
            yield cell.cell_contents
    codes = [f.__code__]
    for code in codes:
        codes.extend(c for c in code.co_consts if isinstance(c, types.CodeType))
        for step in dis.get_instructions(code):
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "IMPORT_NAME"):
                yield f.__globals__.get(step.argval, step.argval)


def _root(thing: Any) -> str:
    """The package that something comes from; for a bare name, as in an import inside a function, its own first part."""
    if isinstance(thing, str):
        return thing.split(".")[0]
    name = thing.__name__ if isinstance(thing, types.ModuleType) else getattr(thing, "__module__", None)
    return str(name).split(".")[0]


def given(args: Any, library: str) -> Any:
    """Fresh copies of a case's arguments, arrays in ``library``; for JAX, call it inside :func:`precise`."""
    if isinstance(args, Stream):
        return Stream(lambda: (given(item, library) for item in args.make()))
    if isinstance(args, tuple | list):
        return type(args)(given(x, library) for x in args)
    return _array(args, library) if isinstance(args, np.ndarray) else copy.deepcopy(args)


def precise(library: str) -> contextlib.AbstractContextManager:
    """While this context is open, JAX keeps float64 as the other libraries do."""
    if library == "jax":
        import jax

        return jax.enable_x64(True)
    return contextlib.nullcontext()


def _array(x: np.ndarray, library: str) -> Any:
    """A copy of ``x`` in ``library``."""
    if library == "torch":
        import torch

        return torch.tensor(x.copy())  # negative strides become positive
    if library == "jax":
        import jax.numpy as jnp

        return jnp.array(x)
    return x.copy()


def back(x: Any) -> Any:
    """An array of any library as NumPy's, without its history; anything else as it is."""
    if type(x).__module__.split(".")[0] == "torch" and hasattr(x, "detach"):
        return x.detach().cpu().numpy()
    if type(x).__module__.split(".")[0].startswith("jax"):
        return np.asarray(x)
    return x
