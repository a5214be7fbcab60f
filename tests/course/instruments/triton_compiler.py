"""Compile the Triton kernels for GPUs that are not there, from real calls on CPU tensors; print what they need.

Run as ``python -m tests.course.instruments.triton_compiler CAPABILITY [CALL ...]`` without TRITON_INTERPRET. A stand-in
for the driver names the GPU; everything is done but the launch. One line of JSON a kernel: its name, the call, its
tiles, warps and stages, and what ``attnlab_course.instruments.compiled`` reads from the compiled code.
"""

import json
import sys

import numpy as np
import torch
import triton
from attnlab_course.instruments.compiled import figures, logged
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction

import attnlab.tiled.triton as kernels

HALF, FULL = torch.float16, torch.float32
TILES = np.tri(4, dtype=bool)
CALLS = {
    "half, D = 64, causal": (64, HALF, dict(causal=True)),
    "half, D = 128, causal": (128, HALF, dict(causal=True)),
    "half, D = 256, causal": (256, HALF, dict(causal=True)),
    "half, D = 72": (72, HALF, {}),
    "bfloat16, D = 40, GQA": (40, torch.bfloat16, dict(hk=1)),
    "float32, D = 64, causal": (64, FULL, dict(causal=True)),
    "every rule, D = 64": (64, HALF, dict(window=(50, 20), mask=torch.ones(256) > 0, dropout=0.7, seed=2**32 - 1)),
    "segments, D = 64": (64, HALF, dict(segments=torch.arange(256) // 50, causal=True)),
    "half, D = 64, block mask": (64, HALF, dict(block_mask=TILES, block_q=64, block_k=64)),
}


class Driver:
    """What Triton asks the driver of a GPU before it launches."""

    def __init__(self, capability):
        self.capability = capability

    def get_current_target(self):
        return GPUTarget("cuda", self.capability, 32)

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0


def compiling(found):
    """JITFunction.run without the launch; what was compiled goes to the list."""
    run = JITFunction.run

    def compile_only(self, *args, grid, warmup, **options):
        with logged() as log:
            kernel = run(self, *args, grid=grid, warmup=True, **options)
        made = {name: options[name] for name in ("BLOCK_Q", "BLOCK_K", "num_warps", "num_stages")}
        found.append({"kernel": self.__name__, **made, **figures(kernel, log.getvalue())})

    return compile_only


def attend(d, dtype, options):
    """One call and its gradient."""
    options = dict(options)
    hk = options.pop("hk", 2)
    inputs = [torch.zeros((heads, 256, d), dtype=dtype, requires_grad=True) for heads in (2, hk, hk)]
    out, lse = kernels.tiled_attention(*inputs, return_lse=True, **options)
    torch.autograd.grad((out, lse), inputs, (out.detach(), lse.detach()))


def main(capability, *calls):
    triton.runtime.driver.set_active(Driver(capability))
    kernels.check_served = lambda *args, **options: None  # the tensors are on the CPU
    found = []
    JITFunction.run = compiling(found)
    for name in calls or CALLS:
        d, dtype, options = CALLS[name]
        attend(d, dtype, options)
        while found:
            print(json.dumps({"call": name, **found.pop(0)}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
