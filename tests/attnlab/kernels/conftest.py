"""Triton's interpreter, made quicker."""

import numpy as np
import pytest

from tests.support.interpreter import GPU, interpreter


@pytest.fixture(scope="module")
def interpreted():
    """The interpreter computes in NumPy, which warns of NaN and overflow in numbers that are then masked."""
    with interpreter(), np.errstate(all="ignore"):
        yield


@pytest.fixture(scope="module")
def patched_once(interpreted):
    """Triton's language as the interpreter wants it. By itself it would patch it for each function that a kernel calls,
    which takes more than half of its time."""
    if GPU:
        yield
        return
    import triton.language as tl
    from triton.runtime import interpreter

    from attnlab.kernels.triton import forward

    scopes = [interpreter._patch_lang(function.fn) for function in (forward.fold, tl.max)]  # tl, and tl.core
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interpreter, "_patch_lang", lambda function: interpreter._LangPatchScope())
        yield
    for scope in reversed(scopes):
        scope.restore()
