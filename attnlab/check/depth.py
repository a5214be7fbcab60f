"""How deep a computation is: operations that follow from one another, each of which waits for the one before."""

from collections.abc import Callable
from typing import Any

from attnlab.check.exercise import Function
from attnlab.check.promises import Measure

import numpy as np


def chain(make: Callable[[int], tuple], n: int) -> Measure:
    """The longest chain of operations in a call of size ``n``, for a Cost: of NumPy to the result from any argument,
    of PyTorch from the last array. JAX is not measured."""

    def found(answer: Function, library: str) -> float:
        args = make(n)
        if library == "numpy":
            return float(getattr(answer(*(deep(x, 0) for x in args)), "depth", 0))
        if library == "torch":
            import torch

            args = [torch.asarray(x.copy()) if isinstance(x, np.ndarray) else x for x in args]
            [x for x in args if isinstance(x, torch.Tensor)][-1].requires_grad_()
            return float(graph_depth(answer(*args).grad_fn))
        return 0.0

    return found


class Deep(np.ndarray):
    """An array that knows how many operations in a row have led to it."""

    depth = 0

    def __array_finalize__(self, source: Any) -> None:
        """A view is as deep as its source."""
        self.depth = getattr(source, "depth", 0)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = (), **options: Any) -> Any:
        """The operation, one deeper than its inputs."""
        depth = 1 + max(getattr(x, "depth", 0) for x in inputs)
        if out:
            options["out"] = tuple(plain(x) for x in out)
        result = getattr(ufunc, method)(*map(plain, inputs), **options)
        for x in out:
            x.depth = max(depth, getattr(x, "depth", 0))
        return out[0] if out else deep(result, depth)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        """The same for functions such as np.where and np.einsum."""
        found: list[int] = []
        args, options = stripped(args, found), stripped(options, found)
        return deep(function(*args, **options), 1 + max(found, default=0))


def plain(x: Any) -> Any:
    """An array without its depth."""
    return x.view(np.ndarray) if isinstance(x, Deep) else x


def stripped(x: Any, found: list[int]) -> Any:
    """Arguments without their depths, which are added to ``found``."""
    if isinstance(x, dict):
        return {name: stripped(item, found) for name, item in x.items()}
    if isinstance(x, tuple | list):
        return type(x)(stripped(item, found) for item in x)
    found.append(getattr(x, "depth", 0))
    return plain(x)


def deep(x: Any, depth: int) -> Any:
    """A result that knows its depth."""
    if isinstance(x, tuple | list):
        return type(x)(deep(item, depth) for item in x)
    if not isinstance(x, np.ndarray | np.generic):
        return x
    x = np.asarray(x).view(Deep)
    x.depth = depth
    return x


def graph_depth(node: Any) -> int:
    """The longest way through a PyTorch graph."""
    order, seen, todo = [], set(), [node]
    while todo:
        at = todo.pop()
        if at is None:
            continue
        if isinstance(at, tuple):
            order.append(at[0])
        elif at not in seen:
            seen.add(at)
            todo += [(at,), *(n for n, _ in at.next_functions)]
    depth: dict[Any, int] = {None: 0}
    for at in order:
        depth[at] = 1 + max((depth.get(n, 0) for n, _ in at.next_functions), default=0)
    return depth.get(node, 0)
