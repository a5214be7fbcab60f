"""A kernel can be run, counted and compiled without a GPU, in one process, and no misuse of memory goes unseen."""

import contextlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.support import PYTHONPATH, needs

if TYPE_CHECKING:
    import triton.language as tl  # kernels name it without importing it

needs("triton")


def add(x, y, out, n, BLOCK: "tl.constexpr"):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n)
    tl.store(out + at, tl.where(total > 0, total, 0.0), mask=at < n)


def reads_too_far(x, y, out, n, BLOCK: "tl.constexpr"):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at + n), mask=at < n)


def uses_any_address(x, y, out, n, BLOCK: "tl.constexpr"):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x - at * 1_000_000), mask=at < n)


def writes_too_far(x, y, out, n, BLOCK: "tl.constexpr"):
    tl.store(out + tl.arange(0, BLOCK) + n, tl.zeros([BLOCK], tl.float32))


def run(kernel):
    """The result for 6 and 6 numbers in blocks of 4, and the counts."""
    from attnlab_course.instruments.interpreted import interpreted

    function = interpreted(kernel, grid=lambda x, *_: (-(-len(x) // 4),), out=2)
    args = np.arange(6.0), -np.arange(6.0) ** 2 + 10, np.full(6, np.nan), 6, 4
    before = [np.copy(x) for x in args[:3]]
    found = function(*args)
    assert all(np.array_equal(x, y, equal_nan=True) for x, y in zip(args, before))  # the arrays are copied
    return found, function.counts


def mixed(q, k, out, BLOCK: "tl.constexpr"):
    at = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.dot(tl.load(q + at), tl.load(k + at)))


def test_half_precision_is_half_precision():
    """tl.dot refuses two dtypes, as the compiler does, and results are stored in the output's."""
    from attnlab_course.instruments.interpreted import interpreted

    function = interpreted(mixed, grid=lambda *_: (1,), out=2)
    full = np.arange(5, dtype=np.float32)  # an odd number of halves
    half, out = full.astype(np.float16), np.full(5, np.nan, np.float16)
    found = function(half, half, out, 2)
    assert found.dtype == np.float16
    assert found[:4].tolist() == [2, 3, 6, 11]  # the square of ((0, 1), (2, 3))
    with pytest.raises(AssertionError, match="same dtype"):
        function(half, full, out, 2)


def in_bfloat16(x, y, out, n, BLOCK: "tl.constexpr"):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, (tl.load(x + at).to(tl.bfloat16) * 2.0).to(tl.float32))


def sums_bfloat16(x, y, out, n, BLOCK: "tl.constexpr"):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.sum(tl.load(x + at).to(tl.bfloat16), 0).to(tl.float32) + tl.zeros([BLOCK], tl.float32))


def through_bfloat16(x, y, out, n, BLOCK: "tl.constexpr"):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, 2.0 * tl.load(x + at, mask=at < n).to(tl.bfloat16).to(tl.float32), mask=at < n)


def test_bfloat16_that_is_widened_is_computed_with():
    """The interpreter adds the bits of sums: 1 + 1 = 1.7e38."""
    assert run(through_bfloat16)[0].tolist() == [0, 2, 4, 6, 8, 10]
    for kernel in (in_bfloat16, sums_bfloat16):
        with pytest.raises(TypeError, match="takes the bits of bfloat16 for integers when it computes: widen it"):
            run(kernel)


def test_a_numpy_that_triton_does_not_know(monkeypatch):
    """Triton 3.6 serves a GPU, but its interpreter ends with a TypeError."""
    import triton

    from attnlab.kernels.triton import gpu

    for ours, theirs, runs in (("3.6.0", "2.4.0", False), ("3.6.0", "2.3.5", True), ("3.10.0", "2.5.0", True)):
        monkeypatch.setattr(triton, "__version__", ours)
        monkeypatch.setattr(gpu.np, "__version__", theirs)
        with contextlib.nullcontext() if runs else pytest.raises(NotImplementedError, match="doesn't run with NumPy 2"):
            run(add)


def test_a_kernel_runs_and_is_counted():
    found, counts = run(add)
    assert found.tolist() == [10, 10, 8, 4, 0, 0]
    assert counts == {"loads": 12, "masked": 4, "stores": 6, "choices": 2}
    found, counts = run(reads_too_far)
    assert np.isnan(found).all()  # what lies beyond an array
    assert (counts["masked"], counts["outside"]) == (0, 2 * 4)  # by each of two programs


def begins_at(x, y, out, n, BLOCK: "tl.constexpr"):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.zeros([BLOCK], tl.float32) + (n + 506) * 32_768 * 128, mask=at < n)


def test_offsets_wrap_around_as_on_a_gpu():
    """Lesson 12: of 32,768 tokens of 128 numbers, head 512 lies 2³¹ numbers before the array."""
    assert run(begins_at)[0][0] == -(2**31)


@pytest.mark.parametrize("kernel", [uses_any_address, writes_too_far], ids=lambda f: f.__name__)
def test_no_other_memory_is_touched(kernel):
    with pytest.raises(IndexError, match="outside of its"):
        run(kernel)


IN_TURN = """
import numpy as np, triton, triton.language as tl
from attnlab_course.instruments.compiled import compiled
from attnlab_course.instruments.interpreted import interpreted
from tests.course.instruments.test_interpreted import add

@triton.jit
def smooth(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.softmax(tl.load(x + at)))

@triton.jit
def scaled_sum(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, 3 * tl.load(x + at) + tl.load(y + at))

types = dict(x="*fp32", y="*fp32", out="*fp32", n="i32")
first = compiled(add, types, dict(BLOCK=256))
out = interpreted(smooth, grid=lambda *_: (1,), out=1)(np.zeros(4), np.zeros(4), 4)  # Triton's own functions, too
assert out.tolist() == [0.25] * 4
assert compiled(add, types, dict(BLOCK=256)) == first and 8 <= first["registers"] <= 64 and not first["spilled"], first
assert compiled(scaled_sum, types, dict(BLOCK=256))["fused"] > 0 == first["fused"]
"""


def test_compiled_and_interpreted_in_turn(tmp_path):
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH, "TRITON_CACHE_DIR": str(tmp_path)}
    environment.pop("TRITON_INTERPRET", None)
    environment["TRITON_DEFAULT_FP_FUSION"] = "0"  # as will be from Triton 3.10 on
    script = tmp_path / "in_turn.py"
    script.write_text(IN_TURN)
    subprocess.run([sys.executable, script], env=environment, check=True, timeout=300)
