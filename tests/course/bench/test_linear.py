"""The comparison of linear attention with softmax: what is timed, what is left out, crossovers, how it is printed."""

import numpy as np
import pytest
from attnlab_course.bench import __main__ as command
from attnlab_course.bench import linear
from attnlab_course.bench.contestants import Contestant
from attnlab_course.bench.setting import Setting
from attnlab_course.instruments import timing

from attnlab.linear import FORMS
from tests.support.libraries import back

SMALL = Setting(24, heads=2, kv_heads=2, d=4, causal=True)


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(timing, "SETTLE", 0)
    monkeypatch.setattr(timing, "SHORT", 0)


@pytest.mark.parametrize("gradient", [False, True])
def test_everyone_computes_the_same(gradient):
    setting = linear.replace(SMALL, gradient=gradient)
    everyone = linear.contestants(["torch", "jax", "numpy"], setting)
    assert len(everyone) == (1 + 2 * 4 if gradient else 1 + 3 * 4)
    right = {}
    for contestant in everyone:
        found = linear.call(contestant, setting)()
        kind = "forms" if contestant.method in FORMS else "softmax"
        for a, b in zip(found if gradient else [found], right.setdefault(kind, found if gradient else [found])):
            np.testing.assert_allclose(back(a), back(b), atol=1e-5, err_msg=contestant.name)
    assert np.abs(back(right["forms"][0]) - back(right["softmax"][0])).max() > 0.1


def test_a_small_run(capsys, monkeypatch):
    monkeypatch.setattr(linear, "PASSES", [SMALL])
    monkeypatch.setattr(linear, "available", lambda device, libraries: (["torch", "numpy"], {}))
    command.main(["--linear", "--n", "48", "16", "--rounds", "1"])
    first, second, _ = capsys.readouterr().out.split("\n\n")
    _, title, columns, _, *rows = first.split("\n")
    assert title == "forward, causal, 2 heads of size 4, float32"
    assert [[cell.strip() for cell in row.split("|")[1:3]] for row in rows] == [
        [n, x] for n in ("16", "48") for x in ("torch", "numpy")
    ]  # fmt: skip
    assert {len(row) for row in rows} == {len(columns)}
    across, _, *forms = second.split("\n")
    assert [cell.strip() for cell in across.split("|")[-5:-1]] == ["tiled", "quadratic", "recurrent", "chunked"]
    assert [row.split()[1:3] for row in forms][-1] == ["numpy", "quadratic"]


def test_what_takes_too_long_or_too_much_is_left_out(monkeypatch):
    monkeypatch.setattr(linear.hardware, "memory_size", lambda: 2**34)
    softmax, *_ = linear.contestants(["torch"], SMALL)
    quadratic, recurrent, chunked = (Contestant("torch", form) for form in reversed(FORMS))
    before = {256: {"torch sdpa": 3.0, "torch recurrent": 3.0, "torch quadratic": 1e-3}}

    def reason(contestant, n, found=before, gradient=False):
        return linear.left_out(contestant, Setting(n, causal=True, gradient=gradient), found)

    assert reason(softmax, 768) is None
    assert reason(softmax, 1024) == "left out, because a call would take about 48 s"
    assert reason(recurrent, 2048) is None
    assert reason(recurrent, 4096) == "left out, because a call would take about 48 s"
    assert reason(recurrent, 2**16, {}, gradient=True) == "left out, because it holds at least 8.5 GiB"
    assert reason(quadratic, 4096) is None
    assert reason(quadratic, 2**16) == "left out, because it holds at least 128.3 GiB"
    assert reason(chunked, 2**20, {}) is None
    assert reason(chunked, 512) == "left out, as before"


def test_a_line_says_what_is_left_out(capsys, monkeypatch):
    monkeypatch.setattr(linear, "PASSES", [SMALL])
    monkeypatch.setattr(linear, "LONGEST", 0)
    monkeypatch.setattr(linear, "available", lambda device, libraries: (["numpy"], {}))
    linear.print_tables([8, 16], 1, 1)
    first, second, _ = capsys.readouterr().out.split("\n\n")
    _, _, _, _, row, *remark = first.split("\n")
    assert [cell.strip() for cell in row.split("|")[1:3]] == ["8", "numpy"]
    assert all(f"numpy {x} at N = 16" in " ".join(remark) for x in ("tiled", "quadratic", "recurrent", "chunked"))
    assert "left out, because" in " ".join(remark)
    assert second.startswith("| faster from N on")


def test_crossovers_lie_between_lengths():
    """Ratios 4, 1/4 cross in the middle of the logarithms; 1/2 before the first length; 2 after the last."""
    times = {
        100: {"torch sdpa": 1.0, "torch tiled": 8.0, "torch chunked": 4.0, "torch recurrent": 2.0},
        400: {"torch sdpa": 16.0, "torch tiled": 8.0, "torch chunked": 4.0, "torch recurrent": 2.0},
    }
    chunked, recurrent = linear.crossovers(["torch"], times)
    assert chunked == ["torch chunked", "200", "≤ 100", "–", "> 400", "–"]
    assert recurrent == ["torch recurrent", "141", "≤ 100", "–", "–", "≤ 100"]


def test_rows():
    row, other = linear.lines(["torch", "jax"], 2048, {"torch sdpa": 1.0, "torch chunked": 0.25, "jax tiled": 2.0})
    assert row == ["2,048", "torch", "1,000.00", "–", "–", "–", "250.00", "0.250", "chunked"]
    assert other == ["2,048", "jax", "1,000.00", "2,000.00", "–", "–", "–", "–", "sdpa"]
