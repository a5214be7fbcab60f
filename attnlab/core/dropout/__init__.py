"""The dropout mask: a pure function of position, regenerated and never stored.

Dropout keeps p_ij iff the first word of Threefry-2x32-20 (Salmon et al. 2011) with key (seed, h) and
counter (i, j) is at least dropout · 2³²: a pure function of position, so any tiling regenerates it.
"""

ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
PARITY = 0x1BD11BDA
"""Constants of Threefry-2x32 (Salmon et al. 2011, table 4; the parity word fits a 32-bit word)."""
