"""Extra memory, measured, against the promises: bounds on the closed forms, and growth when N doubles.

NumPy and PyTorch run; JAX is compiled, in a process of its own.
"""

import functools
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from attnlab import METHODS
from attnlab.costs import extra_elements
from attnlab.measure import HONEST_XLA, extra_bytes, many_bytes

LIBRARIES = ["numpy", "jax", "torch"]
N, D = 1024, 64
SIZES = {
    "chunked": {"query_chunk_size": 128, "key_chunk_size": 256},
    "tiled": {"block_q": 128, "block_k": 256},
}
AT_MOST = {"naive": 4, "safe": 4, "lazy": 3, "online": 3, "chunked": 2.5, "tiled": 3}
GROWTH = {"naive": 4, "safe": 4, "lazy": 2, "online": 2, "chunked": 2, "tiled": 1}
SMALL = 8192  # bytes of bookkeeping that no formula counts


RULES = [{"causal": True}, {"window": 100}, {"dropout": 0.3, "seed": 1}]


def task(method: str, library: str, gradient: bool = False, options: dict | None = None) -> dict:
    options = SIZES.get(method, {}) | (options or {})
    task = {"method": method, "library": library, "lengths": [N, 2 * N], "d": D}
    return task | {"gradient": gradient, "options": options}


@functools.cache
def jax_sizes() -> dict[str, dict[int, int]]:
    """All measurements of JAX, in one process."""
    tasks = [task(method, "jax") for method in METHODS]
    tasks += [task(method, "jax", gradient=True) for method in ("safe", "chunked", "tiled")]
    tasks += [task(method, "jax", options=rule) for method in ("online", "chunked", "tiled") for rule in RULES]
    return dict(zip(map(json.dumps, tasks), many_bytes(tasks)))


@functools.cache
def sizes_of(name: str) -> dict[int, int]:
    return many_bytes([json.loads(name)])[0]


def measured(*args, **kwargs) -> dict[int, int]:
    name = json.dumps(task(*args, **kwargs))
    return jax_sizes()[name] if "jax" in args else sizes_of(name)


def formula(method: str, n: int) -> int:
    return 4 * extra_elements(method, n, n, D, D, **SIZES.get(method, {}))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("method", METHODS)
def test_forward_stays_within_its_bound(method: str, library: str):
    for n, size in measured(method, library).items():
        assert size <= AT_MOST[method] * formula(method, n) + SMALL


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("method", METHODS)
def test_forward_grows_as_promised(method: str, library: str):
    once, twice = measured(method, library).values()
    assert twice <= 1.1 * GROWTH[method] * once + SMALL


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("method", ["naive", "safe"])
def test_the_quadratic_ones_fail_the_linear_bound(method: str, library: str):
    once, twice = measured(method, library).values()
    assert twice > 3 * once
    assert once >= formula(method, N)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("options", RULES, ids=str)
@pytest.mark.parametrize("method", ["online", "chunked", "tiled"])
def test_rules_and_dropout_materialize_nothing(method: str, options: dict, library: str):
    for n, size in measured(method, library, options=options).items():
        assert size <= AT_MOST[method] * formula(method, n) + SMALL


# Gradients: the gradients themselves are results


@pytest.mark.parametrize("library", LIBRARIES)
def test_gradient_of_tiled_holds_two_numbers_a_query_and_tiles(library: str):
    for n, size in measured("tiled", library, gradient=True).items():
        assert size <= 3 * (formula("tiled", n) + 4 * 2 * n) + SMALL
    once, twice = measured("tiled", library, gradient=True).values()
    assert twice - once <= 1.5 * 4 * 2 * N + SMALL


@pytest.mark.parametrize("library", ["jax", "torch"])
def test_gradient_of_chunked_recomputes(library: str):
    for n, size in measured("chunked", library, gradient=True).items():
        assert size <= 3 * formula("chunked", n) + 4 * (n * D + n * 2 * D) + SMALL


@pytest.mark.parametrize("library", ["jax", "torch"])
def test_gradient_of_safe_is_quadratic(library: str):
    once, twice = measured("safe", library, gradient=True).values()
    assert twice > 3 * once


# Masks, grouped heads


