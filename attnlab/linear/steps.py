"""The steps of linear attention, with what NumPy and PyTorch have by another name. Array-free."""

from collections.abc import Callable
from typing import NamedTuple

from attnlab.core.dispatch import Array
from attnlab.linear import Hedgehog, LinearOptions

State = tuple[Array, Array]  # U (*batch, Hk, F, Dv) and Z (*batch, Hk, F)
Sums = tuple[Array, Array]  # numerators (*batch, Hk, G, R, Dv) and denominators (*batch, Hk, G, R)


class Steps(NamedTuple):
    """``matmul``: a @ b for grouped heads. ``tril``: the lower triangle. ``wide``: x in the accumulation dtype.

    ``features``: the named maps; ``both_signs``: e^y and e^{−y}.
    """

    matmul: Callable[[Array, Array], Array]
    tril: Callable[..., Array]
    where: Callable[..., Array]
    wide: Callable[[Array], Array]
    features: dict[str, Callable[[Array], Array]]
    both_signs: Callable[[Array], Array]

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

    def divide(self, numerator: Array, denominator: Array) -> Array:
        """The mean of the values by their weights; 0, and no gradient, where the weights sum to 0."""
        empty = denominator == 0
        return self.where(empty[..., None], 0, numerator / self.where(empty, 1, denominator)[..., None])

    def queries(self, options: LinearOptions, hedgehog: Hedgehog | None, q: Array) -> Array:
        """φ(q) of some queries, in the accumulation dtype."""
        return self.maps(options, hedgehog)[0](options.scale * self.wide(q))

    def keys(
        self, options: LinearOptions, hedgehog: Hedgehog | None, k: Array, v: Array, kept: Array | None
    ) -> tuple[Array, Array]:
        """φ(k) and v of some keys; of keys that the mask leaves out, which may hold NaN, both are 0."""
        k, v, phi = self.wide(k), self.wide(v), self.maps(options, hedgehog)[1]
        if kept is None:
            return phi(k), v
        kept = kept[..., None]
        return self.where(kept, phi(self.where(kept, k, 0)), 0), self.where(kept, v, 0)

    def maps(self, options: LinearOptions, hedgehog: Hedgehog | None) -> tuple[Callable, Callable]:
        """φ for queries and φ for keys."""
        if hedgehog is not None:
            return tuple(lambda x, w=w: self.both_signs(x @ self.wide(w)) for w in hedgehog)
        if isinstance(options.features, str):
            return (self.features[options.features],) * 2
        return options.features


def absorb(state: State, k: Array, v: Array) -> State:
    """The state with more keys: a sum, so any order and grouping will do."""
    (u, z), (more_u, more_z) = state, sum_keys(k, v)
    return u + more_u, z + more_z


def sum_keys(k: Array, v: Array) -> State:
    """The state of some keys, U = Σ φ(k) vᵀ and Z = Σ φ(k)."""
    return k.mT @ v, k.sum(-2)
