"""A figure that moves, and how it is shown."""

import html
import json
from dataclasses import dataclass
from pathlib import Path

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
        script = "".join((HERE / f"{name}.js").read_text(encoding="utf-8") for name in ("player", self.kind))
        trace = json.dumps(self.trace, separators=(",", ":"))
        shown = "".join(
            f'<div class="frame" data-choice="{html.escape(name)}"{" hidden" if number else ""}>{svg}</div>'
            for number, (name, svg) in enumerate(self.frames.items())
        )
        return (
            f'<div class="attnlab-moving" role="group" aria-label="{html.escape(self.text)}">'
            f'<style>{style}</style>{shown}<script type="application/json">{trace}</script>'
            f'<script>(root => {{\n"use strict";\n{script}}})(document.currentScript.parentElement);</script></div>'
        )


def show(figure: Moving) -> None:
    """Display a moving figure in a notebook."""
    from IPython.display import display

    data = {"text/plain": "<IPython.core.display.HTML object>", "text/html": figure.page()}
    display(data, raw=True)