def arrays(hq: int, hk: int, n: int, m: int, array=np.asarray) -> list:
    rng = np.random.default_rng(0)
    shapes = ((hq, n, D), (hk, m, D), (hk, m, D))
    return [array(rng.standard_normal(shape, dtype=np.float32)) for shape in shapes]


@pytest.mark.parametrize("array", [np.asarray, torch.asarray], ids=["numpy", "torch"])
@pytest.mark.parametrize("method", ["online", "chunked", "tiled"])
@pytest.mark.parametrize("rule", ["mask", "bias"])
def test_a_padding_mask_is_not_expanded(method: str, rule: str, array):
    row = np.arange(2 * N) < 1500
    row = array((row if rule == "mask" else np.where(row, 0, -np.inf).astype(np.float32))[None, None])
    call = functools.partial(METHODS[method], **SIZES.get(method, {}))
    query, key, value = arrays(1, 1, 2 * N, 2 * N, array)
    call(query, key, value, **{rule: row})
    size = extra_bytes(lambda *a: call(*a, **{rule: row}), query, key, value)
    assert size <= AT_MOST[method] * formula(method, 2 * N) + SMALL


@pytest.mark.parametrize("array", [np.asarray, torch.asarray], ids=["numpy", "torch"])
@pytest.mark.parametrize("method", METHODS)
def test_keys_and_values_are_not_repeated_for_the_heads_of_a_group(method: str, array):
    """One new query of 16 heads against one key head: a repeated K would be 16 times its 4 MiB."""
    query, key, value = arrays(16, 1, 1, 16384, array)
    sizes = {"tiled": {"block_k": 256}, "chunked": {"key_chunk_size": 512}}.get(method, {})
    METHODS[method](query[:, :, :8], key[:, :64, :8], value[:, :64], **sizes)
    size = extra_bytes(lambda *a: METHODS[method](*a, **sizes), query, key, value)
    assert size < key.nbytes + AT_MOST[method] * 4 * extra_elements(method, 1, 16384, D, D, group=16, **sizes)


# JAX at 2²⁰ tokens: the work of a process of its own, with the flag that hides nothing

LONG = """
import jax, jax.numpy as jnp, json
from attnlab.measure import extra_bytes
from attnlab.tiled.jax import tiled_attention

def size(n, m):
    q, kv = jax.ShapeDtypeStruct((1, n, 64), jnp.float32), jax.ShapeDtypeStruct((1, m, 64), jnp.float32)
    return jax.jit(tiled_attention).lower(q, kv, kv).compile().memory_analysis().temp_size_in_bytes

print(json.dumps([size(2**12, 2**12), size(2**20, 2**20), size(2**20 - 1, 2**20 - 3)]))
"""


def test_a_million_tokens_compile_in_jax_under_8_megabytes():
    done = subprocess.run(
        [sys.executable, "-c", LONG], env={**os.environ, "XLA_FLAGS": HONEST_XLA}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    short, long, ragged = json.loads(done.stdout.splitlines()[-1])
    assert long == short
    assert max(long, ragged) < 8e6


@pytest.mark.parametrize("library", ["jax", "torch"])
def test_64_queries_agree_with_float64_over_a_million_keys(library: str):
    import jax.numpy as jnp

    m, rng = 2**20, np.random.default_rng(5)
    query = rng.standard_normal((1, 64, D), dtype=np.float32)
    key, value = (rng.standard_normal((1, m, D), dtype=np.float32) for _ in range(2))
    array = {"jax": jnp.asarray, "torch": torch.asarray}[library]
    out, lse = METHODS["tiled"](array(query), array(key), array(value), return_lse=True)

    s = query[0].astype(np.float64) @ key[0].T.astype(np.float64) / D**0.5
    e = np.exp(s - s.max(-1, keepdims=True))
    expected = e @ value[0].astype(np.float64) / e.sum(-1, keepdims=True)
    np.testing.assert_allclose(np.asarray(out[0]), expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    np.testing.assert_allclose(np.asarray(lse[0]), s.max(-1) + np.log(e.sum(-1)), rtol=1e-6)


def test_jax_measurement_refuses_to_flatter(monkeypatch):
    import jax.numpy as jnp

    monkeypatch.setenv("XLA_FLAGS", "")
    with pytest.raises(RuntimeError, match=HONEST_XLA):
        extra_bytes(lambda x: x, jnp.ones(3))
