"""The scores of one tile of the attention matrix, and what is visible of it.

    s_ij = scale · q_i·k_j + bias_ij   where query i sees key j,   −∞ elsewhere

Everything that decides visibility (causal, window, mask, −∞ bias) is decided here, once for all
algorithms. The whole matrix is a tile, one column is a tile.
"""

from typing import Any, NamedTuple


class Visible(NamedTuple):
    """What is visible of a tile: the pairs, the queries that see any key, the keys that any query sees.

    Where that's all of them, it's None and True: then nothing is compared, and nothing copied.
    """

    pairs: Any = None  # (*#batch, #Hk, #G, #R, #C), True where query i sees key j
    queries: Any = True  # (*#batch, #Hk, #G, #R)
    keys: Any = True  # (*#batch, #Hk, #C)
