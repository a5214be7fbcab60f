"""A kernel compiled where there is no GPU: what a program of it needs, and what its loops do.

For lessons and tests. All of it is read from the compiler's own output, and the same at every run.
"""

import contextlib
import io
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction


def compiled(
    kernel: Callable, types: Mapping[str, str], constants: Mapping[str, Any], *, capability: int = 90, warps: int = 4,
    stages: int = 3,
) -> dict[str, Any]:
    """The :func:`figures` of ``kernel`` for a GPU of compute ``capability`` (80: A100, 90: H100).

    ``types``: of the arguments, such as "*fp16" (a pointer, aligned to 16 bytes), "i32" or "fp32"; ``constants``: the
    values of the others. Takes a second or two; not where TRITON_INTERPRET is set.
    """
    function = kernel if isinstance(kernel, JITFunction) else JITFunction(getattr(kernel, "fn", kernel))
    function.fn.__globals__.setdefault("tl", triton.language)
    signature = {name: types.get(name, "constexpr") for name in function.arg_names}
    aligned = {(i,): [["tt.divisibility", 16]] for i, kind in enumerate(signature.values()) if kind.startswith("*")}
    target = GPUTarget("cuda", capability, 32)
    options = {"num_warps": warps, "num_stages": stages, "enable_fp_fusion": True}  # as the package launches its own
    with logged() as log:
        made = triton.compile(ASTSource(function, signature, dict(constants), aligned), target=target, options=options)
    return figures(made, log.getvalue())


@contextlib.contextmanager
def logged() -> Iterator[io.StringIO]:
    """While this context is open, everything is compiled anew, and what ptxas says of it goes to the log."""
    log, knobs = io.StringIO(), triton.knobs
    with knobs.nvidia.scope(), knobs.compilation.scope(), contextlib.redirect_stdout(log):
        knobs.nvidia.dump_ptxas_log = knobs.compilation.always_compile = True
        yield log


def figures(kernel: Any, log: str) -> dict[str, Any]:
    """What a program needs, and what its loops do: see :func:`of_loop`.

    Registers of a thread; bytes spilled; bytes of shared memory; kinds of matrix instructions; products and sums in one
    instruction; the text in TTGIR.
    """
    text = kernel.asm["ttgir"]
    warps = dict(re.findall(r"(#mma\d*) = #ttg.nvidia_mma<.*?warpsPerCTA = (\[[\d, ]+\])", text))
    counted = [of_loop(loop, warps) for loop in loops(text)]
    return {
        "registers": max(int(x) for x in re.findall(r"Used (\d+) registers", log)),
        "spilled": sum(int(x) for x in re.findall(r"(\d+) bytes spill", log)),
        "shared": kernel.metadata.shared,
        "products": [kind for kind in ("mma.sync", "wgmma") if kind in kernel.asm["ptx"]],
        "fused": kernel.asm["ptx"].count("fma.rn"),
        "loops": [loop for loop in counted if loop["products"]],
        "ttgir": text,
    }


def loops(text: str) -> list[str]:
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


def of_loop(text: str, warps: Mapping[str, str]) -> dict[str, int]:
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
