"""Compile the Triton kernels for GPUs that are not there, from real calls on CPU tensors; print what they need.

Run as ``python -m tests.support.triton_compiler CAPABILITY [CALL ...]`` without TRITON_INTERPRET. A stand-in for the
driver names the GPU; everything is done but the launch. One line of JSON a kernel: its name, the call, and what
``figures`` reads from the compiled code. All of it is exact and the same at every run.
"""

import contextlib
import io
import json
import re
import sys

import numpy as np
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction

import attnlab.tiled.triton as kernels

HALF, FULL = torch.float16, torch.float32
TILES = np.tri(4, dtype=bool)
CALLS = {
    "half, D = 64": (64, HALF, {}),
    "half, D = 64, causal": (64, HALF, dict(causal=True)),
    "half, D = 128, causal": (128, HALF, dict(causal=True)),
    "half, D = 256, causal": (256, HALF, dict(causal=True)),
    "half, D = 72": (72, HALF, {}),
    "bfloat16, D = 40, GQA": (40, torch.bfloat16, dict(hk=1)),
    "float32, D = 64, causal": (64, FULL, dict(causal=True)),
    "every rule, D = 64": (64, HALF, dict(window=(50, 20), mask=torch.ones(256) > 0, dropout=0.7, seed=2**32 - 1)),
    "block mask, D = 64": (64, HALF, dict(block_mask=TILES, block_q=64, block_k=64)),
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
        log = io.StringIO()
        with contextlib.redirect_stdout(log):
            kernel = run(self, *args, grid=grid, warmup=True, **options)
        found.append({"kernel": self.__name__, **figures(kernel, log.getvalue())})

    return compile_only


def figures(kernel, log):
    """What a program needs, and what its loops do.

    registers of a thread; bytes spilled and bytes of shared memory; kinds of matrix instructions; of each loop that
    multiplies how many tiles it copies in the background (copies) and how many it waits for (loads), into how many
    buffers, how many copies may be under way while it works (ahead), and how many tiles pass through shared memory
    from one layout to another (conversions); bytes of the narrowest copy.
    """
    ptx = kernel.asm["ptx"]
    return {
        "registers": max(int(x) for x in re.findall(r"Used (\d+) registers", log)),
        "spilled": sum(int(x) for x in re.findall(r"(\d+) bytes spill", log)),
        "shared": kernel.metadata.shared,
        "products": [kind for kind in ("mma.sync", "wgmma") if kind in ptx],
        "loops": [loop for loop in map(of_loop, loops(kernel.asm["ttgir"])) if loop["products"]],
    }


def loops(text):
    """The text of each loop of a program in TTGIR, inner loops left out."""
    depth, found = [], []
    for line in text.splitlines():
        if "scf.for" in line:
            depth.append(0)
            found.append([])
            current = len(found) - 1
        if depth:
            found[current].append(line)
            depth[-1] += line.count("{") - line.count("}")
            if depth[-1] == 0:
                depth.pop()
                current -= 1
    return ["\n".join(lines) for lines in found]


def of_loop(text):
    """Counts of one loop."""
    waits = [int(x) for x in re.findall(r"ttg.async_wait .*num = (\d+)", text)]
    return {
        "products": len(re.findall(r"= (?:tt.dot|ttng.warp_group_dot) ", text)),
        "copies": text.count("ttg.async_copy_global_to_local"),
        "loads": len(re.findall(r"= tt.load .*tensor<\d+x\d+x!tt.ptr", text)),
        "ahead": min(waits, default=0),
        "conversions": len(re.findall(r"ttg.convert_layout .*tensor<\d+x\d+x.* -> ", text))
        + len(re.findall(r"ttg.local_alloc %", text)),
    }


def attend(d, dtype, options):
    """One call and its gradient."""
    options = dict(options)
    hk = options.pop("hk", 2)
    inputs = [torch.zeros((heads, 256, d), dtype=dtype, requires_grad=True) for heads in (2, hk, hk)]
    out, lse = kernels.tiled_attention(*inputs, return_lse=True, **options)
    torch.autograd.grad((out, lse), inputs, (out.detach(), lse.detach()))


def main(capability, *calls):
    triton.runtime.driver.set_active(Driver(capability))
    triton.knobs.nvidia.dump_ptxas_log = True
    triton.knobs.compilation.always_compile = True
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
