"""The comparison of pages with keys in a row: what is timed, and how it is printed."""

import numpy as np
from attnlab_course.bench import __main__ as command
from attnlab_course.bench import paged
from attnlab_course.bench.setting import Setting

from tests.support.libraries import back


def test_steps_attend_to_the_same_keys(monkeypatch):
    monkeypatch.setattr(paged, "BLOCKS", (4, 32))
    setting = Setting(1, 32, batch=1, heads=2, kv_heads=2, d=8)
    found = {name: back(call()) for name, call in paged.prepare_steps(["torch", "jax", "numpy"], setting).items()}
    assert len(found) == 10
    for name, out in found.items():
        if not name.endswith("of 4"):  # one page, or none: the order of blocks, which is random, does not matter
            np.testing.assert_allclose(out, found["torch sdpa"], atol=1e-6, err_msg=name)
        assert out.shape == (1, 2, 1, 8)


def test_a_small_run(capsys, monkeypatch):
    monkeypatch.setattr(paged, "SETTINGS", [Setting(1, 128, batch=2, heads=1, kv_heads=1, d=4)])
    monkeypatch.setattr(paged, "find_libraries", lambda device, libraries: (["torch", "numpy"], {}))
    command.main(["--paged", "--rounds", "1"])
    rows = [line.split("|")[1:3] for line in capsys.readouterr().out.splitlines() if line.startswith("| 128")]
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["128 keys, batch 2, 1 heads of size 4, float32", library] for library in ("torch", "numpy")
    ]  # fmt: skip


def test_ratios_are_to_keys_in_a_row():
    times = {"torch sdpa": 2e-3, "torch in a row": 3e-3, "torch pages of 16": 6e-3, "jax in a row": 1e-3}
    torch, jax = paged.make_rows(["torch", "jax"], Setting(1, 4096), times)
    assert torch == ["4,096 keys, 8 heads of size 64, float32", "torch", "3", "1.50", "2.00", "–", "–"]
    assert jax[1:4] == ["jax", "1", "0.50"]
