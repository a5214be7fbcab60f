"""Whether the blocks of FlashAttention's Algorithms 1 and 4 fit into an SRAM, run on the machine that counts."""

from itertools import count

import numpy as np
from attnlab import costs
from attnlab_course.instruments import machine
from attnlab_course.instruments.machine import Machine, OutOfSRAM


def tried(sram: int, d: int, backward: bool) -> tuple[int, int, bool, int]:
    """Run the paper's B_c for ``sram`` bytes in half precision: B_c, the bytes held, whether they fit, the largest B_c.

    The last is 0 where not even one key fits.
    """
    _, keys = costs.paper_blocks(sram // 2, d)
    held = peak_held(sram, d, keys, backward)
    fits = peak_held(sram, d, keys, backward, strict=True) is not None
    largest = largest_fit(sram // 2, d, backward)
    assert fits == (held <= sram)
    assert not largest or peak_held(sram, d, largest, backward, strict=True) is not None
    assert peak_held(sram, d, largest + 1, backward, strict=True) is None
    return keys, held, fits, largest


def peak_held(sram: int, d: int, block_k: int, backward: bool, strict: bool = False) -> int | None:
    """The most bytes that SRAM held, None if they didn't fit; 2 blocks of keys and of queries."""
    run, block_q = Machine(sram, strict=strict), min(block_k, d)
    n = {"Q": 2 * block_q, "K": 2 * block_k, "V": 2 * block_k, "dO": 2 * block_q}
    rng = np.random.default_rng(0)
    q, k, v, do = (run.put(name, rng.normal(size=(length, d))) for name, length in n.items())
    try:
        saved = machine.flash_forward(run, q, k, v, block_q=block_q, block_k=block_k)
        if backward:
            machine.flash_backward(run, q, k, v, *saved, do, block_q=block_q, block_k=block_k)
    except OutOfSRAM:
        return None
    return run.peak


def largest_fit(sram: int, d: int, backward: bool) -> int:
    """The largest block of keys whose visit holds at most this many elements, with B_r = min(B_c, D); 0 if none."""
    held = (costs.on_chip_elements("flash", min(c, d), c, d, d, gradient=backward) for c in count(1))
    return next(c for c, size in enumerate(held) if size > sram)
