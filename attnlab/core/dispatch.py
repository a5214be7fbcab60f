"""One call of a public attention: its arguments are bound once, and a core in the file of its library is run.

How they are checked and bundled is in bundle.py. PyTorch's ways of working are in torch_operator.py.
"""

import functools
import importlib
import inspect
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from attnlab.core.arguments import LIBRARIES, boolean, check_device, check_float, check_kind, check_static, kind_of
from attnlab.core.bundle import checked_call
from attnlab.core.other_names import with_our_name
from attnlab.core.signature import ARGUMENTS, Attention, signed

Array = Any  # a NumPy, JAX or PyTorch array: the public functions check their arguments themselves
Function = TypeVar("Function", bound=Callable)  # so that editors and type checkers see the signature

GRADIENTS: list[Callable] = []
"""The public gradient. torch.compile sees one operator for all six algorithms, and this is its gradient, which needs
only out and lse; ``dispatches_gradient`` puts it here."""


def library_of(name: str, x: Any) -> str:
    """'numpy', 'jax' or 'torch'; a TypeError for an argument ``name`` that is no array."""
    kind = kind_of(x)
    if kind is None:
        raise TypeError(f"{name} is of type {type(x).__name__}; attnlab takes NumPy, JAX and PyTorch arrays")
    return kind


def backend(name: str, x: Any, package: str) -> Any:
    """The module of ``package`` (such as 'attnlab.softmax') that serves arrays like ``x``, the argument ``name``."""
    return loaded(f"{package}.{library_of(name, x)}")


def loaded(home: str) -> Any:
    """The module of that name, imported in a way that torch.compile can follow where it serves PyTorch."""
    if not home.endswith(".torch"):
        return importlib.import_module(home)
    from attnlab.core import torch_operator

    return getattr(torch_operator, torch_operator.load(home))


def in_autocast(*arrays: Any) -> tuple[Any, ...]:
    """Under PyTorch's autocast arrays in its dtype, as for scaled_dot_product_attention; elsewhere as they are."""
    if kind_of(arrays[0]) != "torch":
        return arrays
    from attnlab.core import torch_operator

    return torch_operator.in_autocast(*arrays)


def untraced(function: Function) -> Function:
    """Decorator of a public function that torch.compile leaves alone: as far as PyTorch is there."""

    name = function.__qualname__

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if "torch" not in [kind_of(x) for x in (*args, *kwargs.values())]:
            return function(*args, **kwargs)
        from attnlab.core.torch_operator import apart

        return apart(name, function, *args, **kwargs)

    return called


def refuse_gradient(name: str, instead: str, **arrays: Any) -> None:
    """In PyTorch a gradient that a function does not have is an error, and not a silent 0."""
    learning = [argument for argument, x in arrays.items() if kind_of(x) == "torch" and x.requires_grad]
    if learning and sys.modules["torch"].is_grad_enabled():
        raise NotImplementedError(
            f"{learning[0]} requires a gradient, which {name} does not have; use {instead}, or torch.no_grad()"
        )


def missing(library: str, extra: str | None = None) -> ModuleNotFoundError:
    """The error for a part whose library is not installed; ``extra`` brings it, by default the one of its name."""
    name = LIBRARIES.get(library, library)
    return ModuleNotFoundError(
        f"this part of attnlab needs {name}: pip install 'attnlab[{extra or library}]'", name=library
    )


def run_attention(kind: str, core: Callable, *, return_lse: Any, **arguments: Any) -> Any:
    """One call: check it, run the core, give the results the shape of the query."""
    check_static(return_lse=return_lse)
    return_lse = boolean("return_lse", return_lse)
    out, lse = core(*checked_call(kind, lse=return_lse, **arguments))
    rows = tuple(arguments["query"].shape[:-1])
    out = out.reshape((*rows, out.shape[-1]))
    return (out, lse.reshape(rows)) if return_lse else out


