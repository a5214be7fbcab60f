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
    "half, D = 64, causal": (64, HALF, dict(causal=True)),
    "half, D = 128, causal": (128, HALF, dict(causal=True)),
    "half, D = 256, causal": (256, HALF, dict(causal=True)),
    "half, D = 72": (72, HALF, {}),
    "bfloat16, D = 40, GQA": (40, torch.bfloat16, dict(hk=1)),
    "float32, D = 64, causal": (64, FULL, dict(causal=True)),
    "every rule, D = 64": (64, HALF, dict(window=(50, 20), mask=torch.ones(256) > 0, dropout=0.7, seed=2**32 - 1)),
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
        log = io.StringIO()
        with contextlib.redirect_stdout(log):
            kernel = run(self, *args, grid=grid, warmup=True, **options)
        found.append({"kernel": self.__name__, **figures(kernel, log.getvalue())})

    return compile_only


def figures(kernel, log):
    """What a program needs, and what its loops do: see ``of_loop``.

    Registers of a thread; bytes spilled; bytes of shared memory; kinds of matrix instructions.
    """
    text = kernel.asm["ttgir"]
    warps = dict(re.findall(r"(#mma\d*) = #ttg.nvidia_mma<.*?warpsPerCTA = (\[[\d, ]+\])", text))
    counted = [of_loop(loop, warps) for loop in loops(text)]
    return {
        "registers": max(int(x) for x in re.findall(r"Used (\d+) registers", log)),
        "spilled": sum(int(x) for x in re.findall(r"(\d+) bytes spill", log)),
        "shared": kernel.metadata.shared,
        "products": [kind for kind in ("mma.sync", "wgmma") if kind in kernel.asm["ptx"]],
        "loops": [loop for loop in counted if loop["products"]],
    }


def loops(text):
    """The text of each loop of a program in TTGIR."""
    open_loops, found = [], []
    for line in text.splitlines():
        if "scf.for" in line:
            open_loops.append([0, []])
        for loop in open_loops:
            loop[0] += line.count("{") - line.count("}")
            loop[1].append(line)
        if open_loops and open_loops[-1][0] == 0:
            found.append("\n".join(open_loops.pop()[1]))
    return found


def of_loop(text, warps):
    """One loop: its products; tiles that it copies in the background, and those that it waits for when it loads them.

    ``ahead``: copies that may still be under way when it begins to work; ``width``: elements that the narrowest copy
    of a tile moves at once; ``exchanges``: tiles that go from warp to warp through shared memory.
    """
    copies = re.findall(r"ttg.async_copy_global_to_local .*?\{contiguity = (\d+).*tensor<\d+x\d+x!tt.ptr", text)
    layouts = r"ttg.convert_layout %\S+ : tensor<\d+x\d{2,}x\w+, (#\w+)> -> tensor<.*?(#mma\d*|#blocked\d*)"
    waits = re.findall(r"ttg.async_wait .*num = (\d+)", text)
    # a row stays with its warp where the warps stand below one another, before and after
    stays = [warps.get(a, "").endswith(", 1]") and warps.get(a) == warps.get(b) for a, b in re.findall(layouts, text)]
    return {
        "products": len(re.findall(r"= (?:tt.dot|ttng.warp_group_dot) ", text)),
        "copies": len(copies),
        "loads": len(re.findall(r"= tt.load .*tensor<\d+x\d+x!tt.ptr", text)),
        "ahead": min(map(int, waits), default=0),
        "width": min(map(int, copies), default=0),
        "exchanges": text.count("ttg.local_alloc %") + stays.count(False),
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
