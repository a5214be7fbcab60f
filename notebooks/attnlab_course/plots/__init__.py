"""What figures of several lessons share. A function takes computed numbers and returns a figure; ``show`` displays it.

The figures of one lesson are in its own folder, such as attnlab_course.lessons.lesson01.figures.
"""

from attnlab.core.arguments import LIBRARIES
from attnlab_course.plots.ladders import ladders
from attnlab_course.plots.roofline import roofline
from attnlab_course.plots.style import COLORS, GRAY, INK, MARKERS, PALE, STYLE, band, canvas, darker, show
from attnlab_course.plots.tables import table

__all__ = [
    "COLORS", "GRAY", "INK", "LIBRARIES", "MARKERS", "PALE", "STYLE", "band", "canvas", "darker",
    "ladders", "roofline", "show", "table",
]
