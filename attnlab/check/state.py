"""What a function could leave behind in the interpreter, put back."""

import contextlib
import math
import os
import random
import sys
import time
from collections.abc import Iterator
from types import ModuleType

import numpy as np

WATCHED: tuple[ModuleType, ...] = (np, np.linalg, np.random, math, time)
"""Modules of which each name is put back: an answer that replaces np.allclose would judge itself and all others."""


@contextlib.contextmanager
def restored() -> Iterator[None]:
    """Put back after a call what the next one needs: names of modules, working directory, recursion limit."""
    names = [(module, dict(vars(module))) for module in WATCHED]
    folder, limit = os.getcwd(), sys.getrecursionlimit()
    try:
        yield
    finally:
        for module, before in names:
            vars(module).update(before)
        sys.setrecursionlimit(limit)
        os.chdir(folder)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Put back after a check what later cells notice: the global random generators and NumPy's print options."""
    own, options = random.getstate(), np.get_printoptions()
    numpys = np.random.get_state()  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(own)
        np.random.set_state(numpys)  # noqa: NPY002
        np.set_printoptions(**options)
