"""Which calls the Pallas kernel serves, and in which tiles. To ask costs no import of Pallas."""

from typing import Any

from attnlab.call import Rules
from attnlab.tiled import kernel_rules
from attnlab.tiled.kernel_rules import tile

LARGEST_MASK = 2**31  # Pallas counts the elements of an array below 4 GiB in 32 bits with a sign


def refusal(query: Any, value: Any, mask: Any, bias: Any, block_q: int | None, block_k: int | None) -> str | None:
    """Why the kernel does not serve a call: the argument, what came, and the rule; None if it does."""
    if mask is not None and mask.size > LARGEST_MASK:
        return f"mask has {mask.size} elements; the kernel takes 2**31 at most"
    return kernel_rules.refusal(query, value, bias, block_q, block_k)


def serves(
    query: Any, value: Any, mask: Any, bias: Any, rules: Rules, block_q: int | None, block_k: int | None
) -> bool:
    """Whether the kernel can take a call; any rules will do."""
    return refusal(query, value, mask, bias, block_q, block_k) is None


def tiles(
    query: Any, value: Any, rules: Rules, block_q: int | None, block_k: int | None, *, rows: int
) -> tuple[int, int]:
    """Queries and keys of a tile: ``rows`` by 64 where registers and 96 KiB of shared memory hold them.

    Heads beyond 128 and float32 halve both. A tile is no longer than its array needs, and divides the block that the
    caller gave.
    """
    wide = max(query.shape[-1], value.shape[-1]) > 128
    shrink = (2 if wide else 1) * (2 if query.dtype.itemsize == 4 else 1)
    return tile(rows // shrink, rules.band.n, block_q), tile(64 // shrink, rules.band.m, block_k)
