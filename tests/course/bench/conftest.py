"""Benchmarks whose times nobody reads."""

import pytest
from attnlab_course.bench import calls, question
from attnlab_course.instruments import timing


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(question, "SETTLE", 0)
    monkeypatch.setattr(timing, "SAMPLE", 0)
    monkeypatch.setitem(calls.PRODUCT, "cpu", 32)
