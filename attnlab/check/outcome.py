"""What a function makes of a case: arrays, or an error, or a problem told in words."""

import inspect
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from attnlab.check.exercise import Case, Exercise, Stream
from attnlab.check.guard import call, explain
from attnlab.check.library import back, given, library_of, precise
from attnlab.machine import CountingVector

import numpy as np

SECONDS = {"numpy": 5.0, "torch": 5.0, "jax": 10.0}
"""How long an answer may take over all cases together, and again over what it costs; JAX compiles each case."""


class NotAttempted(Exception):
    """The answer is still the stub."""


@dataclass
class Outcome:
    """The arrays of a result and its gradients by name, or a ``problem`` and its ``kind``."""

    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    problem: str = ""
    kind: str = ""
    result: Any = None
    printed: str = ""
    seconds: float = 0.0


def outcome(exercise: Exercise, function: Callable, case: Case, seconds: float = 60.0) -> Outcome:
    """Run ``function`` on ``case``. Raises NotAttempted for a stub."""
    function = exercise.run(function) if exercise.run else function
    library = library_of(function, exercise.library)
    if exercise.gradients and library == "numpy":
        return Outcome(problem="NumPy has no gradients: write this answer in PyTorch or JAX.", kind="library")
    done = call(_evaluate, (function, case.args, exercise.gradients, library), seconds)
    if isinstance(done.error, NotAttempted) or (isinstance(done.error, NotImplementedError) and not done.error.args):
        raise NotAttempted  # a stub says nothing; a library says what it has not implemented
    if done.error is not None:
        problem, kind = explain(done.error, function, seconds), type(done.error).__name__
        return Outcome(problem=problem, kind=kind, printed=done.printed, seconds=done.seconds)
    args, result, gradients = done.result
    found = Outcome(result=result, printed=done.printed, seconds=done.seconds)
    if any(isinstance(x, Stream) and x.again for x in args):
        found.problem, found.kind = "your function reads the stream a second time; it flows by only once.", "stream"
    elif not all(i in exercise.writes or _unchanged(*pair) for i, pair in enumerate(zip(args, case.args))):
        found.problem, found.kind = "your function changes its inputs; work on a copy.", "inputs"
    else:
        try:
            found.arrays = {**_named_parts(exercise, result, args), **_named_gradients(exercise, gradients)}
        except TypeError as error:
            found.problem, found.kind = str(error), "type"
    return found


def _evaluate(function: Callable, args: tuple, gradients: tuple[int, ...], library: str) -> tuple[tuple, Any, tuple]:
    """Call the function on fresh arguments; returns those, the result and gradients.

    Gradients are those of Σ weight · result by the arguments that the exercise names.
    """
    with precise(library):
        args = given(args, library)
        result, found = evaluate_on(function, args, gradients, library)
        if library == "jax":
            import jax

            jax.block_until_ready((result, found))
    return args, result, found


def evaluate_on(function: Callable, args: tuple, gradients: tuple[int, ...], library: str) -> tuple[Any, tuple]:
    """:func:`_evaluate` on arguments that are in ``library`` already."""
    if not gradients:
        return _refuse_stub(function(*args)), ()
    return {"jax": _with_jax, "torch": _with_torch}[library](function, args, gradients)


def _refuse_stub(result: Any) -> Any:
    """``result``, unless it is the ``...`` of a stub."""
    if result is ...:
        raise NotAttempted
    return result


def _with_jax(function: Callable, args: tuple, gradients: tuple[int, ...]) -> tuple[Any, tuple]:
    """See :func:`_evaluate`; a gradient is taken by jax.vjp."""
    import jax

    def of(*chosen: Any) -> Any:
        values = dict(zip(gradients, chosen))
        return _refuse_stub(function(*(values.get(i, x) for i, x in enumerate(args))))

    result, pull = jax.vjp(of, *(args[i] for i in gradients))
    weights = jax.tree.map(lambda x: jax.numpy.asarray(_weights(x.shape), x.dtype), result)
    return result, pull(weights)


def _with_torch(function: Callable, args: tuple, gradients: tuple[int, ...]) -> tuple[Any, tuple]:
    """See :func:`_evaluate`; where the result does not depend on an argument, its gradient is 0."""
    import torch

    inputs = [args[i].requires_grad_() for i in gradients]
    result = _refuse_stub(function(*args))
    parts = [x for x in (result if isinstance(result, tuple) else [result]) if isinstance(x, torch.Tensor)]
    total = sum((x * torch.asarray(_weights(x.shape), dtype=x.dtype)).sum() for x in parts if x.requires_grad)
    if not isinstance(total, torch.Tensor):
        return result, tuple(torch.zeros_like(x) for x in inputs)
    return result, torch.autograd.grad(total, inputs, allow_unused=True, materialize_grads=True)


def _weights(shape: tuple[int, ...]) -> np.ndarray:
    """Fixed weights of a result's elements."""
    return np.random.default_rng(0).normal(size=tuple(shape))


def _named_parts(exercise: Exercise, result: Any, args: tuple) -> dict[str, np.ndarray]:
    """A result, or each part of a tuple, as an array, and what was written to counting vectors. TypeError otherwise."""
    written = {
        name: np.array(x.values()) for name, x in zip(parameters(exercise), args) if isinstance(x, CountingVector)
    }
    if written and (result is None or isinstance(result, CountingVector)):
        return written
    if isinstance(result, tuple):
        return {f"part {i + 1} of {len(result)}": _as_array(x) for i, x in enumerate(result)} | written
    return {"": _as_array(result)} | written


def parameters(exercise: Exercise) -> list[str]:
    """The names of the arguments."""
    return list(inspect.signature(exercise.reference).parameters)


def _as_array(x: Any) -> np.ndarray:
    """A number, an array of any library or a list of them as an array."""
    if x is None:
        raise TypeError("your function returned None; is a return missing?")
    if isinstance(x, types.GeneratorType | types.AsyncGeneratorType):
        raise TypeError("your function is a generator (there is a yield in it); return the result instead.")
    if isinstance(x, types.CoroutineType):
        x.close()
        raise TypeError("your function is async; leave the async out.")
    try:
        found = np.asarray([back(item) for item in x] if isinstance(x, list) else back(x))
    except Exception:
        found = np.asarray(None)
    if found.dtype.kind not in "biuf" and found.dtype.name != "bfloat16":
        name = type(x).__name__
        article = "an" if name[0] in "aeiouAEIOU" else "a"
        raise TypeError(f"your function returned {article} {name} that is not an array of numbers.")
    return found


def _named_gradients(exercise: Exercise, gradients: tuple) -> dict[str, np.ndarray]:
    """The gradients by argument name."""
    names = parameters(exercise)
    return {f"gradient of {names[i]}": np.asarray(back(g)) for i, g in zip(exercise.gradients, gradients)}


def _unchanged(a: Any, b: Any) -> bool:
    """Equal to the bit, NaN included; streams are meant to be read, vectors to be written."""
    if isinstance(b, Stream | CountingVector) or callable(b):
        return True
    if isinstance(b, tuple | list):
        return len(a) == len(b) and all(map(_unchanged, a, b))
    a = np.asarray(back(a))
    return np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
