"""The six algorithms side by side on one page: what a rung changes is marked, what it costs stands beneath."""

import ast
import html
import io
import re
import tokenize
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher

from attnlab import costs
from attnlab.measure import binary
from attnlab_course.ladder import LADDER

BELOW = {"naive": "", "safe": "naive", "lazy": "naive", "online": "lazy", "chunked": "safe", "tiled": "online"}
"""Each algorithm's rung to compare with."""
N, D = 4096, 64
PANEL, TALL, LINE, LETTER = 560, 320, 21, 8.43  # of a panel, of a line of code and of a letter, in pixels
STYLE = """
text { fill: #222; font-family: sans-serif; font-size: 15px; }
.title { font-size: 34px; font-weight: 600; }
.name { font-size: 20px; font-weight: 600; }
.small { fill: #666; font-size: 15px; font-weight: 400; }
.code { font-family: "DejaVu Sans Mono", monospace; font-size: 14px; white-space: pre; }
.mark { fill: #f6e0a8; }
"""


def poster(sources: Mapping[str, str]) -> str:
    """The page as SVG. ``sources``: name → source of the function, in the order of the ladder."""
    width, height = 3 * PANEL + 60, 2 * TALL + 150
    panels = "".join(
        f'<g transform="translate({40 + at % 3 * PANEL} {100 + at // 3 * TALL})">{panel(name, sources)}</g>'
        for at, name in enumerate(sources)
    )
    foot = f"The code: one query. Held and moved: one head, N = M = {N:,}, D = {D}, float32, by closed forms."
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
        f'<style>{STYLE}</style><rect width="{width}" height="{height}" fill="white"/>'
        f'<text class="title" x="40" y="58">Attention six ways, one output</text>{panels}'
        f'<text class="small" x="40" y="{height - 24}">{foot}</text></svg>'
    )


def panel(name: str, sources: Mapping[str, str]) -> str:
    """One algorithm: its code with what is new, and its costs."""
    method, lines = LADDER[name], code(sources[name]).split("\n")
    marks = "".join(
        f'<rect class="mark" x="{LETTER * start:.1f}" y="{LINE * row + 11}" '
        f'width="{LETTER * (stop - start):.1f}" height="{LINE - 2}"/>'
        for row, start, stop in new_places(name, sources)
    )
    text = "".join(
        f'<text class="code" x="0" y="{LINE * row + 26}">{html.escape(line)}</text>' for row, line in enumerate(lines)
    )
    held = 4 * costs.extra_elements(name, N, N, D, D)
    moved = 4 * costs.forward(name, N, N, D, D).elements
    return (
        f'<rect x="0" y="-16" width="{PANEL - 40}" height="4" fill="{method.color}"/>'
        f'<text class="name" x="0" y="8">{name}<tspan class="small" dx="12">{method.idea}</tspan></text>'
        f'<g transform="translate(0 18)">{marks}{text}</g>'
        f'<text class="small" x="0" y="{TALL - 60}">holds {binary(held, 3)} · moves {binary(moved, 3)}</text>'
    )


def code(source: str) -> str:
    """The function without its comments, which say what the marks show."""
    return re.sub(r" *#[^\n]*", "", source).strip()


def tokens(source: str) -> list[tokenize.TokenInfo]:
    """The words of a function's body, without layout."""
    found = tokenize.generate_tokens(io.StringIO(code(source) + "\n").readline)
    return [token for token in found if token.string.strip() and token.start[0] > 1]


def new_places(name: str, sources: Mapping[str, str]) -> Iterator[tuple[int, int, int]]:
    """Line, first and last column of each token that the rung below doesn't have there."""
    if not BELOW[name]:
        return
    below, ours = tokens(sources[BELOW[name]]), tokens(sources[name])
    words = [[token.string for token in side] for side in (below, ours)]
    for kind, _, _, start, stop in SequenceMatcher(None, *words, autojunk=False).get_opcodes():
        for token in ours[start:stop] if kind != "equal" else []:
            yield token.start[0] - 1, token.start[1], token.end[1]


def functions(lesson: str) -> dict[str, str]:
    """The sources of the six in the text of lesson 00."""
    cells = re.findall(r"```\{code-cell\}\n(?::tags:.*?\n)?(.*?)```", lesson, re.DOTALL)
    cell = next(cell for cell in cells if "def naive(" in cell)
    found = {node.name: node for node in ast.parse(cell).body if isinstance(node, ast.FunctionDef)}
    return {name: ast.get_source_segment(cell, found[name]) or "" for name in LADDER}
