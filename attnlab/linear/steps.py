"""The steps of linear attention, with what NumPy and PyTorch have by another name. Array-free."""

from collections.abc import Callable
from typing import NamedTuple

from attnlab.core.dispatch import Array

State = tuple[Array, Array]  # U (*batch, Hk, F, Dv) and Z (*batch, Hk, F)
Sums = tuple[Array, Array]  # numerators (*batch, Hk, G, R, Dv) and denominators (*batch, Hk, G, R)


class Steps(NamedTuple):
    """``matmul``: a @ b for grouped heads. ``tril``: the lower triangle."""

    matmul: Callable[[Array, Array], Array]
    tril: Callable[..., Array]

    def token(self, q: Array, k: Array, v: Array, state: State) -> tuple[Sums, State]:
        """The recurrent form, a token at a time: the key joins the state, then the query reads it."""
        state = absorb(state, k, v)
        return self.read(q, state), state

    def chunk(self, q: Array, k: Array, v: Array, state: State, causal: bool = True) -> tuple[Sums, State]:
        """The chunked form: weights within the chunk, and the state for all that came before it.

        Causal weights have j ≤ i, aligned to the bottom right. The quadratic form is one chunk of all tokens.
        """
        a = self.matmul(q, k.mT)  # (..., Hk, G, C, C)
        a = self.tril(a, a.shape[-1] - a.shape[-2]) if causal else a
        numerator, denominator = self.read(q, state)
        return (numerator + self.matmul(a, v), denominator + a.sum(-1)), absorb(state, k, v)

    def read(self, q: Array, state: State) -> Sums:
        """What queries see of a state: φ(q) U and φ(q)·Z."""
        u, z = state
        return self.matmul(q, u), self.matmul(q, z[..., None])[..., 0]


def absorb(state: State, k: Array, v: Array) -> State:
    """The state with more keys: a sum, so any order and grouping will do."""
    (u, z), (more_u, more_z) = state, sum_keys(k, v)
    return u + more_u, z + more_z


def sum_keys(k: Array, v: Array) -> State:
    """The state of some keys, U = Σ φ(k) vᵀ and Z = Σ φ(k)."""
    return k.mT @ v, k.sum(-2)
