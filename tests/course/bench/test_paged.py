"""The comparison of pages with keys in a row: what is timed, and how it is printed."""

import numpy as np
from attnlab_course.bench import __main__ as command
from attnlab_course.bench import paged
from attnlab_course.bench.setting import Setting

from tests.support.libraries import back


def test_steps_attend_to_the_same_keys(monkeypatch):
    monkeypatch.setattr(paged, "BLOCKS", (4, 32))
    setting = Setting(1, 32, batch=1, heads=2, kv_heads=2, d=8)
    found = {name: back(call()) for name, call in paged.steps(["torch", "jax", "numpy"], setting).items()}
    assert len(found) == 10
    for name, out in found.items():
        if not name.endswith("of 4"):  # one page, or none: the order of blocks, which is random, does not matter
            np.testing.assert_allclose(out, found["torch sdpa"], atol=1e-6, err_msg=name)
        assert out.shape == (1, 2, 1, 8)


def test_ratios_are_printed(capsys, monkeypatch):
    monkeypatch.setattr(paged, "SETTINGS", [Setting(1, 128, batch=2, heads=1, kv_heads=1, d=4)])
    monkeypatch.setattr(paged, "available", lambda device, libraries: (["torch", "numpy"], {}))
    command.main(["--paged", "--rounds", "1"])
    lines = capsys.readouterr().out.splitlines()
    assert "N = 1, M = 128, batch 2" in lines[0]
    assert [line.split()[1:3] for line in lines[3:6]] == [["torch", "sdpa"], ["torch", "in"], ["torch", "pages"]]


def test_ratios_are_to_both():
    sdpa, row, pages = paged.ratios({"torch sdpa": 2e-3, "torch in a row": 3e-3, "torch pages of 16": 6e-3})
    assert sdpa[1:] == ["2.00 ms", "1.00", ""]
    assert row[1:] == ["3.00 ms", "1.50", "1.00"]
    assert pages[1:] == ["6.00 ms", "3.00", "2.00"]
    assert next(paged.ratios({"jax in a row": 1e-3})) == ["jax in a row", "1.00 ms", "", "1.00"]
