"""The figures that the sources print, kept as data, and the one function that compares ours with them.

``load("rs_table2")`` reads ``rs_table2.toml`` beside this file. A row holds the numbers twice: as printed, and as
values in base units (bytes, seconds), where KB, MB and GB are 2¹⁰, 2²⁰ and 2³⁰ bytes unless the file says otherwise.
"""

import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources


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
class Verdict:
    """``ratios``: ours ÷ published, nan where nothing was published; ``verdict`` in the course's three terms."""

    verdict: str
    ratios: list[float]

    def __str__(self) -> str:
        return self.verdict


def names() -> list[str]:
    """Every record there is."""
    files = resources.files(__name__).iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))


def load(name: str) -> Record:
    """The record called ``name``; ValueError, with the names there are, if there is none."""
    if name not in names():
        raise ValueError(f"nothing published is called {name!r}; there are {', '.join(names())}")
    text = resources.files(__name__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
    data = tomllib.loads(text)
    rows = {key: Row(**{**row, "values": [float(x) for x in row["values"]]}) for key, row in data.pop("rows").items()}
    return Record(**data, rows=rows)


def compare(published: Sequence[int | float], ours: Sequence[int | float], within: float) -> Verdict:
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
    if all(close(ratio, within) for ratio in judged):
        verdict = "reproduced"
    elif len(judged) > 1 and all(close(ratio / factor, within) for ratio in judged):
        verdict = "reproduced in ratio"
    else:
        verdict = "not reproduced"
    return Verdict(verdict, ratios)


def close(ratio: float, within: float) -> bool:
    """Whether two numbers with this ratio differ by a factor of at most 1 + within, either way."""
    return max(ratio, 1 / ratio) <= (1 + within) * (1 + 1e-12)
