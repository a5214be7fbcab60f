"""What figures of several lessons share. A function takes computed numbers and returns a figure; ``show`` displays it.

The figures of one lesson are in its own folder, such as attnlab.course.lesson01.figures.
"""

from attnlab.arguments import LIBRARIES
from attnlab.plots.groupings import groupings
from attnlab.plots.ladders import ladders, square
from attnlab.plots.roofline import roofline
from attnlab.plots.style import COLORS, GRAY, INK, MARKERS, PALE, STYLE, band, canvas, darker, show
from attnlab.plots.tables import table

__all__ = [
    "COLORS", "GRAY", "INK", "LIBRARIES", "MARKERS", "PALE", "STYLE", "band", "canvas", "darker",
    "groupings", "ladders", "roofline", "show", "square", "table",
]
