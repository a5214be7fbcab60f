"""What tests share: the oracle, the calls that all must answer alike, comparisons, libraries, deliberate mistakes."""

import os
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTHONPATH = os.pathsep.join(map(str, (ROOT, ROOT / "notebooks")))  # of processes that tests start
MISSING = "not installed here"  # how the reason ends; tests/conftest.py lists these


def needs(*names):
    """Skip the test, or the module that calls this before its first test, unless those packages are installed."""
    __tracebackhide__ = True
    if missing := [name for name in names if PathFinder.find_spec(name) is None]:  # no stand-in
        pytest.skip(f"needs {' and '.join(missing)}, {MISSING}", allow_module_level=True)


def selected(request, name):
    """The values of a parameter in those tests of the module that run: what others need is not computed for them."""
    items = [item for item in request.session.items if item.path == request.path and hasattr(item, "callspec")]
    return [item.callspec.params[name] for item in items if name in item.callspec.params]


def refused(kind, message, call, /, *arguments, **options):
    """The call raises an error of this kind whose words match the message."""
    __tracebackhide__ = True
    with pytest.raises(kind, match=message):
        call(*arguments, **options)
