"""One call of a public attention: bind its arguments, then run the core in the file of its library.

How they are checked and bundled is in bundle.py. PyTorch's ways of working are in torch_operator.py.
"""

import functools
import importlib
import inspect
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from attnlab.core.arguments import LIBRARIES, boolean, check_device, check_float, check_kind, check_static
from attnlab.core.arguments import kind_of, know_torch
from attnlab.core.bundle import Inputs, check_call
from attnlab.core.other_names import ends_at_call
from attnlab.core.signature import ARGUMENTS, Attention, give_signature

Array = Any  # a NumPy, JAX or PyTorch array: the public functions check their arguments themselves
Function = TypeVar("Function", bound=Callable)  # so that editors and type checkers see the signature

GRADIENTS: list[Callable] = []
"""The public gradient. torch.compile sees one operator for all six algorithms, and this is its gradient, which needs
only out and lse; ``dispatches_gradient`` puts it here."""


def library_of(name: str, x: Any) -> str:
    """'numpy', 'jax' or 'torch'; a TypeError for an argument ``name`` that is no array."""
    know_torch()
    if (kind := kind_of(x)) is None:
        way = "; numpy.asarray converts it" if isinstance(x, list | tuple) else ""
        raise TypeError(f"{name} is of type {type(x).__name__}; attnlab takes NumPy, JAX and PyTorch arrays{way}")
    return kind


def backend(name: str, x: Any, package: str) -> Any:
    """The module of ``package`` (such as 'attnlab.softmax') that serves arrays like ``x``, the argument ``name``."""
    return import_for_compiler(f"{package}.{library_of(name, x)}")


def import_for_compiler(home: str) -> Any:
    """Import a module by name. If it serves PyTorch, torch.compile can follow the import."""
    if not home.endswith(".torch"):
        return importlib.import_module(home)
    from attnlab.core import torch_operator

    return getattr(torch_operator, torch_operator.load(home))


def in_autocast(*arrays: Any) -> tuple[Any, ...]:
    """Cast arrays as PyTorch's autocast would for scaled_dot_product_attention; without it they stay as they are."""
    if kind_of(arrays[0]) != "torch":
        return arrays
    from attnlab.core import torch_operator

    return torch_operator.in_autocast(*arrays)


def untraced(function: Function) -> Function:
    """Decorator: torch.compile doesn't trace this public function. Without PyTorch it does nothing."""
    name = function.__qualname__

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if "torch" not in [kind_of(x) for x in (*args, *kwargs.values())]:
            return function(*args, **kwargs)
        from attnlab.core.torch_operator import run_outside_graph

        return run_outside_graph(name, function, *args, **kwargs)

    return called


def refuse_gradient(name: str, instead: str, **arrays: Any) -> None:
    """Raise NotImplementedError if PyTorch asks ``name`` for a gradient, which it doesn't have: no silent 0."""
    learning = [argument for argument, x in arrays.items() if kind_of(x) == "torch" and x.requires_grad]
    if learning and sys.modules["torch"].is_grad_enabled():
        raise NotImplementedError(
            f"{learning[0]} requires a gradient, which {name} does not have; use {instead}, or torch.no_grad()"
        )


def library_missing(library: str, extra: str | None = None) -> ModuleNotFoundError:
    """The error for a library that isn't installed. ``extra`` brings it; by default that has the library's name."""
    name = LIBRARIES.get(library, library)
    return ModuleNotFoundError(
        f"this part of attnlab needs {name}: pip install 'attnlab[{extra or library}]'", name=library
    )


def run_attention(kind: str, core: Callable, *, return_lse: Any, **arguments: Any) -> Any:
    """Check one call, run the core, and give the results the shape of the query."""
    check_static(return_lse=return_lse)
    return_lse = boolean("return_lse", return_lse)
    out, lse = core(*check_call(kind, lse=return_lse, **arguments))
    rows = tuple(arguments["query"].shape[:-1])
    out = out.reshape((*rows, out.shape[-1]))
    return (out, lse.reshape(rows)) if return_lse else out


def run_gradient(kind: str, core: Callable, *, out: Any, lse: Any, dout: Any, dlse: Any, **arguments: Any) -> tuple:
    """Check one call, run the gradient's core, and give each gradient the shape of its array."""
    rules, sizes, x = check_call(kind, **arguments)
    inputs = [y for name in ("query", "key", "value", "bias") if (y := arguments[name]) is not None]
    results = group_results(kind, inputs[0], inputs[2], x, out=out, lse=lse, dout=dout, dlse=dlse)
    return tuple(grad.reshape(tuple(y.shape)) for grad, y in zip(core(rules, sizes, x, *results), inputs))


