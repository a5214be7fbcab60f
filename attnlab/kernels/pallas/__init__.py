"""Tiled attention in Pallas: the fold of ``attnlab.tiled.jax``, a program for each tile."""
