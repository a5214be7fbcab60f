"""The comparison of decoding steps: what is timed, what is left out, and how it is printed."""

import numpy as np
import pytest
from attnlab_course.bench import __main__ as command
from attnlab_course.bench import decode
from attnlab_course.bench.setting import Setting

from tests.support.libraries import back

SMALL = Setting(1, 32, batch=2, heads=4, kv_heads=2, d=8)


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_steps_attend_to_the_same_keys_again_and_again(kind):
    found = decode.prepare_steps(["torch", "jax", "numpy"], decode.replace(SMALL, dtype=kind))
    right = back(found.pop("torch sdpa")())
    np.testing.assert_allclose(back(found.pop("torch grouped")()), right, atol=1e-6 if kind == "float32" else 1e-2)
    found.pop("numpy copy")
    assert list(found) == ["torch step", "jax step", "numpy step"]
    for name, step in found.items():
        for _ in range(3):
            np.testing.assert_allclose(back(step()), right, atol=1e-6 if kind == "float32" else 1e-2, err_msg=name)


def test_a_small_run(capsys, monkeypatch):
    monkeypatch.setattr(decode, "FAMILIES", [SMALL])
    monkeypatch.setattr(decode, "COPIED", 2**16)
    monkeypatch.setattr(decode, "find_libraries", lambda device, libraries: (["torch", "numpy"], {}))
    command.main(["--decode", "--m", "48", "--rounds", "1"])
    _, title, table, *_ = capsys.readouterr().out.split("\n\n")
    columns, _, row = table.split("\n")
    assert title == "One query, batch 2, 4 heads on 2 of size 8, float32; ms"
    head, cells = ([cell.strip() for cell in line.strip("|").split("|")] for line in (columns, row))
    ratios = ["÷ sdpa", "÷ grouped", "÷ copy"]
    assert head == ["keys", "sdpa", "grouped", "torch", *ratios, "numpy", *ratios]
    assert cells[0] == "48"
    assert len(cells) == len(head)
    assert len(row) == len(columns)


def test_a_cache_that_does_not_fit_is_left_out(capsys, monkeypatch):
    monkeypatch.setattr(decode, "FAMILIES", [SMALL])
    monkeypatch.setattr(decode.hardware, "memory_size", lambda: 16 * 2**30)
    command.main(["--decode", "--m", str(2**23)])
    assert "8,388,608 keys: left out, as the cache is too large" in capsys.readouterr().out


def test_ratios_and_rates():
    """64 keys and values of 8 heads, 256 KiB, in 2 ms; 512 times as many bytes are copied in 0.256 s."""
    times = {"torch sdpa": 1e-3, "torch grouped": 5e-4, "torch step": 2e-3, "numpy copy": 0.256}
    assert [*decode.make_row(["torch"], Setting(1, 64), times)] == [["64", "1", "0.5", "2", "2.00", "4.00", "0.25"]]
    alone = {"jax step": 2e-3}
    assert [*decode.make_row(["jax"], Setting(1, 64), alone)] == [["64", "–", "–", "2", "–", "–", "–"]]
