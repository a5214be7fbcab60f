"""Figures that move, in JupyterLab and on the site: Python counts, a script plays.

A figure is a static picture, the trace of a run as JSON, and the script of its kind (mask.js beside mask.py) after
player.js, which all share, with styles of its own where it needs some. The script only moves what Python drew and shows
numbers that Python counted, so nothing is computed in two languages. It needs no kernel and no network. Without a
script the picture stays: the first frame.
"""

from attnlab_course.plots.moving.figure import Moving, show
from attnlab_course.plots.moving.mask import mask_in_blocks
from attnlab_course.plots.moving.roof import roofline
from attnlab_course.plots.moving.walk import run, walk

__all__ = ["Moving", "mask_in_blocks", "roofline", "run", "show", "walk"]
