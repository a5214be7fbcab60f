"""The checker of shapes and types under pytest: beartype, but for functions that check their arguments themselves.

Their annotations tell the reader what to pass; what happens otherwise is the contract's business, and is tested.
"""

from beartype import beartype

PUBLIC = {"tiled_attention_backward"}


def check(function):
    """Called by jaxtyping on every function of the package."""
    return function if function.__qualname__ in PUBLIC else beartype(function)
