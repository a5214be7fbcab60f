"""Figures: the committed one is current, colors are one per algorithm, every figure draws."""

import base64

import matplotlib
import numpy as np
import pytest
from attnlab_course import plots
from attnlab_course.instruments.hardware import MULTIPROCESSORS
from attnlab_course.lessons.lesson01 import figures
from attnlab_course.plots import ladder_costs
from attnlab_course.plots.style import picture
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from attnlab import METHODS, costs, naive_attention
from attnlab.measure import binary
from tests.support import ROOT


def test_picture_of_the_readme_is_current(tmp_path):
    path = tmp_path / "ladders.svg"
    with matplotlib.rc_context(plots.STYLE):
        plots.ladders().savefig(path, metadata={"Date": None})
    assert path.read_text() == (ROOT / "notebooks" / "figures" / "ladders.svg").read_text()


def texts(figure) -> set[str]:
    return {text.get_text() for text in figure.findobj(matplotlib.text.Text)}


def test_figures_say_their_words():
    assert list(plots.COLORS) == list(METHODS)
    assert len({*plots.COLORS.values()}) == len(METHODS)
    assert {"safe", "lesson 04"} <= texts(plots.ladders())
    assert {"1", "0.25", "·"} <= texts(figures.matrices({"title": np.array([[1, 0.25, 0.0]])}))
    cliffs = figures.cliffs(np.array([0.0, 1.0]), np.array([1.0, np.nan]), [("cliff", 0.5, "left")])
    assert [1.0, -0.22] in cliffs.axes[0].get_lines()[1].get_xydata().tolist()  # what is lost


def test_binary_units():
    sizes = [1, 1024, 3 * 2**20, 2**31, 2**50]
    assert [binary(n) for n in sizes] == ["1 B", "1 KiB", "3 MiB", "2 GiB", "1024 TiB"]


def test_the_average_is_the_functions():
    q, keys, values = np.random.default_rng(2).normal(size=2), np.eye(3, 2), np.arange(6.0).reshape(3, 2) ** 2
    figure = figures.average(q, keys, values)
    (square,) = (line for line in figure.axes[1].get_lines() if line.get_marker() == "s")
    assert np.allclose(square.get_xydata(), naive_attention(q[None], keys, values))
    assert {f"k$_{j}$, s = {score:.2f}" for j, score in enumerate(keys @ q / 2**0.5, 1)} <= texts(figure)


def test_no_label_of_the_average_lies_on_a_line_or_a_point():
    q, keys = np.array([1.2, 0.8]), np.array([[1.8, 0.4], [-0.6, 1.5], [0.3, -1.2]])  # those of lesson 01
    figure = figures.average(q, keys, np.array([[0.0, 0.0], [4.0, 0.0], [2.0, 3.0]]))
    FigureCanvasAgg(figure).draw()
    for axes in figure.axes:
        for label in filter(Text.get_text, axes.texts):
            box = label.get_window_extent()
            for line in axes.get_lines():
                path = line.get_transform().transform_path(line.get_path())
                size = line.get_markersize() * figure.dpi / 72 if line.get_marker() != "None" else 0
                assert not path.intersects_bbox(box.padded(size / 2), filled=False), label


@pytest.mark.parametrize("d", [64, 128])
def test_blocks_drawn_on_the_roofline_of_a_gpu_fit_it(d):
    shared = MULTIPROCESSORS["A100"].shared
    assert 2 * costs.on_chip_elements("flash2", 128, 64, d, d) < shared < 2 * 1024 * 4096
    drawn = ladder_costs.on_gpu("tiled", 8192, d)
    assert drawn == costs.forward("flash2", 8192, 8192, d, d, block_q=128, block_k=64)
    assert "S" in ladder_costs.on_gpu("chunked", 8192, d).reads
    words = " ".join(texts(ladder_costs.place(8192, d)))
    assert "128 × 64" in words
    assert f"D = {d}" in words


def drawing(figure) -> str:
    kind, _, content = picture(figure).partition(";base64,")
    assert kind == "image/svg+xml"
    return base64.b64decode(content).decode()


def test_a_figure_is_stored_as_a_drawing():
    drawn = drawing(plots.ladders())
    assert all(f">{name}</text>" in drawn for name in METHODS)
    assert drawn == drawing(plots.ladders())
    assert "<image" not in drawn


def test_many_points_are_pixels_and_their_words_are_words():
    figure, axes = plots.canvas(4.0, 3.0)
    axes.plot(np.random.default_rng(0).normal(size=20_000))
    axes.set(xlabel="twenty thousand points")
    drawn = drawing(figure)
    assert ">twenty thousand points</text>" in drawn
    assert drawn.count("<image") == 1
    assert len(drawn) < 200_000
