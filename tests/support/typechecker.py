"""The checker of shapes and types under pytest: beartype, but for functions that check their arguments themselves.

Their annotations tell the reader what to pass; what happens otherwise is the contract's business, and is tested.
"""

from beartype import beartype

PUBLIC = {"tiled_attention_backward", "ring_attention_backward"}


def check(function):
    """Called by jaxtyping on every function of the package."""
    signature = function.__qualname__ == f"{function.__module__.removeprefix('attnlab.')}_attention"
    return function if signature or function.__qualname__ in PUBLIC else beartype(function)
