"""Tiled attention in Triton: the fold of ``attnlab.tiled.torch``, a program for each tile."""
