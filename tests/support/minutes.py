"""How long a lesson takes, from its text: words, visible lines of code, displayed equations; stars for the exercises.

    python -m tests.support.minutes      writes them into lessons and instructors.md (make notebooks does)

Prose is read at 130 words a minute, code at 15 lines, and equations at three in two minutes. Not counted as reading
is what a reader may leave closed (hidden cells, folds other than *Why*, *Further* sections) and the exercises, from the
paragraph that begins with stars to the cell of the checker: they are counted by their stars.
"""

import math
import re

from tests.support import ROOT

PLANS = ROOT / "notebooks" / "book" / "instructors.md"
LESSONS = {path.stem[:2]: path for path in sorted((ROOT / "notebooks" / "lessons").glob("[0-9]*.md"))}
WORDS, LINES, EQUATIONS = 130, 15, 1.5  # read in a minute
STARS = {"★": 5, "★★": 10, "★★★": 20}  # minutes of an exercise

OTHERS = re.DOTALL | re.MULTILINE
FRONT = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
FURTHER = re.compile(r"^(##+) Further.*?(?=^##+ (?!Further)|\Z)", OTHERS)
FOLD = re.compile(r"^<details><summary>(?!Why</summary>).*?</details>$", OTHERS)
EXERCISE = re.compile(r"^\*\*(★+)(?: |\*\*).*?^:tags: \[check.*?^```$", OTHERS)
CELL = re.compile(r"^```\{code-cell\}\n(.*?)^```$", OTHERS)
HIDDEN = re.compile(r"\A:tags: \[[^\]]*hide-(?:input|cell)")
EQUATION = re.compile(r"\$\$.*?\$\$", re.DOTALL)
INLINE = re.compile(r"\$[^$]+\$")


def content(text: str) -> tuple[int, int, int]:
    """What of a lesson is read: words of prose, visible lines of code, displayed equations."""
    for pattern in (FRONT, FURTHER, FOLD, EXERCISE):
        text = pattern.sub("", text)
    shown = [cell for cell in CELL.findall(text) if not HIDDEN.match(cell)]
    lines = [line for cell in shown for line in cell.splitlines() if line.strip() and not line.startswith(":tags:")]
    prose = CELL.sub("", text)
    words = INLINE.sub("formula", EQUATION.sub("", prose)).split()
    return sum(bool(re.search(r"\w", word)) for word in words), len(lines), len(EQUATION.findall(prose))


def reading(text: str) -> int:
    """Minutes to read a lesson, rounded up to a multiple of five."""
    words, lines, equations = content(text)
    return 5 * math.ceil((words / WORDS + lines / LINES + equations / EQUATIONS) / 5)


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
    print("lesson  words  lines  equations    to read  exercises")
    for number, text in texts.items():
        words, lines, equations = content(text)
        print(f"{number:<6} {words:6} {lines:6} {equations:10} {reading(text):10} {solving(text):10}")
        LESSONS[number].write_text(text, encoding="utf-8")
    PLANS.write_text(plans(PLANS.read_text(encoding="utf-8"), texts), encoding="utf-8")


if __name__ == "__main__":
    main()
