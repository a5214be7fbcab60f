"""Figures whose every step is drawn in Python: play.js puts in place whatever differs from the step before.

A step is a list of marks, the same ones at every step, each with its attributes. So a figure of this kind needs no
script of its own.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from attnlab_course.plots.moving.figure import Moving

INSIDE = "text"  # what a mark calls its text, beside its attributes; or marks as text, which no step changes


class Mark(NamedTuple):
    """An element of SVG: its tag and its attributes, of which ``text`` is what's inside."""

    tag: str
    attributes: dict[str, Any]

    def svg(self) -> str:
        """The element."""
        given = "".join(f' {name}="{value}"' for name, value in self.attributes.items() if name != INSIDE)
        inside = self.attributes.get(INSIDE)
        return f"<{self.tag}{given}/>" if inside is None else f"<{self.tag}{given}>{inside}</{self.tag}>"


class Film(NamedTuple):
    """Steps to be played, of a picture so wide and tall; a step is its marks and the numbers that ``words`` show."""

    width: int
    height: int
    words: str  # a {} for each number
    steps: Sequence[tuple[Sequence[int], Sequence[Mark]]]

    def frame(self) -> str:
        """The picture of the first step."""
        marks = "".join(mark.svg() for mark in self.steps[0][1])
        size = f'viewBox="-1 0 {self.width + 2} {self.height}" width="{self.width + 2}"'
        return f'<svg {size} role="img">{marks}</svg>'

    def trace(self) -> list:
        """The words, the attributes that change, and of each step the numbers and the changes.

        The changes are in one row, to be small: place, value, place, value, …; of the attributes number a, and of the
        marks number m, has the place m · attributes + a.
        """
        numbers, pictures = zip(*self.steps)
        found = changes([[mark.attributes for mark in x] for x in pictures])
        names = sorted({name for step in found for _, name in step})
        steps = []
        for shown, step in zip(numbers, found):
            pairs = ((mark * len(names) + names.index(name), value) for (mark, name), value in step.items())
            steps.append([list(shown), [x for pair in pairs for x in pair]])
        return [self.words, names, *steps]


def changes(pictures: Sequence[Sequence[dict[str, Any]]]) -> list[dict[tuple[int, str], Any]]:
    """What each picture changes of the one before, (mark, attribute) → value; the first: what any other changes."""
    whole = [{(place, name): x for place, mark in enumerate(marks) for name, x in mark.items()} for marks in pictures]
    later = [{at: x for at, x in after.items() if before[at] != x} for before, after in pairwise(whole)]
    return [{at: x for at, x in whole[0].items() if any(at in step for step in later)}, *later]


def drawn(films: Mapping[str, Film], text: str) -> Moving:
    """Films, to be chosen from by name; ``text`` is for those who can't see them."""
    frames = {name: film.frame() for name, film in films.items()}
    return Moving("play", frames, {name: film.trace() for name, film in films.items()}, text)


def box(x: float, y: float, width: float, height: float, kind: str = "", **attributes: Any) -> Mark:
    """A rectangle, of a class of the style sheet if it has a ``kind``."""
    place = {"x": round(x), "y": round(y), "width": round(width), "height": round(height)}
    return Mark("rect", {**({"class": kind} if kind else {}), **place, **attributes})


def outline(x: int, y: int, width: int, height: int) -> str:
    """A rectangle as a part of a path."""
    return f"M{x} {y}h{width}v{height}h-{width}z"


def word(x: float, y: float, text: str | int, anchor: str = "start", **attributes: Any) -> Mark:
    """A text that begins at x; that ends there, or has its middle there, with ``anchor`` "end" or "middle"."""
    where = {"x": round(x), "y": round(y)} | ({} if anchor == "start" else {"text-anchor": anchor})
    return Mark("text", {**where, **attributes, INSIDE: text})
