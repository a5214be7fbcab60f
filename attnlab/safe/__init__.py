"""Safe attention: naive attention with each row of scores shifted by its maximum.
Differs from naive: each row's maximum is subtracted before the exponential.

    m_i = max_j s_ij,   p_ij = e^{s_ij − m_i} / Σ_j e^{s_ij − m_i},   lse_i = m_i + log l_i

The shift cancels in the quotient, so nothing changes but that no exponent is positive.
Derived in notebook 02. Extra memory: N·M a head, forward and gradient.
"""

from attnlab.call import Array, dispatches
from attnlab.signature import Segments, Window


@dispatches
def safe_attention(
    query: Array, key: Array, value: Array, *,
    causal: bool = False, window: Window = None, offset: int | Array | None = None, mask: Array | None = None,
    bias: Array | None = None, segments: Segments = None, scale: float | None = None, dropout: float = 0.0,
    seed: int | Array | None = None, return_lse: bool = False,
) -> Array | tuple[Array, Array]:
    """Attention with all N·M scores at once, each row shifted by its maximum: right for any finite scores.

    The standard implementation. Source: Rabe & Staats 2021, section 3; FlashAttention (Dao et al. 2022),
    algorithm 0. Extra memory: N·M elements a head.
    """
    return locals()
