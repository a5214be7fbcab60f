"""What an answer in JAX holds at once and what it computes, read from its jaxpr; the program is not run.

The equations are taken one after another, and an array lives until its last use: so what autodiff keeps for the
backward pass counts, and so do the items of a list. As a compiler does it, an operation on each element writes over an
input of the same size that nobody needs any more; what only names a part of an array, repeats it or pads it takes
nothing, unless it is repeated for a product.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from attnlab_course.checker.exercise import Function
from attnlab_course.checker.library import precise, to_library
from attnlab_course.checker.outcome import evaluate_on

VIEWS = ("reshape", "squeeze", "expand_dims", "transpose", "slice", "dynamic_slice", "stop_gradient")
REPEATS = ("broadcast_in_dim", "iota")
LOOPS = ("scan", "while", "cond")


@dataclass
class Step:
    """One equation: arrays that it reads, and those that it writes with their bytes; programs inside it."""

    kind: str
    reads: set[Any]
    writes: dict[Any, int]
    inside: list[Any]


def trace_program(answer: Function, args: tuple, gradients: tuple[int, ...] = ()) -> Any:
    """The closed jaxpr of a call, and of its gradient by the arguments named, if any."""
    import jax

    with precise("jax"):
        fresh = to_library(args, "jax")
        arrays = [i for i, x in enumerate(fresh) if isinstance(x, jax.Array)]

        def program(*chosen: Any) -> Any:
            values = dict(zip(arrays, chosen))
            call = tuple(values.get(i, x) for i, x in enumerate(fresh))
            return evaluate_on(answer, call, gradients, "jax")

        return jax.make_jaxpr(program)(*(fresh[i] for i in arrays))


def asks_for_values(error: BaseException | None) -> bool:
    """Whether a program cannot be traced because it asks for a value, as ``if m > 0`` or ``x[mask]`` does."""
    import jax.errors

    tracing = jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError
    kinds = *tracing, jax.errors.TracerIntegerConversionError, jax.errors.NonConcreteBooleanIndexError
    return isinstance(error, kinds)


def held_bytes(program: Any) -> int:
    """The most bytes that a closed jaxpr holds at once, beyond arguments, what flows by in a stream, and results."""
    results = {v for v in program.jaxpr.outvars if is_variable(v) and v not in program.jaxpr.invars}
    return max(peak(program.jaxpr) - sum(map(size, results)), 0)


def peak(jaxpr: Any) -> int:
    """The most bytes held at once, results among them."""
    names = {v: v for v in [*jaxpr.invars, *jaxpr.constvars]}
    steps = list(flat(jaxpr, names))
    last = {name: i for i, step in enumerate(steps) for name in step.reads}
    last |= {names.get(v): len(steps) for v in jaxpr.outvars if is_variable(v)}
    for step in reversed(steps):
        if step.kind in REPEATS:  # what is repeated is needed as long as its repetitions
            last |= {x: max(last[y] for y in (x, *step.writes) if y in last) for x in step.reads}
    ends: list[list[Any]] = [[] for _ in range(len(steps) + 1)]
    for x, i in last.items():
        ends[i].append(x)
    sizes: dict[Any, int] = {}
    repeated: dict[Any, int] = {}
    live = most = 0
    for i, step in enumerate(steps):
        dying = [sizes[x] for x in ends[i] if x in sizes]
        if step.kind in REPEATS:
            repeated |= step.writes
            live -= sum(dying)
            continue
        made, inside = sum(step.writes.values()), max(map(peak, step.inside), default=0)
        if step.kind == "dot_general":
            inside = sum(repeated.get(x, 0) for x in step.reads)
        elif not step.inside and made in dying:
            inside = -made  # written over an input
        most = max(most, live + made + inside)
        sizes |= step.writes
        live += sum(bytes for x, bytes in step.writes.items() if x in last) - sum(dying)
    return most


def flat(jaxpr: Any, names: dict[Any, Any]) -> Iterator[Step]:
    """The equations in order, those of called functions in their place; ``names`` leads from variables to arrays."""
    for equation in jaxpr.eqns:
        kind, inside = equation.primitive.name, programs(equation)
        reads = [names.get(v) if is_variable(v) else None for v in equation.invars]
        if kind in VIEWS:
            names[equation.outvars[0]] = reads[0]
        elif kind not in LOOPS and len(inside) == 1 and len(inside[0].invars) == len(reads):
            inner = dict(zip(inside[0].invars, reads))
            yield from flat(inside[0], inner)
            names |= {v: inner.get(x) for v, x in zip(equation.outvars, inside[0].outvars) if is_variable(x)}
        else:
            made = {v: object() for v in equation.outvars}  # a function's variables are the same in all its calls
            names |= made
            writes = {made[v]: 0 if kind == "pad" else size(v) for v in equation.outvars}
            yield Step(kind, {x for x in reads if x is not None}, writes, inside)


def operations(jaxpr: Any, times: int = 1) -> Iterator[tuple[Any, int]]:
    """Every equation, and how often it is done. ValueError where that is not known: a while loop."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "while":
            raise ValueError("how often a while loop runs is not known")
        yield equation, times
        for inner in programs(equation):
            yield from operations(inner, times * equation.params.get("length", 1))


def programs(equation: Any) -> list[Any]:
    """The jaxprs among an equation's parameters."""
    values = [x for v in equation.params.values() for x in (v if isinstance(v, tuple | list) else [v])]
    return [x for x in (getattr(v, "jaxpr", v) for v in values) if hasattr(x, "eqns")]


def is_variable(x: Any) -> bool:
    """Whether this is no constant written out."""
    return not hasattr(x, "val")


def size(v: Any) -> int:
    """Bytes of a variable."""
    return math.prod(v.aval.shape) * getattr(v.aval.dtype, "itemsize", 0) if hasattr(v.aval, "shape") else 0
