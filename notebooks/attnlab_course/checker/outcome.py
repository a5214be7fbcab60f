"""What a function makes of a case: arrays, or an error, or a problem told in words."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from attnlab_course.checker.error_words import explain
from attnlab_course.checker.exercise import Case, Exercise, Stream
from attnlab_course.checker.library import library_of, precise, to_library
from attnlab_course.checker.results import read
from attnlab_course.checker.sandbox import Watch, call

import numpy as np

SECONDS = {"numpy": 5.0, "torch": 5.0, "jax": 20.0}
"""How long an answer may take over all cases together, and again over what it costs; JAX compiles each case."""


class NotAttempted(Exception):
    """The answer is still the stub."""


@dataclass
class Outcome:
    """The arrays of a result and its gradients by name, or a ``problem`` and its ``kind``.

    ``again``: a stream was read beyond its end. ``starved``: see :class:`attnlab_course.checker.sandbox.Called`.
    """

    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    problem: str = ""
    kind: str = ""
    result: Any = None
    printed: str = ""
    again: bool = False
    starved: bool = False


def outcome(
    exercise: Exercise, function: Callable, case: Case, seconds: float = 60.0, library: str | None = None,
    watch: Watch | None = None,
) -> Outcome:
    """Run ``function``, written in ``library`` or what it names, on ``case``. Raises NotAttempted for a stub.

    ``seconds`` are those of ``watch``, so that several cases can share them.
    """
    watch = watch or Watch()
    library = library or (exercise.library if exercise.run else library_of(function, exercise.library))
    whole = exercise.run(function) if exercise.run else function
    if exercise.gradients and library == "numpy":
        return Outcome(problem="NumPy has no gradients: write this answer in PyTorch or JAX.", kind="library")
    args: list = []  # what is handed over, to be looked at afterwards
    done = call(_evaluate, (whole, case.args, exercise.gradients, library, args), seconds, watch)
    if isinstance(done.error, NotAttempted) or (isinstance(done.error, NotImplementedError) and not done.error.args):
        raise NotAttempted  # a stub says nothing; a library says what it has not implemented
    found = Outcome(printed=done.printed)
    if done.error is None:
        found.result, gradients = done.result
        done = call(read, (exercise, case, args, found.result, gradients), seconds, watch)
    if done.error is None:
        found.arrays, found.problem, found.kind = done.result
    else:
        found.problem, found.kind = explain(done.error, function, seconds), type(done.error).__name__
    found.again, found.starved = any(isinstance(x, Stream) and x.again for x in args), done.starved
    return found


def _evaluate(
    function: Callable, args: tuple, gradients: tuple[int, ...], library: str, handed: list
) -> tuple[Any, tuple]:
    """Call the function on fresh arguments, which ``handed`` receives; returns the result and gradients.

    Gradients are those of Σ weight · result by the arguments that the exercise names.
    """
    with precise(library):
        handed += to_library(args, library)
        result, found = evaluate_on(function, tuple(handed), gradients, library)
        if library == "jax":
            import jax

            jax.block_until_ready((result, found))
    return result, found


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
