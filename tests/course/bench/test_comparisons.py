"""The other comparisons: decoding steps, linear attention, pages, a ring of processes, the server beside the model.

Who is timed computes the same; what doesn't fit is left out; each prints its table.
"""

import dataclasses
import multiprocessing

import numpy as np
import pytest
from attnlab_course import model
from attnlab_course.bench import __main__ as command
from attnlab_course.bench import decode, linear, paged, ring, serve
from attnlab_course.bench.setting import Setting

from attnlab.linear import FORMS
from tests.support import needs
from tests.support.libraries import back

STEP = Setting(1, 32, batch=2, heads=4, kv_heads=2, d=8)
CAUSAL = Setting(24, heads=2, kv_heads=2, d=4, causal=True)


@pytest.mark.thin(2)
@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_decoding_steps_attend_to_the_same_keys_again_and_again(kind):
    found = decode.prepare_steps(["torch", "jax", "numpy"], dataclasses.replace(STEP, dtype=kind))
    right = back(found.pop("torch sdpa")())
    np.testing.assert_allclose(back(found.pop("torch grouped")()), right, atol=1e-6 if kind == "float32" else 1e-2)
    found.pop("numpy copy")
    assert list(found) == ["torch step", "jax step", "numpy step"]
    for name, step in found.items():
        for _ in range(3):
            np.testing.assert_allclose(back(step()), right, atol=1e-6 if kind == "float32" else 1e-2, err_msg=name)


@pytest.mark.thin(2)
@pytest.mark.parametrize("gradient", [False, True])
def test_forms_of_linear_attention_compute_the_same(gradient):
    setting = dataclasses.replace(CAUSAL, gradient=gradient)
    found = linear.prepare_calls(["torch", "jax"] if gradient else ["torch", "jax", "numpy"], setting)
    assert len(found) == (1 + 2 * 4 if gradient else 1 + 3 * 4)
    right = {}
    for name, call in found.items():
        kind = "forms" if name.partition(" ")[2] in FORMS else "softmax"
        outs = call() if gradient else [call()]
        for a, b in zip(outs, right.setdefault(kind, outs), strict=True):
            np.testing.assert_allclose(back(a), back(b), atol=1e-5, err_msg=name)
    assert np.abs(back(right["forms"][0]) - back(right["softmax"][0])).max() > 0.1


def test_pages_hold_the_same_keys(monkeypatch):
    monkeypatch.setattr(paged, "BLOCKS", (4, 32))
    setting = Setting(1, 32, batch=1, heads=2, kv_heads=2, d=8)
    found = {name: back(call()) for name, call in paged.prepare_steps(["torch", "jax", "numpy"], setting).items()}
    assert len(found) == 10
    for name, out in found.items():
        if not name.endswith("of 4"):  # one page, or none: the order of blocks, which is random, does not matter
            np.testing.assert_allclose(out, found["torch sdpa"], atol=1e-6, err_msg=name)
        assert out.shape == (1, 2, 1, 8)


def test_steps_of_two_processes():
    """They can be taken in any order, again and again, and the processes end when nobody asks any more."""
    needs("torch")
    calls = ring.start_processes(2, tokens=64)
    assert [name.partition(" ")[2] for name in calls] == ["beside", "before", "alone"]
    for step in [*calls.values(), *calls.values()]:
        step()
    processes = multiprocessing.active_children()
    assert len(processes) == 2
    del calls, step
    for process in processes:
        process.join(60)
        assert process.exitcode == 0


def test_without_overlap_messages_are_waited_for_first():
    happened = []

    def travel(name):
        happened.append(f"begin {name}")
        return lambda: happened.append("arrived") or name

    for begin in (travel, ring.without_overlap(travel)):
        wait = begin("a block")
        happened.append("compute")
        assert wait() == "a block"
    assert happened == ["begin a block", "compute", "arrived", "begin a block", "arrived", "compute"]


def test_the_server_and_the_model_alone_write_the_same():
    """In float64, where nothing ties; and every request of a step gets a token."""
    calls = serve.prepare_texts(model.load(dtype="float64"), 3)
    found = [call() for call in calls.values()]
    assert found[0] == found[1]
    assert {len(text) for text in found[0]} == {serve.NEW}
    assert [len(step()) for step in serve.prepare_steps(7).values()] == [7, 7]


