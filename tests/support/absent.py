"""Tests where PyTorch or JAX is not installed: what needs it is skipped, and all the rest of the same file runs.

Files of tests import both at their top. While they are collected, a stand-in takes the missing one's place, from which
anything can be read. A test that has something of it as a parameter, or calls something of it, is skipped, and so is
one in which a part of attnlab misses it. A test that starts another process says so itself: ``needs(library)``.
"""

import os
import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_loader

import pytest

from tests.support import MISSING

ABSENT = {name: title for name, title in {"torch": "PyTorch", "jax": "JAX"}.items() if find_spec(name) is None}


def skip(library: str) -> None:
    """Skip the test that runs."""
    pytest.skip(f"needs {ABSENT[library]}, {MISSING}")


def skip_if_held(x: object) -> None:
    """Skip the test that runs if x, its parameter, is something of a stand-in or holds some."""
    if isinstance(x, StandIn):
        skip(x._library)
    for inside in x.values() if isinstance(x, dict) else x if isinstance(x, tuple | list) else ():
        skip_if_held(inside)


class StandIn(type):
    """The module, or anything in it: a class of which nothing is an instance, so that it can be a base or a type."""

    def __getattr__(cls, name: str) -> "StandIn":
        if name.startswith("__") and name != "__version__":
            raise AttributeError(name)
        return StandIn(name, (), {"_library": cls._library})

    def __call__(cls, *args: object, **options: object) -> "StandIn":
        if "PYTEST_CURRENT_TEST" in os.environ:
            skip(cls._library)
        return cls

    __neg__ = __getitem__ = __call__

    def __bool__(cls) -> bool:
        return False


class Finder:
    """Imports a stand-in as a missing library and as each of its modules."""

    def find_spec(self, name: str, *where: object) -> ModuleSpec | None:
        return spec_from_loader(name, self, is_package=True) if name.partition(".")[0] in ABSENT else None

    def create_module(self, spec: ModuleSpec) -> StandIn:
        return StandIn(spec.name, (), {"_library": spec.name.partition(".")[0]})

    def exec_module(self, module: StandIn) -> None:
        """There is nothing to execute."""


FINDER = Finder()


def stand_in() -> None:
    """From here on ``import torch`` and ``import jax`` find a stand-in, if they would find nothing."""
    if ABSENT:
        sys.meta_path.append(FINDER)


def remove() -> None:
    """From here on what is missing is so again, as it is for users."""
    if ABSENT:
        sys.meta_path.remove(FINDER)
        for name in [name for name in sys.modules if name.partition(".")[0] in ABSENT]:
            del sys.modules[name]
