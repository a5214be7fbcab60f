"""A box around the keys of each page. Array-free."""

from typing import Any

from attnlab.core.arguments import check_float, dtype_name, kind_of
from attnlab.core.dispatch import backend

import numpy as np


def page_bounds(key_pages: Any, counts: Any = None) -> tuple[Any, Any]:
    """(low, high): of each page and key head the least and the greatest number of its keys, channel by channel.

    ``key_pages`` (P, Hk, S, D), low and high (P, Hk, D), of its library and dtype. No product q · k of a page exceeds
    Σ_c max(q_c · low_c, q_c · high_c). ``counts`` (P,): how many slots of each page are filled, from its first on, all
    by default; the others may hold anything, NaN as well. A page without keys gets (∞, −∞), and no bound. In JAX both
    may be traced. Raises TypeError or ValueError, naming the argument.
    Source: Tang et al. 2024, "Quest: Query-Aware Sparsity for Efficient Long-Context LLM Inference", section 3.3.
    """
    module = backend("key_pages", key_pages, "attnlab.paged")
    check_float("key_pages", key_pages)
    if key_pages.ndim != 4:
        raise ValueError(f"key_pages has shape {tuple(key_pages.shape)}; it must be (P, Hk, S, D)")
    if counts is not None:
        counts = counts if kind_of(counts) else np.array(counts, np.int32)
        if tuple(counts.shape) != (key_pages.shape[0],) or not dtype_name(counts).startswith(("int", "uint")):
            kind = f"{dtype_name(counts)} of shape {tuple(counts.shape)}"
            raise ValueError(f"counts is {kind}; it must be integers, one for each of the {key_pages.shape[0]} pages")
    return module.page_bounds(key_pages, counts)
