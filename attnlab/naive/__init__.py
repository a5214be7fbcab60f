"""Naive attention: the formula as it stands.
The first rung: nothing is shifted, nothing is postponed.

    s = scale·q·kᵀ,   p_ij = e^{s_ij} / Σ_j e^{s_ij},   o_i = Σ_j p_ij v_j

The whole N×M matrix is held, and the exponential overflows from a score of 88.7 in float32.
Derived in notebook 01. Extra memory: N·M a head, forward and gradient.
"""

from typing import Any, Never, Unpack

from attnlab.core.dispatch import Array, dispatch, dispatches
from attnlab.core.signature import Options


@dispatches()
def naive_attention(query: Array, key: Array, value: Array, *more: Never, **options: Unpack[Options]) -> Any:
    """Attention by the bare formula: all N·M scores at once, exponentials not shifted.

    Right only while each row's sum of e^score neither overflows (largest score below 88.7 - log M in
    float32) nor vanishes (largest score above -87). Outside it returns what the formula gives: 0, inf or
    NaN. Source: Rabe & Staats 2021, section 2. Extra memory: N·M elements a head.
    """
    return dispatch(naive_attention, (query, key, value, *more), options)
