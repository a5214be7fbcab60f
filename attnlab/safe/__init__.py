"""Safe attention: naive attention with each row of scores shifted by its maximum.
Differs from naive: each row's maximum is subtracted before the exponential.

    m_i = max_j s_ij,   p_ij = e^{s_ij − m_i} / Σ_j e^{s_ij − m_i},   lse_i = m_i + log l_i

The shift cancels in the quotient, so nothing changes but that no exponent is positive.
Derived in notebook 02. Extra memory: N·M a head, forward and gradient.
"""

from typing import Any, Never, Unpack

from attnlab.core.dispatch import Array, dispatch, dispatches
from attnlab.core.signature import Options


@dispatches()
def safe_attention(query: Array, key: Array, value: Array, *more: Never, **options: Unpack[Options]) -> Any:
    """Attention with all N·M scores at once, each row shifted by its maximum: right for any finite scores.

    The standard implementation. Source: Rabe & Staats 2021, section 3; FlashAttention (Dao et al. 2022),
    algorithm 0. Extra memory: N·M elements a head.
    """
    return dispatch(safe_attention, (query, key, value, *more), options)
