"""``python -m attnlab_course.plots FILE.svg`` draws the ladders of the README."""

import argparse

from attnlab_course.plots import STYLE, ladders

import matplotlib

parser = argparse.ArgumentParser("python -m attnlab_course.plots", description="Draw the two ladders of the course.")
parser.add_argument("file", metavar="FILE.svg")
file = parser.parse_args().file
with matplotlib.rc_context(STYLE):
    ladders().savefig(file, metadata={"Date": None})
