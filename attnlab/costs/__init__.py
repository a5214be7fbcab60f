"""Closed forms of what each algorithm costs, in integers and without arrays.

``forward`` and ``backward``, ``decoding`` for one step with a cache, and ``linear`` for linear attention give a
:class:`PassCost`: the arithmetic, and the elements that move between HBM and chip, by array. They equal what the
machine of the course counts when it runs the algorithm. ``extra_elements`` is the memory held beyond inputs and output
(``linear_`` and ``delta_`` have it, too), ``on_chip_elements`` what fast memory must hold; ``cache_bytes`` is what
fewer bits and shorter windows leave of a cache; ``state_elements`` and ``break_even_length`` set the state of linear
attention against a cache. Used from notebook 07 on.
"""

from attnlab.core.other_names import errors_end_at_calls
from attnlab.costs.backward_pass import backward
from attnlab.costs.cost import PassCost
from attnlab.costs.decoding import cache_bytes, decoding
from attnlab.costs.forward_pass import forward
from attnlab.costs.linear import (
    break_even_length, delta_extra_elements, linear, linear_extra_elements, state_elements,
)
from attnlab.costs.memory import extra_elements, on_chip_elements, training_bytes
from attnlab.costs.tiling import Tiling, paper_blocks, segment_tiles, tiling

__all__ = [
    "PassCost", "Tiling", "backward", "break_even_length", "cache_bytes", "decoding", "delta_extra_elements",
    "extra_elements", "forward", "linear", "linear_extra_elements", "on_chip_elements", "paper_blocks",
    "segment_tiles", "state_elements", "tiling", "training_bytes",
]  # fmt: skip

errors_end_at_calls(__name__)