def run_gradient(kind: str, core: Callable, *, out: Any, lse: Any, dout: Any, dlse: Any, **arguments: Any) -> tuple:
    """One gradient: check it, run the core, give each result the shape of the array that it belongs to."""
    rules, sizes, x = checked_call(kind, **arguments)
    inputs = [y for name in ("query", "key", "value", "bias") if (y := arguments[name]) is not None]
    rows, dv = tuple(inputs[0].shape[:-1]), inputs[2].shape[-1]
    shapes, results = {"out": (*rows, dv), "lse": rows, "dout": (*rows, dv), "dlse": rows}, []
    for (name, shape), y in zip(shapes.items(), (out, lse, dout, dlse)):
        if y is not None or name != "dlse":
            check_kind(name, y, kind)
            check_float(name, y)
            check_device(name, y, inputs[0])
            if tuple(y.shape) != shape:
                given = tuple(y.shape)
                raise ValueError(f"{name} has shape {given}; with this query and value it must be {shape}")
            y = y.reshape((*x.query.shape[:-1], *shape[len(rows) :]))
        results.append(y)
    return tuple(grad.reshape(tuple(y.shape)) for grad, y in zip(core(rules, sizes, x, *results), inputs))


def call(public: Callable, arrays: tuple, options: dict[str, Any]) -> Any:
    """One call of a public function, served by the function of its name in the file of the query's library."""
    kind = library_of("query", arrays[0])
    return route(kind, f"{public.__module__}.{kind}", public, bound(public, arrays, options))


def bound(public: Callable, arrays: tuple, options: dict[str, Any]) -> dict[str, Any]:
    """The arguments by name, in the order of the signature; an unknown name that another library has is told ours."""
    if len(arrays) == len(public.arrays) and options.keys() <= public.defaults.keys():
        return dict(zip(public.arrays, arrays)) | public.defaults | options
    try:  # arrays by name, or a mistake: some 20 µs more
        given = public.__signature__.bind(*arrays, **options)
    except TypeError as error:
        raise with_our_name(TypeError(f"{public.__name__}() {error}"), options) from None
    given.apply_defaults()
    return given.arguments


def route(kind: str, home: str, public: Callable, arguments: dict[str, Any]) -> Any:
    """One call, in the file ``home``. PyTorch's ways of working are in a file of their own."""
    if kind == "torch":
        from attnlab.core.torch_operator import operate, ready, symbolic

        arguments = ready(arguments)
        if symbolic(arguments["query"]):
            (gradient,) = GRADIENTS
            return operate(f"{home}.{public.__name__}", f"{gradient.__module__}.torch.{gradient.__name__}", arguments)
    return getattr(importlib.import_module(home), public.__name__).plain(**arguments)


def dispatches(*sizes: str) -> Callable[[Callable], Attention]:
    """Decorator of a public attention: gives it all arguments, block sizes beside them, and what they mean."""

    def decorate(public: Callable) -> Callable:
        signed(public, sizes)
        public.__doc__ = inspect.cleandoc(public.__doc__) + "\n\n" + inspect.cleandoc(ARGUMENTS)
        return public

    return decorate


def dispatches_gradient(*sizes: str) -> Callable[[Function], Function]:
    """Decorator of a public gradient, likewise; it also takes the results of the forward and their gradients."""

    def decorate(public: Function) -> Function:
        signed(public, sizes, ("out", "lse", "dout"))
        GRADIENTS.append(public)
        return public

    return decorate


def implements(public: Function, run: Callable = run_attention) -> Callable[[Callable], Function]:
    """Decorator of a core: names it as one of ``public``, and gives it that signature, for calls by its own file.

    The core is called as core(rules, sizes, x) and returns (out, lse) with grouped heads; which library it
    serves is the name of its file. ``run`` is what one call does. In PyTorch autocast is off in a core.
    """

    def decorate(core: Callable) -> Callable:
        name = core.__module__.rpartition(".")[2].partition("_")[0]
        kind = {"triton": "torch"}.get(name, name)
        if kind == "torch":
            from attnlab.core.torch_operator import no_autocast

            core = no_autocast(core)

        @functools.wraps(public)
        def function(*arrays: Any, **options: Any) -> Any:
            arguments = bound(public, arrays, options)
            check_kind("query", arguments["query"], kind)
            return route(kind, core.__module__, public, arguments)

        function.__module__, function.core = core.__module__, core
        function.plain = functools.partial(run, kind, core)
        return function

    return decorate
