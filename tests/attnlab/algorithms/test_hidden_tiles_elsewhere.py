"""In NumPy and JAX a tile that mask, bias or segments hide is not visited: tiles are counted as they are computed."""

import importlib
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import attnlab
from attnlab.tiled.numpy import tiled_attention_backward
from tests.support.pairwise import parameters

N, M, VISIBLE, D = 48, 256, 20, 4
BLOCKS = {"tiled": {"block_q": 16, "block_k": 32}, "chunked": {"query_chunk_size": 16, "key_chunk_size": 32}}
FILES = {
    ("numpy", "chunked"): ["chunked.numpy"], ("numpy", "tiled"): ["tiled.numpy", "tiled.numpy_grad"],
    ("jax", "chunked"): ["chunked.jax"], ("jax", "tiled"): ["tiled.jax", "tiled.jax_grad"],
}  # fmt: skip
ARRAYS = {"mask", "bias", "segments"}
KEYS = np.arange(M)
ROWS = np.arange(N)[:, None]
HIDING = {  # options, visible tiles of 3 × 8
    "end": ({"mask": KEYS < VISIBLE}, 3),
    "holes": ({"mask": KEYS // 32 % 3 == 1}, 9),
    "bias": ({"bias": np.where(KEYS < VISIBLE, 0.5, -np.inf).astype(np.float32)[None]}, 3),
    "documents": ({"mask": ROWS // 16 == KEYS // 32 - 2}, 3),
    "both": ({"mask": KEYS // 32 % 2 == 0, "bias": np.where(ROWS < 16, -np.inf, 0.0).astype(np.float32)}, 8),
    "causal": ({"mask": KEYS >= 224, "causal": True, "offset": 216}, 3),
    "all": ({"mask": KEYS < 0}, 0),
    "segments": ({"segments": (np.arange(N) // 16, KEYS // 32 - 2)}, 3),
    "segments that end in a tile": ({"segments": (np.arange(N) // 20, KEYS // 40)}, 8),
    "block mask": ({"mask": KEYS // 32 % 3 == 1, "block_mask": np.arange(8) > [[2]] * 3}, 6),
}


@pytest.fixture
def visits(request, monkeypatch):
    """A list that grows by one with every tile that is computed."""
    library, algorithm = request.getfixturevalue("library"), request.getfixturevalue("algorithm")
    seen = []
    for name in FILES[library, algorithm]:
        module = importlib.import_module(f"attnlab.{name}")

        name = "read" if library == "numpy" else "tile"
        original = getattr(module, name)

        def counted(*args, original=original, **kwargs):
            if library == "jax":
                jax.debug.callback(lambda: seen.append(1))
            else:
                seen.append(1)
            return original(*args, **kwargs)

        monkeypatch.setattr(module, name, counted)
    jax.clear_caches()
    yield seen
    jax.clear_caches()


def arrays():
    """Query, key, value; hidden keys hold numbers like all others."""
    draw = np.random.default_rng(0).standard_normal
    return [draw(shape).astype(np.float32) for shape in ((2, N, D), (1, M, D), (1, M, D + 1))]


CALLS = [(*file, rule) for file in FILES for rule in HIDING if file[1] == "tiled" or rule != "block mask"]


@pytest.mark.thin(4)
@pytest.mark.parametrize(("library", "algorithm", "rule"), parameters(CALLS, dear=["jax"]))
def test_hidden_tiles_are_not_visited(visits, library, algorithm, rule):
    """Forward and gradient visit what is visible, once each; the numbers are those of safe attention."""
    options, tiles = HIDING[rule]
    x = arrays()
    shown = options | BLOCKS[algorithm]
    hidden = {name: y for name, y in options.items() if name != "block_mask"}
    if "block_mask" in options:
        hidden["mask"] = options["mask"] & np.kron(options["block_mask"], np.ones((16, 32), bool))
    right = attnlab.safe_attention(*x, **hidden, return_lse=True)
    if library == "numpy":
        out, lse = attnlab.attention(*x, method=algorithm, **shown, return_lse=True)
        assert len(visits) == tiles
        if algorithm == "tiled":
            tiled_attention_backward(*x, out, lse, out, **shown)
            assert len(visits) == 2 * tiles
    else:
        given = {name: jax.tree.map(jnp.asarray, y) if name in ARRAYS else y for name, y in shown.items()}
        attend = partial(attnlab.attention, method=algorithm, **given, return_lse=True)
        x = [jnp.asarray(y) for y in x]
        out, lse = attend(*x)
        jax.effects_barrier()
        assert len(visits) == tiles
        jax.block_until_ready(jax.vjp(attend, *x)[1]((out, lse)))
        jax.effects_barrier()
        if algorithm == "tiled":
            assert len(visits) == 3 * tiles
        else:  # recomputed a chunk of queries and a chunk of keys at a time
            assert tiles * 3 <= len(visits) <= tiles * 6
    np.testing.assert_allclose(out, right[0], atol=1e-6)
    np.testing.assert_allclose(lse, right[1], atol=1e-6)
