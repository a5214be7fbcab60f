"""Kernels for GPUs in the place of the loops of tiled attention: our own in Triton, for JAX those that it ships.

``triton/``: forward, backward and paged, the kernels, a program for each tile; tile, what they are made of; layout,
what a kernel gets in the place of arrays; gpu, which knows what calls they serve and calls them for arrays on a GPU. To
ask what is served does not import Triton. ``cudnn.py`` does the same for JAX and cuDNN.
"""

from attnlab.core.bundle import Inputs, Sizes

LARGEST_HEAD = 256


def refusal(x: Inputs, sizes: Sizes) -> str | None:
    """Why the kernels in Triton do not serve a call: the argument, what came, and the rule; None if they do."""
    if x.bias is not None:
        return "bias is given; the kernel takes none"
    if x.query.dtype.itemsize > 4:
        return "query has dtype float64; the kernel takes float16, bfloat16 and float32"
    if not x.query.dtype == x.key.dtype == x.value.dtype:
        return f"query has dtype {x.query.dtype}, key {x.key.dtype}; the kernel takes one for all three"
    for name, size in (("query", x.query.shape[-1]), ("value", x.value.shape[-1])):
        if not 1 <= size <= LARGEST_HEAD:
            return f"{name} has size {size}; the kernel takes 1 to {LARGEST_HEAD}"
    for name, size in zip(("block_q", "block_k"), sizes):
        if size is not None and size % 16:
            return f"{name} is {size}; the kernel takes multiples of 16"
    return None
