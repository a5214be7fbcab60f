"""Online attention: lazy attention with a running maximum, one ⊕ a key.
Differs from lazy: a running maximum, and old sums shrink when it moves.

    m' = max(m, s),   l' = l·e^{m − m'} + e^{s − m'},   o' = o·e^{m − m'} + e^{s − m'} v

Derived in notebook 04. Extra memory: Dv + 2 a query.
"""

from typing import Any, Never, Unpack

from attnlab.core.dispatch import Array, dispatch, dispatches
from attnlab.core.signature import Options


@dispatches()
def online_attention(query: Array, key: Array, value: Array, *more: Never, **options: Unpack[Options]) -> Any:
    """Attention one key at a time with a running maximum: constant memory a query, any finite scores.

    Source: Rabe & Staats 2021, section 3, with the update of Milakov & Gimelshein 2018. Extra memory:
    Dv + 2 elements a query in the forward. Plain automatic differentiation keeps every step of the loop:
    up to N·M·(Dv + 2) elements.
    """
    return dispatch(online_attention, (query, key, value, *more), options)
