"""Which calls the GPU kernels serve, and the sizes of their tiles. To ask costs no import of Triton or Pallas."""

from typing import Any

LARGEST_HEAD = 256


def refusal(query: Any, value: Any, bias: Any, block_q: int | None, block_k: int | None) -> str | None:
    """Why the kernels do not serve a call: the argument, what came, and the rule; None if they do."""
    if bias is not None:
        return "bias is given; the kernel takes none"
    if query.dtype.itemsize > 4:
        return "query has dtype float64; the kernel takes float16, bfloat16 and float32"
    for name, x in (("query", query), ("value", value)):
        if not 1 <= x.shape[-1] <= LARGEST_HEAD:
            return f"{name} has size {x.shape[-1]}; the kernel takes 1 to {LARGEST_HEAD}"
    for name, size in (("block_q", block_q), ("block_k", block_k)):
        if size is not None and size % 16:
            return f"{name} is {size}; the kernel takes multiples of 16"
    return None


def padded(size: int) -> int:
    """The power of two, at least 16, that holds ``size``: tiles have such sizes, and tensor cores multiply 16 by 16."""
    return max(16, 1 << (size - 1).bit_length())


def tile(most: int, length: int, block: int | None) -> int:
    """The largest power of two, at most ``most`` or 16, that holds no more than ``length`` and divides ``block``."""
    most = max(most, 16)
    return min(most, padded(length), most if block is None else block & -block)
