"""Figures that move, in JupyterLab and on the site: Python counts, a script plays.

A figure is a static picture, the trace of a run as JSON, and a script of its own kind (walk.js beside walk.py), with
styles of its own where it needs some. The script only moves what Python drew and shows numbers that Python counted, so
nothing is computed in two languages. It needs no kernel and no network. Without a script the picture stays: the first
frame.
"""

import html
import json
from dataclasses import dataclass
from pathlib import Path

from attnlab_course.plots.moving.mask import mask_in_blocks
from attnlab_course.plots.moving.roof import roofline
from attnlab_course.plots.moving.walk import run, walk

__all__ = ["Moving", "mask_in_blocks", "roofline", "run", "show", "walk"]

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Moving:
    """A figure that moves.

    ``kind``: its script; ``frames``: one SVG for each choice, by name; ``trace``: what the script plays; ``text``: for
    those who can't see it.
    """

    kind: str
    frames: dict[str, str]
    trace: dict[str, list]
    text: str

    def page(self) -> str:
        """The HTML."""
        sheets = (HERE / "moving.css", HERE / f"{self.kind}.css")
        style = "".join(sheet.read_text(encoding="utf-8") for sheet in sheets if sheet.exists())
        script = (HERE / f"{self.kind}.js").read_text(encoding="utf-8")
        trace = json.dumps(self.trace, separators=(",", ":"))
        shown = "".join(
            f'<div class="frame" data-choice="{html.escape(name)}"{" hidden" if number else ""}>{svg}</div>'
            for number, (name, svg) in enumerate(self.frames.items())
        )
        return (
            f'<div class="attnlab-moving" role="group" aria-label="{html.escape(self.text)}">'
            f'<style>{style}</style>{shown}<script type="application/json">{trace}</script>'
            f"<script>{script}</script></div>"
        )


def show(figure: Moving) -> None:
    """Display a moving figure in a notebook."""
    from IPython.display import display

    data = {"text/plain": "<IPython.core.display.HTML object>", "text/html": figure.page()}
    display(data, raw=True)
