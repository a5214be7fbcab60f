"""Figures that several lessons share, listings of source, the poster."""
