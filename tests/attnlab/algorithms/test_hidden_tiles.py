"""A rule costs where it hides a part of a tile: hidden tiles are neither read nor computed, whole ones not masked."""

import importlib
from collections import Counter
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import attnlab
from tests.support.libraries import LIBRARIES

N, M, VISIBLE, D = 48, 256, 20, 4
BLOCKS = {"tiled": {"block_q": 16, "block_k": 32}, "chunked": {"query_chunk_size": 16, "key_chunk_size": 32}}
MODULES = {"chunked": "{}", "tiled": "{} {}_grad"} | {"chunked torch": "{} {}_grad"}
KEYS = np.arange(M)
ROWS = np.arange(N)[:, None]
HIDING = {  # options, visible tiles of 3 × 8
    "window": ({"window": (20, 4)}, 7),
    "causal at an offset": ({"causal": True, "offset": 30}, 7),
    "a window at an offset, rows that see nothing": ({"window": (8, 0), "offset": 240}, 2),
    "end": ({"mask": KEYS < VISIBLE}, 3),
    "holes": ({"mask": KEYS // 32 % 3 == 1}, 9),
    "bias": ({"bias": np.where(KEYS < VISIBLE, 0.5, -np.inf).astype(np.float32)[None]}, 3),
    "documents": ({"mask": ROWS // 16 == KEYS // 32 - 2}, 3),
    "both": ({"mask": KEYS // 32 % 2 == 0, "bias": np.where(ROWS < 16, -np.inf, 0.0).astype(np.float32)}, 8),
    "causal": ({"mask": KEYS >= 224, "causal": True, "offset": 216}, 3),
    "all": ({"mask": KEYS < 0}, 0),
    "segments": ({"segments": (np.arange(N) // 16, KEYS // 32 - 2)}, 3),
    "segments that end in a tile": ({"segments": (np.arange(N) // 20, KEYS // 40)}, 8),
    "unsorted segments": ({"segments": (np.arange(N) % 2 * 9, np.where(KEYS < VISIBLE, 9, 5))}, 3),
    "block mask": ({"mask": KEYS // 32 % 3 == 1, "block_mask": np.arange(8) > [[2]] * 3}, 6),
}


@pytest.fixture
def visits(request, monkeypatch):
    """A list that grows by one with every tile that is computed."""
    library, algorithm = request.getfixturevalue("library"), request.getfixturevalue("algorithm")
    seen = []
    for name in MODULES.get(f"{algorithm} {library}", MODULES[algorithm]).format(library, library).split():
        module = importlib.import_module(f"attnlab.{algorithm}.{name}")
        jax_reads = "narrow_tile" if name == "jax" and algorithm == "tiled" else "tile"
        name = jax_reads if library == "jax" else "read"
        original = getattr(module, name)

        def counted(*args, original=original, **options):
            jax.debug.callback(lambda: seen.append(1)) if library == "jax" else seen.append(1)
            return original(*args, **options)

        monkeypatch.setattr(module, name, counted)
    if library == "jax":
        jax.clear_caches()
    yield seen
    if library == "jax":
        jax.clear_caches()


def converted(library, x):
    """Arrays of NumPy, in pairs too, as those of the library; options that are none stay."""
    if isinstance(x, tuple) and isinstance(x[0], np.ndarray):
        return tuple(converted(library, y) for y in x)
    return {"numpy": np.asarray, "torch": torch.from_numpy, "jax": jnp.asarray}[library](x) if isinstance(
        x, np.ndarray) else x  # fmt: skip


CALLS = [(library, algorithm, rule) for library in LIBRARIES for algorithm in BLOCKS for rule in HIDING
         if (algorithm == "tiled" or rule != "block mask")
         and (library != "jax" or rule != "unsorted segments")]  # fmt: skip
"""Only tiled attention takes a block mask, and JAX leaves out a tile by the range of its segments."""


@pytest.mark.thin(16)
@pytest.mark.parametrize(("library", "algorithm", "rule"), CALLS)
def test_hidden_tiles_are_not_visited(visits, library, algorithm, rule):
    """Forward and gradient visit what is visible, once each; the numbers are those of safe attention."""
    options, tiles = HIDING[rule]
    draw = np.random.default_rng(0).standard_normal
    arrays = [draw(shape).astype(np.float32) for shape in ((2, N, D), (1, M, D), (1, M, D + 1))]
    plain = {name: y for name, y in options.items() if name != "block_mask"}
    if "block_mask" in options:
        plain["mask"] = options["mask"] & np.kron(options["block_mask"], np.ones((16, 32), bool))
    right = attnlab.safe_attention(*arrays, **plain, return_lse=True)
    x = [converted(library, y) for y in arrays]
    given = {name: y if name == "block_mask" else converted(library, y) for name, y in options.items()}
    attend = partial(attnlab.attention, method=algorithm, **given, **BLOCKS[algorithm], return_lse=True)
    if library == "torch":
        x = [y.requires_grad_() for y in x]
    out, lse = attend(*x)
    jax.effects_barrier() if library == "jax" else None
    assert len(visits) == tiles
    for found, expected in zip((out, lse), right):
        found = found.detach() if library == "torch" else found
        np.testing.assert_allclose(np.asarray(found), expected, atol=1e-6)
    if library == "jax":
        jax.block_until_ready(jax.vjp(attend, *x)[1]((out, lse)))
        jax.effects_barrier()
        most = 6 if algorithm == "chunked" else 3  # chunked recomputes a chunk of queries and one of keys at a time
        assert 3 * tiles <= len(visits) <= most * tiles
    elif library == "torch":
        torch.autograd.grad((out, lse), x, (out, torch.ones_like(lse)))
        assert len(visits) == (3 if algorithm == "chunked" else 2) * tiles
    elif algorithm == "tiled":
        attnlab.tiled_attention_backward(*x, out, lse, out, **given, **BLOCKS[algorithm])
        assert len(visits) == 2 * tiles


class Counted(TorchDispatchMode):
    """Counts the numbers of PyTorch's matrix products, and those that operations write to memory of their own."""

    def __init__(self):
        super().__init__()
        self.seen = Counter()

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        product = operation.overloadpacket.__name__ in ("bmm", "baddbmm", "baddbmm_")
        self.seen["of products"] += result.numel() if product else 0
        given = {x.untyped_storage().data_ptr() for x in args if isinstance(x, torch.Tensor)}
        if isinstance(result, torch.Tensor) and result.is_floating_point():
            self.seen["numbers"] += result.numel() * (result.untyped_storage().data_ptr() not in given)
        return result


def counted(algorithm, m, gradient=False, kind=torch.float32, keys=None, **options):
    """What 100 queries of two heads make of the first of m keys that they share, in tiles of 64 by 256."""
    random = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(shape, generator=random).to(kind) for shape in ((2, 100, 8), (1, m, 8), (1, m, 5)))
    leaves = [x.clone().requires_grad_(gradient) for x in (query, key[:, :keys], value[:, :keys])]
    with Counted() as mode:
        out = attnlab.attention(*leaves, method=algorithm, **dict(zip(BLOCKS[algorithm], (64, 256))), **options)
        if gradient:
            torch.autograd.grad(out, leaves, torch.ones_like(out))
    return mode.seen


def test_hidden_tiles_are_not_copied():
    """Not even to float32: a cache of 4096 slots of which 100 are filled costs what one of 256 does."""
    long, short = (counted("tiled", m, kind=torch.float16, mask=torch.arange(m) < 100) for m in (4096, 256))
    assert long["numbers"] == short["numbers"] > 0


@pytest.mark.parametrize("algorithm", BLOCKS)
def test_a_tile_ends_where_a_mask_or_bias_ends_it(algorithm):
    """100 keys of a cache cost what 100 keys cost, though tiles have 256."""
    alone = counted(algorithm, 4096, keys=100)
    seen = torch.arange(4096) < 100
    for options in ({"mask": seen}, {"bias": torch.where(seen, 0.5, -torch.inf)[None]}):
        assert counted(algorithm, 4096, **options)["of products"] == alone["of products"]


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("algorithm", BLOCKS)
def test_a_mask_that_hides_nothing_in_a_tile_masks_nothing(algorithm, gradient):
    """Neither keys, values nor scores."""
    plain = counted(algorithm, 512, gradient)
    assert counted(algorithm, 512, gradient, mask=torch.ones(512, dtype=torch.bool)) == plain
    partial = counted(algorithm, 512, gradient, mask=torch.arange(512) != 300)
    assert partial["numbers"] > plain["numbers"], "the count sees what is masked"
