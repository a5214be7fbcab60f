"""The scores of one tile of the attention matrix, what is visible of it, and its dropout mask.

    s_ij = scale · q_i·k_j + bias_ij   where query i sees key j,   −∞ elsewhere

Everything that decides visibility (causal, window, mask, −∞ bias) is decided here, once for all
algorithms. The whole matrix is a tile, one column is a tile.

Dropout keeps p_ij iff the first word of Threefry-2x32-20 (Salmon et al. 2011) with key (seed, h) and
counter (i, j) is at least dropout · 2³²: a pure function of position, so any tiling regenerates it.
"""

ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
PARITY = 0x1BD11BDA
"""Constants of Threefry-2x32 (Salmon et al. 2011, table 4; the parity word fits a 32-bit word)."""
