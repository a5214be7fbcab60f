"""Linear attention, causal: a token brings query, key and value, and sees itself and what came before.

    A = φ(Q) φ(K)ᵀ, lower triangle,   O = A V / A 1,   or by the state:   U = Σ φ(k) vᵀ,  Z = Σ φ(k)

The quadratic form writes A to HBM, as standard attention does S. The others keep the state (U, Z), of F (Dv + 1)
numbers for F features, on chip, and need no earlier token; features are made on chip. In elements, for N tokens:

    quadratic             2N (D + Dv) + 2N²
    recurrent, chunked    2N (D + Dv) + F (Dv + 1)      and F (Dv + 1) more where a state comes in

So a chunk changes no traffic: it turns N products of a vector by a matrix into products of matrices, at the price of
the weights within it. Source: Katharopoulos et al. 2020, section 3; chunks as in Yang et al. 2024, section 2.
"""

import math
from collections.abc import Callable

from attnlab.core.arrays.numpy import quiet
from attnlab.core.geometry import blocks
from attnlab.linear import feature_count
from attnlab.linear.numpy import FEATURES
from attnlab.softmax.numpy import one_if_empty
from attnlab_course.instruments.machine.machine import Machine, OnChip, Ref

import numpy as np

State = tuple[Ref, Ref]


@quiet
def linear_quadratic_forward(
    machine: Machine, q: Ref, k: Ref, v: Ref, *, features: str = "elu", block_q: int = 128
) -> Ref:
    """O (N, Dv) from all weights; ``block_q``: the rows that stream past K and V, which stay on chip."""
    n = q.shape[0]
    a, o = machine.empty("A", (n, n), q.dtype), machine.empty("O", v.shape, q.dtype)
    with machine.scope():  # load Q and K, write A
        phi_k = _mapped(machine, k, features, slice(0, n))
        for rows in blocks(n, block_q):
            with machine.scope():
                a_i = machine.keep("A", _queries(machine, q, features, rows) @ phi_k.T)
                a_i[~np.tri(len(a_i), n, rows.start, dtype=bool)] = 0
                machine.store(a, rows, a_i)

    with machine.scope():  # load A and V, write O
        v_all = machine.load(v)
        for rows in blocks(n, block_q):
            with machine.scope():
                a_i = machine.load(a, rows)
                o_i = machine.keep("O", a_i @ v_all)
                o_i /= one_if_empty(a_i.sum(1))[:, None]
                machine.store(o, rows, o_i)
    return o


@quiet
def linear_recurrent_forward(
    machine: Machine, q: Ref, k: Ref, v: Ref, *, features: str = "elu", state: State | None = None
) -> tuple[Ref, State]:
    """O (N, Dv) and the state, U (F, Dv) and Z (F,), a token at a time; ``state`` comes in and is written over."""
    return _in_steps(machine, q, k, v, features, state, 1, _token)


@quiet
def linear_chunked_forward(
    machine: Machine, q: Ref, k: Ref, v: Ref, *, features: str = "elu", chunk_size: int = 128,
    state: State | None = None,
) -> tuple[Ref, State]:
    """The same, ``chunk_size`` tokens at a time."""
    return _in_steps(machine, q, k, v, features, state, chunk_size, _chunk)


def _in_steps(
    machine: Machine, q: Ref, k: Ref, v: Ref, features: str, state: State | None, size: int, step: Callable
) -> tuple[Ref, State]:
    """Both forms: the state on chip, and a step for each part of the tokens."""
    f, (n, dv) = feature_count(features, q.shape[1]), v.shape
    o = machine.empty("O", (n, dv), q.dtype)
    with machine.scope():
        if state is None:
            state = machine.empty("U", (f, dv), q.dtype), machine.empty("Z", (f,), q.dtype)
            u, z = (machine.keep(x.name, np.zeros(x.shape, x.dtype)) for x in state)
        else:
            u, z = (machine.load(x) for x in state)
        for rows in blocks(n, size):
            with machine.scope():
                phi_q, phi_k = _queries(machine, q, features, rows), _mapped(machine, k, features, rows)
                o_i, l_i = step(machine, phi_q, phi_k, machine.load(v, rows), u, z)
                o_i /= one_if_empty(l_i)[:, None]
                machine.store(o, rows, o_i)
        for x, found in zip(state, (u, z)):
            machine.store(x, ..., found)
    return o, state


def _token(machine: Machine, phi_q: OnChip, phi_k: OnChip, v_i: OnChip, u: OnChip, z: OnChip) -> tuple[OnChip, OnChip]:
    """A token joins the state, then its query reads it: o and l, not yet divided."""
    u += phi_k.T @ v_i
    z += phi_k[0]
    return machine.keep("O", phi_q @ u), machine.keep("l", phi_q @ z)


def _chunk(machine: Machine, phi_q: OnChip, phi_k: OnChip, v_i: OnChip, u: OnChip, z: OnChip) -> tuple[OnChip, OnChip]:
    """The queries of a chunk read the state of what came before, and their own chunk by its weights; then it joins."""
    a = machine.keep("A", phi_q @ phi_k.T)
    a[~np.tri(len(a), dtype=bool)] = 0
    o_i, l_i = machine.keep("O", phi_q @ u), machine.keep("l", phi_q @ z)
    o_i += a @ v_i
    l_i += a.sum(1)
    u += phi_k.T @ v_i
    z += phi_k.sum(0)
    return o_i, l_i


def _queries(machine: Machine, q: Ref, features: str, rows: slice) -> OnChip:
    """φ(q) of some queries; Taylor's are scaled first."""
    return _mapped(machine, q, features, rows, 1 / math.sqrt(q.shape[1]) if features == "taylor" else None)


def _mapped(machine: Machine, x: Ref, features: str, rows: slice, scale: float | None = None) -> OnChip:
    """φ(x) of some tokens, made on chip."""
    x_i = machine.load(x, rows)
    if scale is not None:
        x_i *= scale
    found = machine.keep(f"φ({x.name})", FEATURES[features](x_i))
    machine.free(x_i)
    return found
