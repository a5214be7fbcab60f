"""Tests where PyTorch is not installed: what needs it is skipped, and all the rest of the same file runs.

Files of tests import it at their top. While they are collected, a stand-in takes its place, from which anything can be
read. A test that has something of it as a parameter, or calls something of it, is skipped, and so is one in which a
part of attnlab finds no PyTorch. A test that starts another process says so itself: ``needs(library)``.
"""

import os
import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_loader

import pytest

from tests.support import MISSING

ABSENT = find_spec("torch") is None


def skip() -> None:
    """Skip the test that runs."""
    pytest.skip(f"needs PyTorch, {MISSING}")


def holds_stand_in(x: object) -> bool:
    """Whether x is something of the stand-in, or a parameter that holds some."""
    inside = x.values() if isinstance(x, dict) else x if isinstance(x, tuple | list) else ()
    return isinstance(x, StandIn) or any(map(holds_stand_in, inside))


class StandIn(type):
    """The module, or anything in it: a class of which nothing is an instance, so that it can be a base or a type."""

    def __getattr__(cls, name: str) -> "StandIn":
        if name.startswith("__") and name != "__version__":
            raise AttributeError(name)
        return StandIn(name, (), {})

    def __call__(cls, *args: object, **options: object) -> "StandIn":
        if "PYTEST_CURRENT_TEST" in os.environ:
            skip()
        return cls

    __neg__ = __getitem__ = __call__

    def __bool__(cls) -> bool:
        return False


class Finder:
    """Imports the stand-in as PyTorch and as each of its modules."""

    def find_spec(self, name: str, *where: object) -> ModuleSpec | None:
        return spec_from_loader(name, self, is_package=True) if name.partition(".")[0] == "torch" else None

    def create_module(self, spec: ModuleSpec) -> StandIn:
        return StandIn(spec.name, (), {})

    def exec_module(self, module: StandIn) -> None:
        """There is nothing to execute."""


FINDER = Finder()


def stand_in() -> None:
    """From here on ``import torch`` finds the stand-in, if it would find nothing."""
    if ABSENT:
        sys.meta_path.append(FINDER)


def remove() -> None:
    """From here on PyTorch is missing again, as it is for users."""
    if ABSENT:
        sys.meta_path.remove(FINDER)
        for name in [name for name in sys.modules if name.partition(".")[0] == "torch"]:
            del sys.modules[name]
