"""Ring, striped and tree attention: one sequence on many devices, each with a shard of its queries, keys and values.

    ring    keys and values travel from rank to rank; out, lse ← (out, lse) ⊕ attention to the block that is here
    tree    the query is everywhere, keys stay; ⊕ over the ranks: m = max lse, out = Σ e^{lse − m} out / Σ e^{lse − m}

Beside its own shard a rank holds two blocks of keys at most, the one at hand and the one that arrives, so memory per
rank falls as 1 / P. Which positions a rank has is a layout; what it sees of a block is a band: attention with an
offset.

    Cluster             ranks as generators in one process: counts bytes and work, keeps a model clock (NumPy)
    positions           who has which token, in integers; shard, unshard, stripe and unstripe move arrays accordingly
    Schedule            who holds which block when, who sends, and what is visible of it, in integers
    ring_attention      exact attention over the sharded sequence
    tree_attention      the same for queries that every rank has: decoding
    heads               an all-to-all that gives each rank all tokens of some heads instead (Ulysses)

NumPy runs on the Cluster, PyTorch on torch.distributed, JAX in shard_map. Derived in notebooks 21 and 22.
Sources: Liu et al. 2023, "Ring Attention with Blockwise Transformers"; Brandon et al. 2023, "Striped Attention";
Shyam et al. 2024, "Tree Attention".
"""

from collections.abc import Generator
from typing import Any, Literal, TypedDict, Unpack, overload

from attnlab.core.arguments import boolean, check_choice, check_static
from attnlab.core.bundle import check_call
from attnlab.core.dispatch import backend, in_autocast, library_of, refuse_gradient, untraced
from attnlab.core.other_names import errors_end_at_calls
from attnlab.core.signature import Array, Window
from attnlab.ring.call import FORMS, Form, check_place, check_ring
from attnlab.ring.cluster import Cluster, Message, Work
from attnlab.ring.layouts import positions, shard, stripe, unshard, unstripe
from attnlab.ring.schedule import Layout, Schedule
from attnlab.ring.turns import Deadlock

import numpy as np

__all__ = [
    "Cluster", "Deadlock", "Message", "Schedule", "Work", "positions", "ring_attention", "shard", "stripe",
    "tree_attention", "unshard", "unstripe",
]  # fmt: skip


class _Ring(TypedDict, total=False):
    length: int | None
    causal: bool
    layout: Layout
    window: Window
    scale: float | None
    group: Any
    axis_name: Any


class _Tree(TypedDict, total=False):
    mask: Any
    scale: float | None
    form: Form
    group: Any
    axis_name: Any


@overload
def ring_attention(
    query: np.ndarray, key: np.ndarray, value: np.ndarray, *, return_lse: bool = False, **options: Unpack[_Ring]
) -> Generator[Any, Any, Any]: ...
@overload
def ring_attention(
    query: Array, key: Array, value: Array, *, return_lse: Literal[False] = False, **options: Unpack[_Ring]
) -> Array: ...
@overload
def ring_attention(
    query: Array, key: Array, value: Array, *, return_lse: Literal[True], **options: Unpack[_Ring]
) -> tuple[Array, Array]: ...
@untraced
def ring_attention(
    query: Any, key: Any, value: Any, *, length: int | None = None, causal: bool = False, layout: Layout = "contiguous",
    window: Window = None, scale: float | None = None, return_lse: bool = False, group: Any = None,
    axis_name: Any = None,
) -> Any:
    """Attention over a sequence that is sharded over the ranks; each calls it with its shard and gets its shard.

    ``query`` (..., Hq, C, D), ``key`` (..., Hk, C, D), ``value`` (..., Hk, C, Dv), or 2-D for one head: the tokens that
    ``positions(length, devices, layout)`` names, C = ⌈length / devices⌉ (zigzag 2⌈length / (2 devices)⌉) on every rank.
    ``length``: tokens in all, devices · C by default; what a shard holds beyond them is padding and may be NaN.
    ``causal``, ``window``: by position in the sequence. ``scale``: 1 / sqrt(D) by default. ``group``: PyTorch's process
    group, None the default one; in NumPy the rank of a Cluster. ``axis_name``: in JAX, the axis of the mesh.
    All options and shapes must be equal on all ranks.

    Returns out (..., Hq, C, Dv) in query's dtype, or (out, lse) with lse in float32 (float64 for float64 input);
    padding gets 0 and −inf. In NumPy a generator: ``out = yield from ring_attention(..., group=rank)``; its gradient is
    attnlab.ring.numpy.ring_attention_backward. Parts are merged in lse's dtype. A block of keys and values travels
    devices − 1 times, in NumPy and PyTorch less far where nobody further on sees it; in the gradient again, and its dk
    and dv, in lse's dtype, devices times. Extra memory: two blocks, out in lse's dtype, a few tiles; in the gradient
    also dq, and dk and dv of two blocks, in that dtype.
    In PyTorch torch.compile leaves the call alone, and refuses it with fullgraph=True.
    Raises TypeError or ValueError, naming the argument; where ranks disagree, ValueError on all of them. In PyTorch
    they compare once for each kind of call: two collectives, which later calls do without. A rank that differs only
    then is a RuntimeError on all, after the group's timeout at the latest.
    """
    kind, module = library_of("query", query), backend("query", query, __name__)
    query, key, value = in_autocast(query, key, value)
    place = check_place(kind, group, axis_name)
    devices = module.devices(place)
    try:
        check_static(return_lse=return_lse)
        return_lse = boolean("return_lse", return_lse)
        call = check_ring(
            query, key, value, devices=devices, length=length, causal=causal, layout=layout, window=window, scale=scale
        )
    except (TypeError, ValueError) as error:
        module.refused(str(error), place)  # or the other ranks would wait
        raise
    return _reshape(kind, module.ring_attention(*call, place), query, return_lse)


