"""The table of algorithms has the six functions, and what is said of it is so."""

import inspect

import numpy as np
import pytest

import attnlab
from attnlab import METHODS
from attnlab.core.signature import Attention
from tests.support.libraries import SAFE


def test_a_method_is_the_function_of_its_name():
    assert {name: getattr(attnlab, f"{name}_attention") for name in METHODS} == METHODS
    assert all(f"{x}_attention" in attnlab.__all__ and isinstance(METHODS[x], Attention) for x in METHODS)
    assert ", ".join(METHODS).replace(", tiled", " or tiled") in inspect.getdoc(attnlab.attention)


@pytest.mark.parametrize("name", METHODS)
def test_safe_methods_serve_large_scores(name):
    """Scores of ±1000: what is shifted by a maximum stays finite, the rest overflows."""
    query, key = np.array([[1000.0]], np.float32), np.array([[1.0], [-1.0]], np.float32)
    with np.errstate(all="ignore"):
        out = METHODS[name](query, key, np.ones((2, 1), np.float32), scale=1.0)
    assert (name in SAFE) == bool(np.isfinite(out).all())
