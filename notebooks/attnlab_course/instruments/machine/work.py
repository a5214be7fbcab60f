"""Arrays on chip that count the arithmetic done with them."""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass
class Arithmetic:
    """Floating-point operations, counted as they are done.

    products: of matrix products, 2·r·x·c for (r, x) by (x, c). exponentials: with logarithms, one each.
    rest: one for every number that any other operation computes, or that a sum or maximum reads.
    Choosing, comparing and generating random numbers are not counted.
    """

    products: int = 0
    exponentials: int = 0
    rest: int = 0

    def add(self, ufunc: np.ufunc, method: str, inputs: list, result: Any) -> None:
        """Count one operation of NumPy."""
        if ufunc is np.matmul:
            self.products += 2 * result.size * inputs[0].shape[-1]
        elif ufunc in (np.exp, np.log):
            self.exponentials += result.size
        elif result.dtype.kind == "f":
            self.rest += inputs[0].size if method == "reduce" else result.size


class OnChip(np.ndarray):
    """A NumPy array in fast memory; whatever is computed from it by NumPy's operations is counted in ``work``."""

    work: Arithmetic | None

    def __array_finalize__(self, source: Any) -> None:
        self.work = getattr(source, "work", None)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: tuple = (), **options: Any) -> Any:
        arrays = [_uncounted(x) for x in inputs]
        options = {name: _uncounted(x) for name, x in options.items()}  # where=, too, can be an array in fast memory
        if out:
            options["out"] = tuple(_uncounted(x) for x in out)
        result = getattr(ufunc, method)(*arrays, **options)
        results = result if isinstance(result, tuple) else (result,)
        if self.work is not None and result is not None:  # ufunc.at returns None
            self.work.add(ufunc, method, arrays, results[0])
        found = out or tuple(on_chip(x, self.work) if isinstance(x, np.ndarray) else x for x in results)
        return found if len(found) > 1 else found[0]


def on_chip(array: np.ndarray, work: Arithmetic | None) -> OnChip:
    """View ``array`` as one in fast memory, whose operations count into ``work``; nothing is copied."""
    result = array.view(OnChip)
    result.work = work
    return result


def _uncounted(x: Any) -> Any:
    """View an array in fast memory as an ordinary one, which counts nothing; anything else stays as it is."""
    return x.view(np.ndarray) if isinstance(x, OnChip) else x
