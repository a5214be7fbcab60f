"""The published numbers: the data files say twice the same, and the comparison says what it should."""

import math
import re

import pytest
from attnlab_course import published
from attnlab_course.published import compare, effect

from tests.support import ROOT

UNITS = {
    "": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30,
    "s": 1, "ms": 1e-3, "µs": 1e-6,
}  # fmt: skip
DECIMAL = {"os_scores": 1e9}  # 2 GB there are 2 bytes for each of 32,000² scores
NOTHING = ("OOM", "-")


PAGE = ROOT / "notebooks" / "lessons" / "reproductions.md"


def value(printed: str, gigabyte: float) -> float:
    """A printed number in base units."""
    if printed in NOTHING:
        return math.nan
    number, unit = re.fullmatch(r"([\d.e-]+) ?([A-Zµa-z]*)", printed).groups()
    return float(number) * (gigabyte if unit == "GB" else UNITS[unit])


def rows():
    return [(name, key) for name in published.names() for key in published.load(name).rows]


@pytest.mark.parametrize("name", published.names())
def test_every_record_is_whole(name):
    record = published.load(name)
    assert record.title
    assert record.source
    assert record.axis
    for row in record.rows.values():
        assert row.label
        assert row.unit
        assert len(row.values) == len(row.printed) == len(record.at)
        assert all(isinstance(x, float) for x in row.values)
        assert [math.isnan(x) for x in row.values] == [text in NOTHING for text in row.printed]


@pytest.mark.parametrize(("name", "key"), rows())
def test_bytes_and_seconds_are_the_printed_numbers(name, key):
    row = published.load(name).rows[key]
    if row.unit not in ("B", "s"):
        return
    found = [value(text, DECIMAL.get(name, 2**30)) for text in row.printed]
    assert row.values == pytest.approx(found, rel=1e-6, nan_ok=True)


def test_relative_speeds_are_one_plus_the_printed_percentage():
    for name in ("rs_table2", "rs_table3"):
        row = published.load(name).rows["speed"]
        for x, text in zip(row.values, row.printed):
            change = re.match(r"-?\d+", text)
            assert math.isnan(x) if text == "-" else x == 1 + (int(change[0]) / 100 if change else 0)


def test_the_page_of_reproductions_shows_every_record():
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in published.names() if f'"{name}"' not in text] == []


def test_every_claim_has_a_verdict_that_is_defined():
    claims = [claim for table in published.claims().values() for claim in table]
    assert {claim.verdict for claim in claims} <= {*published.VERDICTS}
    assert all(claim.note for claim in claims)
    for name, table in published.claims().items():
        columns = {line.count("|") for line in published.verdicts(name).splitlines()}
        assert len(columns) == 1, name
        assert published.verdicts(name).count("\n") == len(table) + 1


def test_a_figure_has_one_verdict():
    """The page of reproductions computes it, compares it with that of the lessons, and shows all tables."""
    verdicts = {}
    for claim in (claim for table in published.claims().values() for claim in table if claim.figure):
        assert verdicts.setdefault(claim.figure, claim.verdict) == claim.verdict, claim.figure
    lessons = "".join(path.read_text(encoding="utf-8") for path in sorted(PAGE.parent.glob("[0-9]*.md")))
    shown = re.findall(r'listing\.verdicts\("([^"]+)"\)', lessons)
    assert [name for name in published.claims() if name in shown] == shown
    assert "published.claims()" in PAGE.read_text(encoding="utf-8")
    assert not re.findall(rf"(?m)^\|.*\*(?:{'|'.join(published.VERDICTS)})\b.*", lessons)


@pytest.mark.parametrize(("theirs", "ours", "verdict"), [
    ([1, 2, 4], [1, 2, 4], "reproduced"),
    ([1, 2, 4], [1.05, 2 / 1.05, 4], "reproduced"),
    ([1, 2, 4], [1, 2, 5], "differs"),
    ([1, 2, 4, 8], [2, 4, 8, 16], "reproduced in ratio"),
    ([1, 2, 4, 8], [1.05, 2, 4.3, 8], "reproduced in ratio"),
    ([1, 2, 4, 8], [5, 10, 20, 40], "differs"),  # too large a factor
    ([1, 2, 4, 8], [2, 4, 8, 20], "differs"),  # too much scatter
    ([1, 2, 4], [2, 4, 8], "differs"),  # too few numbers
    ([1, 1.05, 1.1, 1.15], [2, 2, 2, 2], "differs"),  # what is claimed is less than the scatter that is allowed
    ([1, math.nan, 4], [1, 7, 4], "reproduced"),
    ([1, math.nan, 4], [1, math.nan, 4], "reproduced"),
    ([4], [4.1], "reproduced"),
    ([4], [8], "differs"),
    ([4, math.nan], [8, 16], "differs"),
    ([3.44, 3.51, 3.49], [3.5, 3.49, 3.5], "reproduced"),  # rounding is no order
])
def test_verdicts(theirs, ours, verdict):
    assert compare(theirs, ours, 0.05).verdict == str(compare(theirs, ours, 0.05)) == verdict
    if not any(map(math.isnan, theirs)):
        assert compare(ours, theirs, 0.05).verdict == verdict


@pytest.mark.parametrize(("theirs", "ours"), [
    ([66.6, 75.2], [7, 6]),
    ([66.6, 75.2], [75.2, 66.6]),
    ([1, 1.1, 1.2, 1.3], [1.3, 1.2, 1.1, 1]),
    ([1, 1.1, 1.2, 1.3], [2.6, 2.4, 2.2, 2]),
    ([100, 200, 300, 330], [200, 400, 660, 600]),
    ([1, 2, 4, 8], [8, 4, 2, 1]),
])
def test_the_opposite_claim_is_not_reproduced(theirs, ours):
    assert compare(theirs, ours).verdict == compare(ours, theirs).verdict == "differs"


@pytest.mark.parametrize("claimed", [75.2 / 66.6, 1.02, 3.5, 59, 0.9])
def test_an_effect_is_judged_by_less_than_its_size(claimed):
    assert effect(claimed, claimed).verdict == effect(claimed, claimed**1.04).verdict == "reproduced"
    assert effect(claimed, 1).verdict == effect(claimed, 1 / claimed).verdict == "differs"
    assert effect(claimed, claimed**0.45).verdict == "differs"
    assert effect(75.2 / 66.6, 7 / 6).verdict == "reproduced"
    assert effect(75.2 / 66.6, 6 / 7).verdict == "differs"


@pytest.mark.parametrize(("theirs", "ours", "complaint"), [
    ([1, 2], [1], "2 published numbers, 1 of ours"),
    ([math.nan], [1], "nothing was published"),
    ([1, 2], [1, math.nan], "finite and positive"),
    ([1, 2], [1, 0], "finite and positive"),
    ([1, 2], [1, -2], "finite and positive"),
    ([1, 0], [1, 2], "finite and positive"),
])
def test_what_cannot_be_compared_is_refused(theirs, ours, complaint):
    with pytest.raises(ValueError, match=complaint):
        compare(theirs, ours, 0.1)


def test_what_a_comparison_tells():
    found = compare([1, 2, 4, 8], [2, 4, 8, 17])
    assert (found.factor, found.scatter) == pytest.approx((2 * (17 / 16) ** 0.25, (17 / 16) ** 0.75))
    found = compare([2, math.nan, 4], [1, 5, 6], 0.1)
    assert found.ratios == pytest.approx([0.5, math.nan, 1.5], nan_ok=True)
    with pytest.raises(ValueError, match=r"called 'table9'; there are .*rs_table2, rs_table3"):
        published.load("table9")
