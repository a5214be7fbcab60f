"""Closed forms of what each algorithm costs, in integers and without arrays.

``forward`` and ``backward``, and ``decoding`` for one step with a cache, give a :class:`Cost`: the arithmetic, and the
elements that move between HBM and chip, by array. They equal what attnlab.machine counts when it runs the algorithm.
``extra_elements`` is the memory held beyond inputs and output, ``on_chip_elements`` what fast memory must hold. Used
from notebook 07 on.
"""

from attnlab.costs.cost import Cost
from attnlab.costs.backward_pass import backward
from attnlab.costs.decoding import decoding
from attnlab.costs.memory import extra_elements, on_chip_elements, training_bytes
from attnlab.costs.forward_pass import forward
from attnlab.costs.tiling import Tiling, paper_blocks, tiling

__all__ = [
    "Cost", "Tiling", "backward", "decoding", "extra_elements", "forward", "on_chip_elements", "paper_blocks", "tiling",
    "training_bytes",
]  # fmt: skip
