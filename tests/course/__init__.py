"""Lessons, exercises, figures, published numbers, and how notebooks are built."""
