"""Triton's interpreter, made quicker."""

import pytest
import torch


@pytest.fixture(scope="module")
def patched_once():
    """Triton's language as the interpreter wants it. By itself it would patch it for each function that a kernel calls,
    which takes more than half of its time."""
    if torch.cuda.is_available():
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
