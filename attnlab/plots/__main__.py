"""``python -m attnlab.plots FILE.svg`` draws the ladders of the README."""

import sys

from attnlab.plots import STYLE, ladders

import matplotlib

with matplotlib.rc_context(STYLE):
    ladders().savefig(sys.argv[1], metadata={"Date": None})
