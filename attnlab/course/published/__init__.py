"""The figures that the sources print, kept as data, and the one function that compares ours with them.

``load("rs_table2")`` reads ``rs_table2.toml`` beside this file. A row holds the numbers twice: as printed, and as
values in base units (bytes, seconds), where KB, MB and GB are 2¹⁰, 2²⁰ and 2³⁰ bytes unless the file says otherwise.

What became of each claim stands once, in ``verdicts.toml``. The page of reproductions computes the verdicts, is held
against it (``claims``) and shows its tables (``verdicts``); a lesson shows its own where it teaches.
"""

import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources


WITHIN = 0.2
"""The relative error up to which a number counts as reproduced: it separates a forgotten term from slack."""

VERDICTS = {
    "reproduced": f"our number and the published one differ by a factor of at most {1 + WITHIN:g}",
    "reproduced in ratio": "they do after division of all our numbers by one common factor",
    "explained": "a count of operations, accesses or bytes gives what was published as a time; no time of ours does",
    "not reproduced": "anything else; the reason is given, or that we do not know it",
}
"""The four verdicts, and what each means."""


@dataclass(frozen=True)
class Row:
    """One row of a table: ``values`` in ``unit``, nan where nothing is given; ``printed`` as the source has it."""

    label: str
    unit: str
    values: list[float]
    printed: list[str]


@dataclass(frozen=True)
class Record:
    """One table or figure of a source: its rows have a value for each entry of ``at``, values of ``axis``."""

    title: str
    source: str
    axis: str
    at: list
    rows: dict[str, Row]


@dataclass(frozen=True)
class Claim:
    """A row of a table of verdicts: what is stated, the verdict, a note, the row of reproductions that computes it."""

    cells: list[str]
    verdict: str
    note: str
    figure: str = ""


@dataclass(frozen=True)
class Verdict:
    """``ratios``: ours ÷ published, nan where nothing was published; ``verdict``: a key of VERDICTS, not explained."""

    verdict: str
    ratios: list[float]

    def __str__(self) -> str:
        return self.verdict


def names() -> list[str]:
    """Every record there is."""
    files = resources.files(__name__).iterdir()
    found = {file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml")}
    return sorted(found - {"verdicts"})


def load(name: str) -> Record:
    """The record called ``name``; ValueError, with the names there are, if there is none."""
    if name not in names():
        raise ValueError(f"nothing published is called {name!r}; there are {', '.join(names())}")
    data = read(name)
    rows = {key: Row(**{**row, "values": [float(x) for x in row["values"]]}) for key, row in data.pop("rows").items()}
    return Record(**data, rows=rows)


def read(name: str) -> dict:
    """What a file beside this one says."""
    return tomllib.loads(resources.files(__name__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))


def claims() -> dict[str, list[Claim]]:
    """The rows of every table of verdicts, by the name of the table."""
    return {name: [Claim(**row) for row in table["rows"]] for name, table in read("verdicts").items()}


def verdicts(name: str) -> str:
    """A table of verdicts, such as "03", in Markdown."""
    head = [*read("verdicts")[name]["columns"], "verdict"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for claim in claims()[name]:
        link = ", " if claim.note.startswith(("because", "by", "for", "from")) else ": "
        lines.append("| " + " | ".join([*claim.cells, f"*{claim.verdict}*{link}{claim.note}"]) + " |")
    return "\n".join(lines)


def compare(published: Sequence[int | float], ours: Sequence[int | float], within: float = WITHIN) -> Verdict:
    """Judge our numbers against published ones, up to a relative error of ``within``, 0.05 for 5 %.

    *reproduced*: each of ours is at most 1 + within times the published number, and the other way round.
    *reproduced in ratio*: not so, but after division by one common factor (the geometric mean of the ratios) it is;
    this takes two numbers at least. *not reproduced*: neither.

    Where ``published`` is nan there is nothing to compare. Where it is a number, ours must be one: leave out what was
    not run.
    """
    if len(published) != len(ours):
        raise ValueError(f"{len(published)} published numbers, {len(ours)} of ours")
    pairs = [(theirs, mine) for theirs, mine in zip(published, ours) if not math.isnan(theirs)]
    if not pairs:
        raise ValueError("nothing was published here")
    if not all(0 < x < math.inf for pair in pairs for x in pair):
        raise ValueError("every number that is compared must be finite and positive")
    ratios = [mine / theirs for theirs, mine in zip(published, ours)]
    judged = [mine / theirs for theirs, mine in pairs]
    factor = math.exp(sum(map(math.log, judged)) / len(judged))
    if all(_close(ratio, within) for ratio in judged):
        verdict = "reproduced"
    elif len(judged) > 1 and all(_close(ratio / factor, within) for ratio in judged):
        verdict = "reproduced in ratio"
    else:
        verdict = "not reproduced"
    return Verdict(verdict, ratios)


def _close(ratio: float, within: float) -> bool:
    """Whether two numbers with this ratio differ by a factor of at most 1 + within, either way."""
    return max(ratio, 1 / ratio) <= (1 + within) * (1 + 1e-12)
