"""XLA ends a process that sets a flag which it doesn't have: such a flag is left out, and measuring says so."""

import os
import sys

import jax.numpy as jnp
import pytest

from attnlab import measure
from tests.conftest import QUICK_XLA, quick_xla
from tests.support import needs

needs("jax")

UNKNOWN = "--xla_no_such_flag=1"
WORDS = f"no flag {UNKNOWN}, so memory is measured without it"


@pytest.mark.full
def test_an_unknown_flag_is_found():
    assert measure.known_flags(f"{measure.HONEST_XLA} {UNKNOWN}") == measure.HONEST_XLA
    assert measure.known_flags(UNKNOWN) == ""


def test_without_jax_nothing_is_asked(monkeypatch):
    monkeypatch.setattr(measure, "find_spec", lambda name: None)
    assert measure.known_flags(f"{UNKNOWN} {UNKNOWN}") == f"{UNKNOWN} {UNKNOWN}"


def test_what_tests_set_is_known():
    assert set(quick_xla().split()) <= set(QUICK_XLA.split())
    assert measure.known_flags(quick_xla()) == quick_xla() != ""


def test_a_notebook_goes_on_without_it(monkeypatch):
    monkeypatch.setattr(measure, "HONEST_XLA", UNKNOWN)
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=")
    monkeypatch.delitem(sys.modules, "jax")
    with pytest.warns(UserWarning, match=WORDS):
        measure.honest_xla()
    assert os.environ["XLA_FLAGS"] == "--xla_dump_to="


def test_memory_is_measured_without_it(monkeypatch):
    monkeypatch.setattr(measure, "HONEST_XLA", UNKNOWN)
    x = jnp.ones((64, 64))
    with pytest.warns(UserWarning, match=WORDS):
        assert measure.extra_bytes(lambda x: jnp.sort(x) @ x, x) > 0
    with pytest.warns(UserWarning, match=WORDS):
        (line,) = measure.in_fresh_process("tests.attnlab.test_measure_flags:flags", [{}])
    assert UNKNOWN not in line


def flags():
    """What XLA is told in a process."""
    return os.environ["XLA_FLAGS"]


def test_an_unknown_option_costs_time_alone(monkeypatch):
    """Options of one compilation raise; memory is planned alike without them."""
    monkeypatch.setenv("XLA_FLAGS", measure.HONEST_XLA)  # as if it had been there in time
    x = jnp.ones((64, 64))
    size = measure.jax_bytes(lambda x: jnp.sort(x) @ x, x)
    monkeypatch.setitem(measure.QUICKLY, "xla_no_such_option", 1)
    assert measure.jax_bytes(lambda x: jnp.sort(x) @ x, x) == size > 0
