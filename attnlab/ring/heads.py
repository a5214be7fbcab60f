"""The other way to split a sequence: an all-to-all gives each rank all tokens of its heads, and another one takes back.

    before  a rank has C = N / P tokens of all H heads      (..., H, C, X)
    then    it has all N tokens of H / P heads              (..., H / P, N, X)

Attention itself needs no communication then, so ``attend`` is any attention with any options, causal or not, as on one
device. P must divide both the query heads and the key heads: a ring has no such limit. Tokens are contiguous.

    out = by_heads(attend, query, key, value, exchange)

``exchange(x, cut, join)`` cuts axis ``cut`` in P equal parts, sends part r to rank r, and joins what arrives along axis
``join``, in the order of the ranks. In JAX that is lax.all_to_all(x, axis_name, cut, join, tiled=True), its axes
counted from 0 and its gradient included; for torch.distributed see torch_heads; on a Cluster programs.by_heads does all
of it.
Source: Jacobs et al. 2023, "DeepSpeed Ulysses". Derived in notebook 21. Array-free.
"""

from collections.abc import Callable
from typing import Any

HEADS, TOKENS = -3, -2


def by_heads(
    attend: Callable[[Any, Any, Any], Any], query: Any, key: Any, value: Any, exchange: Callable[[Any, int, int], Any]
) -> Any:
    """The rank's tokens of out (..., Hq, C, Dv); ``attend`` gets all tokens of Hq / P and Hk / P heads."""
    out = attend(*(exchange(x, HEADS, TOKENS) for x in (query, key, value)))
    return exchange(out, TOKENS, HEADS)


def check_heads(heads: int, devices: int) -> None:
    """Refuse heads that the devices can't share equally."""
    if heads % devices:
        raise ValueError(f"there are {heads} heads, which {devices} ranks cannot share equally; ring_attention can")
