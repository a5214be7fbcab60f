"""Bytes that a call moves over all links together, in closed form. Array-free.

    P devices, R = batch · Hq · N rows of queries, K = batch · Hk key heads, D and Dv the sizes of a key and a value
    b, a bytes of a number of the inputs and of the accumulation dtype

A Cluster of attnlab.ring counts the same.
"""

from attnlab.ring.schedule import Schedule


def ring_bytes(ring: Schedule, heads: int, d: int, dv: int, *, itemsize: int = 2) -> int:
    """Ring attention, forward: blocks of K·C·(D + Dv) numbers, C a shard's slots, K = ``heads``.

    P (P − 1) blocks; contiguous and causal P (P − 1) / 2; fewer where a window or padding ends a block's travels.
    """
    blocks = sum(ring.last(holder) for holder in range(ring.devices))
    return blocks * heads * ring.size * (d + dv) * itemsize


def ring_gradient_bytes(ring: Schedule, heads: int, d: int, dv: int, *, itemsize: int = 2, accumulator: int = 4) -> int:
    """Its gradient: keys and values as in the forward, and P · P blocks of dk and dv in the accumulation dtype."""
    home = ring.devices**2 if ring.devices > 1 else 0
    return ring_bytes(ring, heads, d, dv, itemsize=itemsize) + home * heads * ring.size * (d + dv) * accumulator


def heads_bytes(
    devices: int, tokens: int, query_heads: int, key_heads: int, d: int, dv: int, *, itemsize: int = 2
) -> int:
    """Split by heads, forward: (P − 1) / P of queries, keys, values and out, N (Hq + Hk)(D + Dv) numbers, once."""
    return (devices - 1) * (tokens // devices) * (query_heads + key_heads) * (d + dv) * itemsize


def keys_bytes(devices: int, keys: int, heads: int, d: int, dv: int, *, itemsize: int = 2) -> int:
    """Decoding as a ring, ``keys`` in all: (P − 1) · K · M · (D + Dv) · b."""
    return (devices - 1) * heads * keys * (d + dv) * itemsize


def tree_bytes(devices: int, rows: int, dv: int, *, accumulator: int = 4) -> int:
    """Tree attention by all-reduces that are rings, one maximum and Dv + 1 sums: 2 (P − 1) · R · (Dv + 2) · a."""
    return 2 * (devices - 1) * rows * (dv + 2) * accumulator


def doubling_bytes(devices: int, rows: int, dv: int, *, accumulator: int = 4) -> int:
    """Tree attention by doubling: (p log₂ p + 2 (P − p)) · R · (Dv + 1) · a, p the largest power of two in P."""
    log = devices.bit_length() - 1
    return (2**log * log + 2 * (devices - 2**log)) * rows * (dv + 1) * accumulator


def query_bytes(devices: int, rows: int, d: int, dv: int, *, itemsize: int = 2, accumulator: int = 4) -> int:
    """Decoding where the query goes to the keys: (P − 1) · R · (D · b + (Dv + 1) · a)."""
    return (devices - 1) * rows * (d * itemsize + (dv + 1) * accumulator)
