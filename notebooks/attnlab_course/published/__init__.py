"""The figures that the sources print, kept as data, and the one function that compares ours with them.

``load("rs_table2")`` reads ``rs_table2.toml`` beside this file. A row holds the numbers twice: as printed, and as
values in base units (bytes, seconds), where KB, MB and GB are 2¹⁰, 2²⁰ and 2³⁰ bytes unless the file says otherwise.

What became of each claim stands once, in ``verdicts.toml``: a lesson shows its part where it teaches (``verdicts``),
and the page of reproductions shows all of it and is held against it (``claims``) where it computes a verdict.

``libraries.toml`` is another record: what other libraries' attention functions did when they were run (``libraries``).
"""

import itertools
import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources


WITHIN = 0.2
"""The relative error up to which a number counts as reproduced: it separates a forgotten term from slack."""

OPPOSITE, PAIRS = 0.05, 0.1
"""Two numbers are in the opposite order if their ratio is off by more than this, too; how many of all pairs may be."""

FEWEST, FACTOR, SCATTER = 4, 4, 0.1
"""What a ratio takes: so many numbers, a common factor of at most so much, and so little scatter around it."""

VERDICTS = {
    "reproduced": f"each of our numbers is within a factor of {1 + WITHIN:g} of the published one, and at most one "
    f"pair in {1 / PAIRS:.0f} comes in the opposite order; or we counted or proved what is stated",
    "reproduced in ratio": f"at least {FEWEST} numbers agree once ours are divided by one common factor, which is at "
    f"most {FACTOR} and is named; what remains is within a factor of {1 + SCATTER:g}, and the published numbers "
    "themselves vary by more than that",
    "explained": "it was published as a time; a count of operations, accesses or bytes gives it, no time of ours does",
    "differs": "we tried, and something else came out: another machine, compiler, size or training; we say which, or "
    "that we don't know",
    "refuted": "a count or a proof shows that the statement, as printed, is wrong",
    "not tried": "it takes a machine or a training that we don't have",
}
"""The six verdicts, and what each means."""


@dataclass(frozen=True)
class PublishedRow:
    """One row of a table: ``values`` in ``unit``, nan where nothing is given; ``printed`` as the source has it."""

    label: str
    unit: str
    values: list[float]
    printed: list[str]


@dataclass(frozen=True)
class PublishedTable:
    """One table or figure of a source: its rows have a value for each entry of ``at``, values of ``axis``."""

    title: str
    source: str
    axis: str
    at: list
    rows: dict[str, PublishedRow]


@dataclass(frozen=True)
class Claim:
    """A row of a table of verdicts: what is stated, the verdict, a note, the row of reproductions that computes it."""

    cells: list[str]
    verdict: str
    note: str
    figure: str = ""


@dataclass(frozen=True)
class Comparison:
    """``verdict``: reproduced, reproduced in ratio or differs; ``ratios``: ours ÷ published, nan where nothing was.

    ``factor`` is the geometric mean of the ratios, ``scatter`` the factor by which one of them is off it at most.
    """

    verdict: str
    ratios: list[float]
    factor: float
    scatter: float

    def __str__(self) -> str:
        return self.verdict


def names() -> list[str]:
    """Every record there is."""
    files = resources.files(__name__).iterdir()
    found = {file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml")}
    return sorted(found - {"verdicts", "libraries"})


def load(name: str) -> PublishedTable:
    """The record called ``name``; ValueError, with the names there are, if there is none."""
    if name not in names():
        raise ValueError(f"nothing published is called {name!r}; there are {', '.join(names())}")
    data = read(name)
    rows = {
        key: PublishedRow(**{**row, "values": [float(x) for x in row["values"]]})
        for key, row in data.pop("rows").items()
    }
    return PublishedTable(**data, rows=rows)


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


def compare(published: Sequence[int | float], ours: Sequence[int | float], within: float = WITHIN) -> Comparison:
    """Judge our numbers against published ones, up to a relative error of ``within``, 0.05 for 5 %.

    *reproduced*: each of ours is at most 1 + within times the published number, and the other way round, and they
    don't contradict the order of the published ones. *reproduced in ratio*: not so, but after division by one common
    factor; see VERDICTS for how many numbers this takes, which factor and which scatter. *differs*: neither.

    A claim of one ratio is for :func:`effect`. Where ``published`` is nan there is nothing to compare. Where it is a
    number, ours must be one: leave out what was not run.
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
    scatter = max(max(ratio / factor, factor / ratio) for ratio in judged)
    verdict = "differs"
    orders = [_opposite(a, b) for a, b in itertools.combinations(pairs, 2)]
    if sum(orders) <= PAIRS * len(orders):
        if all(_close(ratio, within) for ratio in judged):
            verdict = "reproduced"
        elif len(pairs) >= FEWEST and _close(factor, FACTOR - 1) and _close(scatter, min(within, SCATTER)):
            theirs = [x for x, _ in pairs]
            verdict = "reproduced in ratio" if max(theirs) > (1 + SCATTER) ** 2 * min(theirs) else "differs"
    return Comparison(verdict, ratios, factor, scatter)


def effect(published: float, ours: float) -> Comparison:
    """Judge the claim that one thing is ``published`` times another, by a tolerance smaller than what is claimed.

    Ours must have the same direction and, on a logarithmic scale, more than half the size. So no effect at all isn't
    close to it, however small it is, nor is the opposite.
    """
    return compare([published], [ours], min(WITHIN, max(published, 1 / published) ** 0.5 - 1))


def _opposite(a: tuple[float, float], b: tuple[float, float]) -> bool:
    """Whether two pairs of a published number and ours have the opposite order, beyond rounding."""
    theirs, ours = a[0] / b[0], a[1] / b[1]
    return (theirs - 1) * (ours - 1) < 0 and not _close(theirs / ours, OPPOSITE)


def _close(ratio: float, within: float) -> bool:
    """Whether two numbers with this ratio differ by a factor of at most 1 + within, either way."""
    return max(ratio, 1 / ratio) <= (1 + within) * (1 + 1e-12)
