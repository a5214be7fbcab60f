"""Softmax over the last axis, three ways, and the operator ⊕ that every exact algorithm here folds.

    naive    p_i = e^{x_i} / Σ e^{x_j}                        overflows from x = 88.7 in float32
    safe     p_i = e^{x_i − m} / Σ e^{x_j − m},  m = max x    one more pass over x
    online   m and l = Σ e^{x_j − m} in one pass              (Milakov & Gimelshein 2018)

    (m_a, l_a, o_a) ⊕ (m_b, l_b, o_b) = (m, αl_a + βl_b, αo_a + βo_b)
    with m = max(m_a, m_b),  α = e^{m_a − m},  β = e^{m_b − m}

⊕ is associative and commutative; (−∞, 0, 0) is its identity. The softmaxes take exponentials in the dtype
of their input, so that float16 can be seen to overflow at 11.1; they hold the sum in at least float32
(65,520 is no float16) and round each weight once.
Derived in notebooks 01 (naive), 02 (safe) and 03 (online).
"""

from collections.abc import Sequence
from typing import Any, overload

from attnlab.core.arguments import check_float, check_kind, dtype_name
from attnlab.core.dispatch import backend, library_of
from attnlab.core.other_names import errors_end_at_calls
from attnlab.core.signature import Array

__all__ = ["merge", "naive_softmax", "online_softmax", "safe_softmax"]


def naive_softmax(x: Array) -> Array:
    """Softmax over the last axis by the bare formula e^x / Σ e^x.

    ``x``: (..., n), float16, bfloat16, float32 or float64, NumPy, JAX or PyTorch. Returns the same shape
    and dtype; exponentials in that dtype, their sum in at least float32. Overflows to 0 or NaN from
    max x = 88.7 − log n (float32, bfloat16), to NaN from 11.1 (float16); 0/0 = NaN below −103 (float32).
    −∞ weighs 0; a row of −∞ alone gives 0.
    Raises TypeError for other dtypes, ValueError for a scalar.
    """
    return run("naive_softmax", x)


def safe_softmax(x: Array) -> Array:
    """Softmax over the last axis, shifted by its maximum; right for any finite ``x``.

    ``x``: (..., n), float16, bfloat16, float32 or float64, NumPy, JAX or PyTorch. Returns the same shape
    and dtype; exponentials in that dtype, their sum in at least float32. −∞ weighs 0; a row of −∞ alone
    gives 0.
    Raises TypeError for other dtypes, ValueError for a scalar.
    """
    return run("safe_softmax", x)


def online_softmax(x: Array) -> Array:
    """Softmax over the last axis with maximum and sum found together in one pass, element by element.

    Same arguments, result and errors as :func:`safe_softmax`. Milakov & Gimelshein 2018, algorithm 3.
    """
    return run("online_softmax", x)


def run(name: str, x: Any) -> Any:
    """Call the softmax ``name`` of the library that ``x`` belongs to."""
    module = backend("x", x, __name__)
    check_float("x", x)
    if x.ndim == 0:
        raise ValueError("x is a scalar; softmax needs at least one axis")
    return getattr(module, name)(x)


@overload
def merge(*parts: tuple[Array, Array]) -> tuple[Array, Array]: ...
@overload
def merge(out_a: Array, lse_a: Array, out_b: Array, lse_b: Array) -> tuple[Array, Array]: ...
def merge(*parts: Any, **flat: Any) -> tuple[Any, Any]:
    """Combine attention of the same queries over disjoint sets of keys into attention over all: ``merge(a, b, c)``.

    Each part is a tuple (out, lse), as ``return_lse=True`` gives it: out (..., N, Dv), lse (..., N). Two parts may
    also be given flat, as ``merge(out_a, lse_a, out_b, lse_b)``.
    Returns (out, lse): out in the first part's dtype, rounded once; lse in float32 (float64 if anything is float64).
    This is ⊕ on normalized results: associative and commutative; an empty part is its identity, empty parts alone
    give (0, −∞). A row is empty if its lse is −∞, whatever out holds, or +∞ beside an out of 0: FlashAttention 2 marks
    a row without keys so (and ``naive_attention`` one whose sum overflowed). Any other +∞ makes the row NaN.
    Differentiable, without NaN for empty parts.
    Raises TypeError for mixed libraries or unsupported dtypes, ValueError for shapes that differ.
    """
    names = [f" of part {i}" for i in range(len(parts))]
    if flat or not parts or not isinstance(parts[0], tuple):
        try:
            parts, names = two(*parts, **flat), ["_a", "_b"]
        except TypeError:
            raise TypeError("merge takes parts, each a tuple (out, lse), or out_a, lse_a, out_b, lse_b") from None
    check_parts(parts, names)
    double = any(dtype_name(x) == "float64" for part in parts for x in part)
    return backend("out", parts[0][0], __name__).merge(*parts, double=double, marked=True)


def two(out_a: Any, lse_a: Any, out_b: Any, lse_b: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """The parts of a merge that is called flat."""
    return (out_a, lse_a), (out_b, lse_b)


def check_parts(parts: Sequence[Any], names: Sequence[str]) -> None:
    """Refuse parts unless they are tuples (out, lse) of one library and of the first one's shapes."""
    for name, part in zip(names, parts):
        if not isinstance(part, tuple) or len(part) != 2:
            raise TypeError(f"{name.removeprefix(' of ')} is {type(part).__name__}; every part is a tuple (out, lse)")
    first = parts[0][0]
    kind = library_of(f"out{names[0]}", first)
    for name, part in zip(names, parts):
        for what, x, shape in zip(("out", "lse"), part, (tuple(first.shape), tuple(first.shape[:-1]))):
            check_kind(what + name, x, kind)
            check_float(what + name, x)
            if first.ndim < 1 or tuple(x.shape) != shape:
                came = f"{what}{name} has shape {tuple(x.shape)}"
                raise ValueError(f"{came}; with out{names[0]} {tuple(first.shape)} it must be {shape}")


errors_end_at_calls(__name__)