@overload
def tree_attention(
    query: np.ndarray, key: np.ndarray, value: np.ndarray, *, return_lse: bool = False, **options: Unpack[_Tree]
) -> Generator[Any, Any, Any]: ...
@overload
def tree_attention(
    query: Array, key: Array, value: Array, *, return_lse: Literal[False] = False, **options: Unpack[_Tree]
) -> Array: ...
@overload
def tree_attention(
    query: Array, key: Array, value: Array, *, return_lse: Literal[True], **options: Unpack[_Tree]
) -> tuple[Array, Array]: ...
@untraced
def tree_attention(
    query: Any, key: Any, value: Any, *, mask: Any = None, scale: float | None = None, form: Form = "allreduce",
    return_lse: bool = False, group: Any = None, axis_name: Any = None,
) -> Any:
    """Attention of queries that every rank has over keys and values that are sharded: for decoding.

    ``query`` (..., Hq, N, D), the same on all ranks; ``key`` (..., Hk, M, D) and ``value`` (..., Hk, M, Dv), those of
    this rank in any order, as every query sees every key (M may differ in NumPy and PyTorch, and be 0); ``mask``:
    boolean, True = attend, broadcasting to (..., Hq, N, M), this rank's. ``scale``: 1 / sqrt(D) by default. ``form``:
    "allreduce" takes one maximum and then all sums over the ranks, "doubling" merges (out, lse) with a partner at
    distance 1, 2, 4, …. ``group``, ``axis_name``: as for ring_attention.

    Returns out (..., Hq, N, Dv) in query's dtype, or (out, lse), on every rank. In NumPy a generator. No gradient is
    promised; in PyTorch it is NotImplementedError to ask for one.
    Over all links, for R = batch · Hq · N rows, all-reduces that are rings move 2 (devices − 1) R (Dv + 2)
    numbers of lse's dtype, whatever M. Extra memory: a few times that of out and lse, and tiles.
    Raises as ring_attention.
    """
    kind, module = library_of("query", query), backend("query", query, __name__)
    query, key, value = in_autocast(query, key, value)
    place = check_place(kind, group, axis_name)
    module.devices(place)
    try:
        refuse_gradient("tree_attention", "ring_attention", query=query, key=key, value=value)
        check_static(return_lse=return_lse, form=form)
        return_lse, form = boolean("return_lse", return_lse), check_choice("form", form, FORMS)
        rules, _, x = check_call(kind, query, key, value, mask=mask, scale=scale)
    except (NotImplementedError, TypeError, ValueError) as error:
        module.refused(str(error), place)
        raise
    return _reshape(kind, module.tree_attention(form, rules, x, place), query, return_lse)


def _reshape(kind: str, found: Any, query: Any, return_lse: bool) -> Any:
    """Give the results the heads of the query. On a Cluster they're still to come, so this returns a generator."""
    if kind == "numpy":
        return _reshape_later(found, query, return_lse)
    out, lse = found
    out, lse = out.reshape((*query.shape[:-1], out.shape[-1])), lse.reshape(query.shape[:-1])
    return (out, lse) if return_lse else out


def _reshape_later(found: Any, query: Any, return_lse: bool) -> Any:
    return _reshape("", (yield from found), query, return_lse)


errors_end_at_calls(__name__)
