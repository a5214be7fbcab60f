"""The checker of shapes and types under pytest: beartype, but for functions that check their arguments themselves.

Their annotations tell the reader what to pass; what happens otherwise is the contract's business, and is tested.
"""

from beartype import beartype

PUBLIC = {"tiled_attention_backward"}
SIGNATURES = {f"attnlab.{name}" for name in ("naive", "safe", "lazy", "online", "chunked", "tiled")}


def check(function):
    """Called by jaxtyping on every function of the package."""
    public = function.__qualname__ in PUBLIC or function.__module__ in SIGNATURES
    return function if public else beartype(function)
