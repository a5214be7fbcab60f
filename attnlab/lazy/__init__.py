"""Lazy attention: divide at the end, and the scores need not be kept.
Differs from naive: one key at a time, the division after the last; no score is kept.

    o = Σ_j e^{s_j} v_j,   l = Σ_j e^{s_j},   result o / l

One key at a time, so the memory of a query does not grow with the number of keys; but the
exponentials are unshifted again. Derived in notebook 04. Extra memory: Dv + 2 a query.
"""

from typing import Any, Never, Unpack

from attnlab.core.dispatch import Array, dispatch, dispatches
from attnlab.core.signature import Options


@dispatches()
def lazy_attention(query: Array, key: Array, value: Array, *more: Never, **options: Unpack[Options]) -> Any:
    """Attention one key at a time with the division postponed to the end; exponentials not shifted.

    Right only while each row's sum of e^score neither overflows (largest score below 88.7 - log M in
    float32) nor vanishes (largest score above -87), like naive. Source: Rabe & Staats 2021, section 2; Jang
    et al. 2019. Extra memory: Dv + 2 elements a query in the forward. Plain automatic differentiation
    keeps every step of the loop: up to N·M·(Dv + 2) elements.
    """
    return dispatch(lazy_attention, (query, key, value, *more), options)
