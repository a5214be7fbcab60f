"""How long a lesson takes, from its text: words, code, equations, figures, tables, cells; stars for the exercises.

    python -m tests.support.minutes      writes them into lessons and instructors.md (make notebooks does)

In a minute one reads 130 words of prose or 10 visible lines of code. An equation, a figure and a table take a minute
each, a listing of the package two, and running a cell and reading what it prints half a minute. So measured, lessons 14
to 18 take what a graduate student took to read them. Not counted as reading is what a reader may leave closed (hidden
cells, folds other than *Why*, *Further* sections) and the exercises, from the paragraph that begins with stars to the
cell of the checker: they are counted by their stars.
"""

import math
import re

from tests.support import ROOT

PLANS = ROOT / "notebooks" / "book" / "instructors.md"
LESSONS = {path.stem[:2]: path for path in sorted((ROOT / "notebooks" / "lessons").glob("[0-9]*.md"))}
WORDS, LINES = 130, 10  # read in a minute
EACH = {"equations": 1, "figures": 1, "tables": 1, "listings": 2, "cells": 0.5}  # minutes
STARS = {"★": 5, "★★": 10, "★★★": 20}  # minutes of an exercise

OTHERS = re.DOTALL | re.MULTILINE
FRONT = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
FURTHER = re.compile(r"^(##+) Further.*?(?=^##+ (?!Further)|\Z)", OTHERS)
FOLD = re.compile(r"^<details><summary>(?!Why</summary>).*?</details>$", OTHERS)
EXERCISE = re.compile(r"^\*\*(★+)(?: |\*\*).*?^:tags: \[check.*?^```$", OTHERS)
CELL = re.compile(r"^```\{code-cell\}\n(.*?)^```$", OTHERS)
HIDDEN = re.compile(r"\A:tags: \[[^\]]*(?:hide-(?:input|cell)|authors)")
TABLE = re.compile(r"^\|[-: |]+\|$|\bplots\.table\(", OTHERS)
EQUATION = re.compile(r"\$\$.*?\$\$", re.DOTALL)
INLINE = re.compile(r"\$[^$]+\$")


def content(text: str) -> dict[str, int]:
    """What of a lesson is read: words of prose, visible lines of code, and how many of what takes time by the piece."""
    for pattern in (FRONT, FURTHER, FOLD, EXERCISE):
        text = pattern.sub("", text)
    cells = [cell for cell in CELL.findall(text) if "authors" not in cell.partition("\n")[0]]
    shown = [cell for cell in cells if not HIDDEN.match(cell)]
    lines = [line for cell in shown for line in cell.splitlines() if line.strip() and not line.startswith(":tags:")]
    prose = CELL.sub("", text)
    words = INLINE.sub("formula", EQUATION.sub("", prose)).split()
    return {
        "words": sum(bool(re.search(r"\w", word)) for word in words),
        "lines": len(lines),
        "equations": len(EQUATION.findall(prose)),
        "figures": sum(len(re.findall(r"\b(?:plots|moving)\.show\(|\binteract\(", cell)) for cell in cells),
        "tables": len(TABLE.findall(text)),
        "listings": sum(cell.count("listing.") for cell in cells),
        "cells": len(shown),
    }


def reading(text: str) -> int:
    """Minutes to read a lesson, rounded up to a multiple of five."""
    found = content(text)
    pieces = sum(minutes * found[what] for what, minutes in EACH.items())
    return 5 * math.ceil((found["words"] / WORDS + found["lines"] / LINES + pieces) / 5)


def solving(text: str) -> int:
    """Minutes for the exercises of a lesson."""
    return sum(STARS[stars] for stars in EXERCISE.findall(text))


def head(text: str) -> str:
    """A lesson with its minutes at the head, if it says them apart."""
    said = rf"\g<1>{reading(text)} minutes to read, {solving(text)} for the exercises."
    return re.sub(r"^(\*About )\d+ minutes to read, \d+ for the exercises\.", said, text, count=1, flags=re.MULTILINE)


def total(text: str) -> int:
    """Minutes at the head of a lesson: in all, or to read and for the exercises together."""
    said = re.search(r"^\*About (\d+) minutes(?: to read, (\d+) for)?", text, re.MULTILINE)
    return sum(int(minutes) for minutes in said.groups() if minutes)


def plans(page: str, texts: dict[str, str]) -> str:
    """The page for instructors with the minutes, exercises and points of the lessons, and the reading of its plans."""
    def row(found: re.Match) -> str:
        text = texts[found[2]]
        stars = sorted(EXERCISE.findall(text))
        return f"{found[1]} {total(text)} | {found[3]} | {', '.join(stars)} | {len(''.join(stars))} |"

    def meeting(found: re.Match) -> str:
        return f"{found[1]}{sum(reading(texts[number]) for number in re.findall(r'[0-9]{2}', found[2]))} |"

    page = re.sub(r"^(\| \[(\d\d) · .*?\) \|) \d+ \| (.*?) \|.*$", row, page, flags=re.MULTILINE)
    return re.sub(r"^(\| [^|\[]+ \| (\d\d[^|]*) \| )\d+ \|$", meeting, page, flags=re.MULTILINE)


def main() -> None:
    """Write the minutes into lessons and plans, and print what they are made of."""
    texts = {number: head(path.read_text(encoding="utf-8")) for number, path in LESSONS.items()}
    print("lesson", *content(""), "to read", "exercises", sep="  ")
    for number, text in texts.items():
        found = content(text)
        counts = "".join(f"{count:{len(what) + 2}}" for what, count in found.items())
        print(f"{number:<6}{counts}{reading(text):9}{solving(text):11}")
        LESSONS[number].write_text(text, encoding="utf-8")
    PLANS.write_text(plans(PLANS.read_text(encoding="utf-8"), texts), encoding="utf-8")


if __name__ == "__main__":
    main()
