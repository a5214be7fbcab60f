"""The scores of one tile of the attention matrix, and what is visible of it.

    s_ij = scale · q_i·k_j + bias_ij   where query i sees key j,   −∞ elsewhere

Everything that decides visibility (causal, window, mask, −∞ bias) is decided here, once for all
algorithms. The whole matrix is a tile, one column is a tile.
"""
