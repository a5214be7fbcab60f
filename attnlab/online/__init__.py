"""Online attention: lazy attention with a running maximum, one ⊕ a key.
Differs from lazy: a running maximum, and old sums shrink when it moves.

    m' = max(m, s),   l' = l·e^{m − m'} + e^{s − m'},   o' = o·e^{m − m'} + e^{s − m'} v

Derived in notebook 04. Extra memory: Dv + 2 a query.
"""

from attnlab.call import Array, dispatches
from attnlab.signature import Segments, Window


@dispatches
def online_attention(
    query: Array, key: Array, value: Array, *,
    causal: bool = False, window: Window = None, offset: int | Array | None = None, mask: Array | None = None,
    bias: Array | None = None, segments: Segments = None, scale: float | None = None, dropout: float = 0.0,
    seed: int | Array | None = None, return_lse: bool = False,
) -> Array | tuple[Array, Array]:
    """Attention one key at a time with a running maximum: constant memory a query, any finite scores.

    Source: Rabe & Staats 2021, section 3, with the update of Milakov & Gimelshein 2018. Extra memory:
    Dv + 2 elements a query in the forward. Plain automatic differentiation keeps every step of the loop:
    up to N·M·(Dv + 2) elements.
    """
    return locals()
