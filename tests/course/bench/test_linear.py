"""The comparison of linear attention with softmax: what is timed, what is left out, how it is printed."""

import dataclasses

import numpy as np
import pytest
from attnlab_course.bench import __main__ as command
from attnlab_course.bench import linear, question
from attnlab_course.bench.setting import Setting
from attnlab_course.instruments import timing

from attnlab.linear import FORMS
from tests.support.libraries import back

SMALL = Setting(24, heads=2, kv_heads=2, d=4, causal=True)


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(question, "SETTLE", 0)
    monkeypatch.setattr(timing, "SAMPLE", 0)


@pytest.mark.parametrize("gradient", [False, True])
def test_everyone_computes_the_same(gradient):
    setting = dataclasses.replace(SMALL, gradient=gradient)
    found = linear.prepare_calls(["torch", "jax"] if gradient else ["torch", "jax", "numpy"], setting)
    assert len(found) == (1 + 2 * 4 if gradient else 1 + 3 * 4)
    right = {}
    for name, call in found.items():
        kind = "forms" if name.partition(" ")[2] in FORMS else "softmax"
        outs = call() if gradient else [call()]
        for a, b in zip(outs, right.setdefault(kind, outs), strict=True):
            np.testing.assert_allclose(back(a), back(b), atol=1e-5, err_msg=name)
    assert np.abs(back(right["forms"][0]) - back(right["softmax"][0])).max() > 0.1


def test_a_small_run(capsys, monkeypatch):
    monkeypatch.setattr(linear, "find_libraries", lambda device, libraries: (["torch", "numpy"], {}))
    command.main(["--linear", "--n", "16", "48", "--rounds", "1"])
    titles, rows = [], []
    for line in capsys.readouterr().out.splitlines():
        titles += [line] if line.startswith("Softmax") else []
        rows += [[cell.strip() for cell in line.split("|")[1:3]]] if line[2:4].isdigit() else []
    assert [title.split("; ")[1].partition(",")[0] for title in titles] == ["forward", "forward+backward"]
    forward = [[n, library] for n in ("16", "48") for library in ("torch", "numpy")]
    assert rows == [*forward, ["16", "torch"], ["48", "torch"]]


def test_what_does_not_fit_is_left_out(monkeypatch):
    monkeypatch.setattr(linear.hardware, "memory_size", lambda: 2**34)
    assert [n for n in (4096, 2**16) if linear.fits_memory("quadratic", Setting(n))] == [4096]
    assert not linear.fits_memory("recurrent", Setting(2**16, gradient=True))
    assert linear.fits_memory("chunked", Setting(2**20))
    monkeypatch.setattr(linear.hardware, "memory_size", lambda: 1)
    assert [*linear.prepare_calls(["numpy"], SMALL)] == ["numpy tiled"]


def test_rows():
    times = {"torch sdpa": 1.0, "torch chunked": 0.25, "jax tiled": 2.0}
    row, other = linear.make_rows(["torch", "jax"], Setting(2048), times)
    assert row == ["2,048", "torch", "1,000", "–", "–", "–", "250", "0.25", "chunked"]
    assert other == ["2,048", "jax", "1,000", "2,000", "–", "–", "–", "–", "sdpa"]