def test_what_does_not_fit_is_left_out(capsys, monkeypatch):
    monkeypatch.setattr(decode, "FAMILIES", [STEP])
    monkeypatch.setattr(decode.hardware, "memory_size", lambda: 2**34)
    command.main(["--decode", "--m", str(2**23)])
    assert "8,388,608 keys: left out, as the cache is too large" in capsys.readouterr().out
    assert [n for n in (4096, 2**16) if linear.fits_memory("quadratic", Setting(n))] == [4096]
    assert not linear.fits_memory("recurrent", Setting(2**16, gradient=True))
    assert linear.fits_memory("chunked", Setting(2**20))
    monkeypatch.setattr(linear.hardware, "memory_size", lambda: 1)
    assert [*linear.prepare_calls(["numpy"], CAUSAL)] == ["numpy tiled"]


PAGES = "128 keys, batch 2, 1 heads of size 4, float32"


@pytest.mark.parametrize(("words", "small", "title", "columns", "rows"), [
    ("--decode --m 48", [(decode, "FAMILIES", [STEP]), (decode, "COPIED", 2**16)],
     "One query, batch 2, 4 heads on 2 of size 8, float32; ms", 11, [["48"]]),
    ("--linear --n 16 48", [], "forward+backward, ", 9,
     [["16", "torch"], ["16", "numpy"], ["48", "torch"], ["48", "numpy"], ["16", "torch"], ["48", "torch"]]),
    ("--paged", [(paged, "SETTINGS", [Setting(1, 128, batch=2, heads=1, kv_heads=1, d=4)])], "", 7,
     [[PAGES, "torch"], [PAGES, "numpy"]]),
    ("--ring", [(ring, "start_processes", lambda count: {f"torch {kind}": int for kind in ring.STEPS})], "", 6,
     [["1"], ["2"], ["4"]]),
    ("--serve", [(serve, "BATCHES", (1, 2)), (serve, "REQUESTS", (2, 5)), (serve, "NEW", 3)], "", (4, 3),
     [["1"], ["2"], ["2"], ["5"]]),
])  # fmt: skip
def test_tables(words, small, title, columns, rows, capsys, monkeypatch):
    for module, name, value in small:
        monkeypatch.setattr(module, name, value)
    for module in (decode, linear, paged):
        monkeypatch.setattr(module, "find_libraries", lambda device, libraries: (["torch", "numpy"], {}))
    command.main([*words.split(), "--rounds", "1"])
    said = capsys.readouterr().out
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in said.splitlines() if line[:1] == "|"]
    found = [row for row in found if row[0][:1].isdigit()]
    assert title in said
    assert [row[: len(rows[0])] for row in found] == rows
    assert {len(row) for row in found} == {*np.ravel(columns)}


def test_rows():
    """Times in ms, and ratios; what wasn't timed is a dash."""
    times = {"torch sdpa": 1e-3, "torch grouped": 5e-4, "torch step": 2e-3, "numpy copy": 0.256}  # of 512 × 256 KiB
    assert [*decode.make_row(["torch"], Setting(1, 64), times)] == [["64", "1", "0.5", "2", "2.00", "4.00", "0.25"]]
    alone = {"jax step": 2e-3}
    assert [*decode.make_row(["jax"], Setting(1, 64), alone)] == [["64", "–", "–", "2", "–", "–", "–"]]
    times = {"torch sdpa": 1.0, "torch chunked": 0.25, "jax tiled": 2.0}
    assert [*linear.make_rows(["torch", "jax"], Setting(2048), times)] == [
        ["2,048", "torch", "1,000", "–", "–", "–", "250", "0.25", "chunked"],
        ["2,048", "jax", "1,000", "2,000", "–", "–", "–", "–", "sdpa"],
    ]
    times = {"torch sdpa": 2e-3, "torch in a row": 3e-3, "torch pages of 16": 6e-3, "jax in a row": 1e-3}
    torch, jax = paged.make_rows(["torch", "jax"], Setting(1, 4096), times)
    assert torch == ["4,096 keys, 8 heads of size 64, float32", "torch", "3", "1.50", "2.00", "–", "–"]
    assert jax[1:4] == ["jax", "1", "0.50"]
    (row,) = ring.make_row(4, {"beside": 0.5, "before": 0.75, "alone": 2.0})
    assert row == ["4", "500", "750", "2,000", "0.25", "0.25"]
