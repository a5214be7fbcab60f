"""Which of few tiles, warps and stages a kernel runs with: always the first, or the fastest if ATTNLAB_AUTOTUNE=1.

Tuned are calls on a GPU. The first of a kind runs with each candidate and is timed; the fastest is remembered, also for
later processes: in a file in $XDG_CACHE_HOME/attnlab (else ~/.cache/attnlab), one for each GPU, version of Triton and
state of these sources. All candidates give the same result but for rounding, so without tuning results repeat from
machine to machine, and with it as long as the file is there.
"""

import functools
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from attnlab.call import Rules, Sizes
from attnlab.kernels.triton.layout import constants

import torch
import triton
from triton.runtime.errors import OutOfResources, PTXASError
from triton.testing import do_bench

Call = tuple[Any, Any, tuple[bool, bool], Rules, Sizes]
"""query, value, whether a mask and whether segments are given, rules, block sizes of the caller."""
Constants = dict[str, int]

SOURCES = [*sorted(Path(__file__).parent.glob("*.py")), Path(__file__).parents[1] / "sizes.py"]


def run_tuned(
    kernel: Any, call: Call, tiles: Sequence[tuple[int, int]], width: int, scores: int,
    run: Callable[[Constants], None],
) -> None:
    """Run a kernel, as ``run`` does with what it is given; ``width``, ``scores`` as in layout.constants."""
    if enabled(call[0].device):
        run(fastest(kernel.__name__, call, candidates(call, tiles, width, scores), run))
    else:
        run(constants(*call, tiles[0], width, scores))


def enabled(device: torch.device) -> bool:
    """Whether calls are timed: if asked for, on a GPU, and not while a CUDA graph records what is launched."""
    asked = os.environ.get("ATTNLAB_AUTOTUNE") == "1"
    return asked and device.type == "cuda" and not torch.cuda.is_current_stream_capturing()


def candidates(call: Call, tiles: Sequence[tuple[int, int]], width: int, scores: int) -> list[Constants]:
    """Each of ``tiles``; the first also in eight warps, which spill less, the last and smallest in one stage more."""
    every = [constants(*call, most, width, scores) for most in tiles]
    every += [every[0] | {"num_warps": 8}, every[-1] | {"num_stages": every[-1]["num_stages"] + 1}]
    return [x for i, x in enumerate(every) if x not in every[:i]]


def fastest(name: str, call: Call, choices: list[Constants], run: Callable[[Constants], None]) -> Constants:
    """The choice that took the least time for such a call, now or when it was first seen; what cannot run is left out.

    Where none can, the first: its error is the caller's.
    """
    path = cache_file(call[0].device)
    known, kind = remembered(path), repr((name, *kind_of(call)))
    if known.get(kind) not in choices:
        times = {}
        for i, choice in enumerate(choices):
            with suppress(OutOfResources, PTXASError):
                times[i] = milliseconds(lambda choice=choice: run(choice))
        known[kind] = choices[min(times, key=times.get, default=0)]
        keep(path, known)
    return known[kind]


def milliseconds(run: Callable[[], None]) -> float:
    """The median time of a run on the GPU."""
    return do_bench(run, warmup=5, rep=20, return_mode="median")


def kind_of(call: Call) -> tuple:
    """What the fastest choice may depend on; numbers that are no constants of the kernel, to the next power of two."""
    query, value, compared, rules, sizes = call
    *heads, group = rules.heads
    band = rules.band
    lengths = [None if x is None else rounded(x) for x in (*heads, band.n, band.m, band.left, band.right)]
    arrays = str(query.dtype), query.shape[-1], value.shape[-1], group
    return *arrays, *lengths, *compared, rules.dropout > 0, band.block_mask is not None, tuple(sizes)


def rounded(x: int) -> int:
    """The power of two that holds x; 0 for 0 and less."""
    return 1 << (x - 1).bit_length() if x > 0 else 0


@functools.cache
def remembered(path: Path) -> dict[str, Constants]:
    """The choices that the file holds, {} if it cannot be read; later ones are put into the same dict."""
    with suppress(OSError, ValueError, AttributeError):
        found = json.loads(path.read_text(encoding="utf-8"))
        return {kind: choice for kind, choice in found.items() if isinstance(choice, dict)}
    return {}


def keep(path: Path, known: dict[str, Constants]) -> None:
    """Write the file, in one step; where that is not possible, this process remembers alone."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = path.with_suffix(f".{os.getpid()}")
        whole.write_text(json.dumps(known, indent=1), encoding="utf-8")
        whole.replace(path)


def cache_file(device: torch.device) -> Path:
    """Named by what makes old choices worthless: GPU, version of Triton, sources."""
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else "interpreter"
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "attnlab"
    return folder / f"triton-{source_hash(gpu)}.json"


@functools.cache
def source_hash(gpu: str) -> str:
    """Sixteen digits."""
    text = b"".join(path.read_bytes() for path in SOURCES)
    return hashlib.sha256(f"{gpu} {triton.__version__} ".encode() + text).hexdigest()[:16]
