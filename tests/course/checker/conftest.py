"""Exercises and their answers run as they do for a learner."""

import gc

import pytest

from tests.support.typechecker import unchecked  # noqa: F401


@pytest.fixture(autouse=True)
def _no_callback_of_the_garbage_collector():
    """Hypothesis's is called where an answer has filled the stack, too, and pytest reports its failure without end."""
    before = gc.callbacks[:]
    gc.callbacks.clear()
    yield
    gc.callbacks[:] = before
