"""Triton's interpreter, where there is no GPU."""

import contextlib
from collections.abc import Iterator

import pytest
import torch

GPU = torch.cuda.is_available()


@contextlib.contextmanager
def interpreter() -> Iterator[None]:
    """Triton reads the variable when it is imported, by whatever library, and when it runs; others shall not see it."""
    with pytest.MonkeyPatch.context() as patch:
        if not GPU:
            patch.setenv("TRITON_INTERPRET", "1")
        yield
