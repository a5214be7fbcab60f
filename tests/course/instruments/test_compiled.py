"""What Triton's compiler makes of attnlab's kernels for GPUs that are not there: what they need must be there."""

import json
import os
import subprocess
import sys

import pytest

from tests.support import PYTHONPATH, needs

needs("triton")

TYPICAL = "half, D = 64, causal", "half, D = 128, causal"
SHARED = {80: 99 * 1024, 90: 227 * 1024}  # bytes a program may have; the least of a family, sm_86's, for the first


FEW = {80: ["every rule, D = 64"], 90: ["half, D = 128, causal", "half, D = 72"]}
"""A call of each kind; ``make test-all`` compiles all of them for both."""


def printed(code, cache, **environment):
    """The lines of JSON that a fresh process prints, in which Triton is not interpreted."""
    clean = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    clean |= {"PYTHONPATH": PYTHONPATH, "TRITON_CACHE_DIR": str(cache), **environment}
    done = subprocess.run([sys.executable, *code], env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.thin(2)
@pytest.mark.parametrize(("capability", "calls"), [
    *FEW.items(),
    *(pytest.param(capability, [], marks=pytest.mark.full) for capability in SHARED),
])  # fmt: skip
def test_kernels_compile(capability, calls, tmp_path):
    code = ["-m", "tests.course.instruments.triton_compiler", str(capability), *calls]
    found = printed(code, tmp_path, TRITON_DEFAULT_FP_FUSION="0")  # 3.10's default
    assert {kernel["kernel"] for kernel in found} == {"fold", "query_gradient", "key_gradient"}
    for kernel in found:
        assert kernel["shared"] <= SHARED[capability], kernel
        assert kernel["spilled"] <= 400, kernel
        assert kernel["spilled"] == 0 or kernel["kernel"] != "fold" or kernel["call"] not in TYPICAL, kernel
        assert kernel["spilled"] == 0 or "segments" not in kernel["call"], kernel
        assert bool(kernel["products"]) == ("float32" not in kernel["call"]), kernel
        assert kernel["fused"] >= 32, kernel  # the exponents; else the forward kernel has 24, the backward ones none
        if "half, D" in kernel["call"] and "256" not in kernel["call"]:
            check_loops(kernel)


def check_loops(kernel):
    """Full tiles in one loop, partial ones in another; the next tiles arrive meanwhile, 16 bytes at once.

    Two tiles are loaded for each that is multiplied; scores and weights never leave the registers of their warp.
    """
    assert len(kernel["loops"]) == 2, kernel
    for loop in kernel["loops"]:
        assert loop["products"] == {"fold": 2, "query_gradient": 3, "key_gradient": 4}[kernel["kernel"]], kernel
        assert (loop["copies"], loop["loads"], loop["width"], loop["exchanges"]) == (2, 0, 8, 0), kernel
        assert loop["ahead"] >= 2 or "block mask" in kernel["call"], kernel  # which has to look up what comes next


COMPILE = """
import json, sys
import torch, triton
from triton.runtime.jit import JITFunction
from attnlab.kernels.triton import forward, layout, paged
from tests.course.instruments.triton_compiler import Driver, compiling

found, capability = [], int(sys.argv[1])
triton.runtime.driver.set_active(Driver(capability))
JITFunction.run = compiling(found)
layout.multiprocessors = lambda device: 132
for d, kind, tokens in ((128, torch.float16, False), (128, torch.bfloat16, True), (64, torch.float32, False)):
    query, pool = torch.zeros(4, 2, 4, 1, d, dtype=kind), torch.zeros(600, 2, 16, d, dtype=kind)
    pool = torch.zeros(600, 16, 2, d, dtype=kind).transpose(1, 2) if tokens else pool
    table, lengths = torch.zeros(4, 256, dtype=torch.int32), torch.zeros(4, dtype=torch.int32)
    join = forward.launch
    forward.launch = lambda kernel, *args, **rest: kernel is paged.fold_pages and join(kernel, *args, **rest)
    paged.paged(query, pool, pool, table, lengths, None, 0.1)
    forward.launch = join
    print(json.dumps({"kind": str(kind), **found.pop()}))
"""


@pytest.mark.parametrize("capability", [pytest.param(80, marks=pytest.mark.full), 90])
def test_the_kernel_of_paged_attention_compiles(capability, tmp_path):
    """For GPUs that are not there: nothing spills, and pages come in pieces of 16 bytes, some of them ahead."""
    for kernel in printed(["-c", COMPILE, str(capability)], tmp_path):
        assert not kernel["spilled"], kernel
        assert bool(kernel["products"]) == (kernel["kind"] != "torch.float32"), kernel
        (loop,) = kernel["loops"]
        assert (loop["products"], loop["copies"], loop["loads"]) == (2, 2, 0), kernel
        assert loop["ahead"] >= 2 or not kernel["products"]
        assert loop["width"] == (8 if kernel["products"] else 4), kernel