def group_results(kind: str, query: Any, value: Any, x: Inputs, **results: Any) -> list[Any]:
    """Check out, lse, dout and dlse, which a gradient gets besides; dlse may be None. Returns them, heads grouped."""
    rows, dv = tuple(query.shape[:-1]), value.shape[-1]
    shapes, grouped = {"out": (*rows, dv), "lse": rows, "dout": (*rows, dv), "dlse": rows}, []
    for (name, shape), y in zip(shapes.items(), results.values()):
        if y is not None or name != "dlse":
            check_kind(name, y, kind)
            check_float(name, y)
            check_device(name, y, query)
            if tuple(y.shape) != shape:
                given = tuple(y.shape)
                raise ValueError(f"{name} has shape {given}; with this query and value it must be {shape}")
            y = y.reshape((*x.query.shape[:-1], *shape[len(rows) :]))
        grouped.append(y)
    return grouped


def dispatch(public: Callable, arrays: tuple, options: dict[str, Any]) -> Any:
    """Send a call of a public function to the function of its name in the file of the query's library."""
    kind = library_of("query", arrays[0])
    return route_to_library(kind, f"{public.__module__}.{kind}", public, bind(public, arrays, options))


def bind(public: Callable, arrays: tuple, options: dict[str, Any]) -> dict[str, Any]:
    """All arguments by name, defaults filled in."""
    if len(arrays) == len(public.arrays) and options.keys() <= public.defaults.keys():
        return dict(zip(public.arrays, arrays)) | public.defaults | options
    try:  # arrays by name, or a mistake: some 20 µs more
        given = public.__signature__.bind(*arrays, **options)
    except TypeError as error:
        most = f"takes {len(public.arrays)} positional arguments but {len(arrays)} were given"
        raise TypeError(f"{public.__name__}() {most if len(arrays) > len(public.arrays) else error}") from None
    given.apply_defaults()
    return given.arguments


def route_to_library(kind: str, home: str, public: Callable, arguments: dict[str, Any]) -> Any:
    """Run one call in the module ``home``. PyTorch tensors without values go to the operator of torch_operator.py."""
    if kind == "torch":
        from attnlab.core.torch_operator import autocast_arguments, call_operator, has_no_values

        arguments = autocast_arguments(arguments)
        if has_no_values(arguments["query"]):
            (gradient,) = GRADIENTS
            names = f"{home}.{public.__name__}", f"{gradient.__module__}.torch.{gradient.__name__}"
            return call_operator(*names, arguments)
    return getattr(importlib.import_module(home), public.__name__).checked(**arguments)


def dispatches(*sizes: str) -> Callable[[Callable], Attention]:
    """Decorator of a public attention: its signature and docstring get all arguments, the block sizes ``sizes`` too."""

    def decorate(public: Callable) -> Callable:
        give_signature(public, sizes)
        public.__doc__ = inspect.cleandoc(public.__doc__) + "\n\n" + inspect.cleandoc(ARGUMENTS)
        return ends_at_call(public)

    return decorate


def dispatches_gradient(*sizes: str) -> Callable[[Function], Function]:
    """Decorator of the public gradient: its signature also gets the forward's results and their gradients."""

    def decorate(public: Function) -> Function:
        give_signature(public, sizes, ("out", "lse", "dout"))
        GRADIENTS.append(public)
        return ends_at_call(public)

    return decorate


def implements(public: Function, run: Callable = run_attention) -> Callable[[Callable], Function]:
    """Decorator of a core: turns core(rules, sizes, x) into a function with the name and signature of ``public``.

    The file's name says which library the core serves. The core returns (out, lse) with grouped heads; ``run`` checks
    one call and runs it. In PyTorch autocast is off in a core. Beside the function lie ``core`` itself and ``checked``,
    which takes all arguments by name.
    """

    def decorate(core: Callable) -> Callable:
        name = core.__module__.rpartition(".")[2].partition("_")[0]
        kind = {"triton": "torch"}.get(name, name)
        if kind == "torch":
            from attnlab.core.torch_operator import no_autocast

            core = no_autocast(core)

        @functools.wraps(public)
        def function(*arrays: Any, **options: Any) -> Any:
            arguments = bind(public, arrays, options)
            check_kind("query", arguments["query"], kind)
            return route_to_library(kind, core.__module__, public, arguments)

        function.__module__, function.core = core.__module__, core
        function.checked = functools.partial(run, kind, core)
        return ends_at_call(function)

    return decorate
