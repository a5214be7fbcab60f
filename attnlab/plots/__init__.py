"""The figures of the course. Functions take numbers that a lesson computed and return a figure; ``show`` displays it.

What every lesson uses is here; figures of one lesson are in a file of their own, such as attnlab.plots.lesson01.
"""

from attnlab.plots.ladders import ladders, square
from attnlab.plots.style import COLORS, GRAY, INK, LIBRARIES, MARKERS, PALE, STYLE, binary, canvas, darker, show

__all__ = [
    "COLORS", "GRAY", "INK", "LIBRARIES", "MARKERS", "PALE", "STYLE", "binary", "canvas", "darker", "ladders", "show",
    "square",
]
