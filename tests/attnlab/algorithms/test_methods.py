"""The table of algorithms holds facts: each is checked against what the package, the README and the course do."""

import inspect
import re

import numpy as np
import pytest
from attnlab_course.instruments import machine
from attnlab_course.plots.ladder_costs import alike

import attnlab
from attnlab import METHODS, costs
from tests.support import ROOT

README = (ROOT / "attnlab/README.md").read_text(encoding="utf-8")


def test_a_method_has_a_row_and_a_function():
    assert [method.function for method in METHODS.values()] == [getattr(attnlab, f"{x}_attention") for x in METHODS]
    assert all(f"{x}_attention" in attnlab.__all__ for x in METHODS)
    assert ", ".join(METHODS).replace(", tiled", " or tiled") in inspect.getdoc(attnlab.attention)


@pytest.mark.parametrize("name", METHODS)
def test_block_sizes_are_the_functions_own(name):
    options = inspect.signature(METHODS[name].function).parameters
    assert METHODS[name].blocks == tuple(x for x in options if x in ("block_q", "block_k") or "chunk" in x)


@pytest.mark.parametrize("name", METHODS)
def test_safe_methods_serve_large_scores(name):
    """Scores of ±1000: what is shifted by a maximum stays finite, the rest overflows."""
    query, key = np.array([[1000.0]], np.float32), np.array([[1.0], [-1.0]], np.float32)
    with np.errstate(all="ignore"):
        out = METHODS[name].function(query, key, np.ones((2, 1), np.float32), scale=1.0)
    assert METHODS[name].safe == bool(np.isfinite(out).all())


@pytest.mark.parametrize("name", METHODS)
def test_the_lesson_is_about_it(name):
    (path,) = (ROOT / "notebooks" / "lessons").glob(f"{METHODS[name].lesson}_*.md")
    assert name in path.stem


@pytest.mark.parametrize("name", METHODS)
def test_memory_is_the_closed_form(name):
    n, m, dv = 1024, 2048, 64
    forms = {"N·M": n * m + n * 64, "N·(Dv + 2)": n * (dv + 2)}
    expected = forms.get(METHODS[name].memory)
    assert expected in (None, costs.extra_elements(name, n, m, 64, dv))
    assert METHODS[name].at_once == {"N·M": "matrix", "N·(Dv + 2)": "key"}.get(METHODS[name].memory,
                                                                             METHODS[name].at_once)
    assert callable(getattr(machine, f"{METHODS[name].program}_forward"))


def test_the_table_of_the_readme_is_this_one():
    right = {True: "any finite scores", False: "scores that neither overflow nor vanish"}
    rows = [f"| `{name}_attention` | {x.memory} | {right[x.safe]} |" for name, x in METHODS.items()]
    assert re.findall(r"^\| `\w+_attention` \|.*$", README, re.MULTILINE) == rows


def test_lines_that_coincide_share_a_label():
    groups = alike()
    assert groups["naive"] == ["naive", "safe"]
    assert [name for group in groups.values() for name in group] == list(METHODS)
    assert all(costs.forward(x, 9, 8, 7, 7).bytes == costs.forward(group[0], 9, 8, 7, 7).bytes
               for group in groups.values() for x in group)
