"""Caches in JAX: pytrees; one program for all lengths; donated, written in place; full under jit, rows are NaN."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attnlab.cache import KVCache, RollingCache
from tests.attnlab.cache.test_cache import K, Q, V, slow
from tests.attnlab.cache.test_cache import N as LENGTH
from tests.support import needs, refused

needs("jax")
q, k, v = (jnp.asarray(x, jnp.float32) for x in (Q, K, V))
EXPECTED = slow(Q, K, V)[0]


def chunk(start, size):
    return [x[..., start : start + size, :] for x in (q, k, v)]


def test_a_cache_is_a_pytree():
    cache = RollingCache.empty(k, v, window=3, sinks=2, rotary=10.0, sink_positions="cache")
    leaves, tree = jax.tree.flatten(cache)
    assert [leaf.shape for leaf in leaves] == [(2, 2, 5, 6), (2, 2, 5, 3), ()]
    again = jax.tree.unflatten(tree, leaves)
    assert (again.window, again.sinks, again.rotary, again.sink_positions) == (3, 2, 10.0, "cache")
    assert len(jax.tree.leaves(KVCache.empty(k, v, capacity=4))) == 3


def test_one_program_for_all_lengths_and_what_does_not_fit():
    """Rows that do not fit are NaN, the others right; old keys stay; length counts on, and nothing is right after."""
    traced = 0

    @functools.partial(jax.jit, donate_argnums=0)
    def step(cache, *arrays):
        nonlocal traced
        traced += 1
        return cache.attend(*arrays, return_lse=True)

    cache = KVCache.empty(k, v, capacity=7)
    for start in (0, 2, 4):
        given = cache
        (out, _), cache = step(cache, *chunk(start, 2))
        np.testing.assert_allclose(out, EXPECTED[..., start : start + 2, :], atol=1e-6)
        assert given.keys.is_deleted()
        assert given.values.is_deleted()
    before = np.asarray(cache.keys)
    (out, lse), cache = step(cache, *chunk(6, 2))
    np.testing.assert_allclose(out[..., 0, :], EXPECTED[..., 6, :], atol=1e-6)
    assert np.isnan(out[..., 1, :]).all()
    np.testing.assert_array_equal(np.isnan(lse), np.broadcast_to([False, True], lse.shape))
    np.testing.assert_array_equal(cache.keys[..., :6, :], before[..., :6, :])
    np.testing.assert_array_equal(cache.keys[..., 6, :], k[..., 6, :])
    (out, _), cache = step(cache, *chunk(0, 2))
    assert np.isnan(out).all()
    assert int(cache.length) == 10
    assert traced == 1
    refused(ValueError, "holds 10 of 7", cache.attend, *chunk(0, 2))


@pytest.mark.thin(2)
@pytest.mark.parametrize("sinks", [None, 2])
def test_mapped_over_caches_of_different_lengths(sinks):
    """One call for a batch of sequences, and a loop that carries the cache."""
    options = dict(capacity=LENGTH) if sinks is None else dict(window=4, sinks=sinks)
    made = [(KVCache if sinks is None else RollingCache).empty(k, v, **options) for _ in range(2)]
    _, made[1] = made[1].attend(*chunk(0, 3))
    caches = jax.tree.map(lambda *leaves: jnp.stack(leaves), *made)

    def decode(cache, tokens):
        return jax.lax.scan(lambda cache, token: cache.attend(*token)[::-1], cache, tokens)[1]

    tokens = [jnp.stack([jnp.stack([x[..., s + i, None, :] for i in range(8)]) for s in (0, 3)]) for x in (q, k, v)]
    out = jax.jit(jax.vmap(decode))(caches, tokens)
    expected = slow(Q, K, V, **({} if sinks is None else options))[0]
    for b, start in enumerate((0, 3)):
        np.testing.assert_allclose(
            np.moveaxis(out[b, ..., 0, :], 0, -2), expected[..., start : start + 8, :], atol=1e-6
        )


HEADS, SIZE = 2, 64
CACHES = {
    "all": lambda k, slots: KVCache.empty(k, k, capacity=slots),
    "rolling": lambda k, slots: RollingCache.empty(k, k, window=slots - 4, sinks=4),
    "cache positions": lambda k, slots: RollingCache.empty(
        k, k, window=slots - 4, sinks=4, rotary=1e4, sink_positions="cache"
    ),
}


def memory(kind, slots, count=1, batch=(), **options):
    """Temporary bytes of a donated step of ``count`` tokens, and the bytes of its result that lie in the old cache."""
    key = jnp.zeros((*batch, HEADS, count, SIZE))
    step = jax.jit(lambda cache, x, options: cache.attend(x, x, x, **options), donate_argnums=0)
    cache = jax.eval_shape(lambda x: CACHES[kind](x, slots), key)
    analysis = step.lower(cache, key, options).compile().memory_analysis()
    return analysis.temp_size_in_bytes, analysis.alias_size_in_bytes


@pytest.mark.parametrize("kind", CACHES)
def test_a_step_writes_in_place_and_reads_tile_by_tile(kind):
    small, large = (memory(kind, slots) for slots in (4096, 16384))
    assert small[0] == large[0] <= 2.5 * 4 * HEADS * 2048 * SIZE  # a tile of keys and one of values, and little more
    assert large[1] >= 16384 * HEADS * 2 * SIZE * 4


@pytest.mark.skipif(jax.__version__.startswith("0.9."), reason="XLA of JAX 0.9 copies the cache here")
def test_rows_of_unequal_lengths_are_written_in_place_too():
    lengths = jnp.array([5, 9])
    plain, own = (memory("all", 4096, batch=(2,), **options) for options in ({}, {"lengths": lengths}))
    assert own[0] <= plain[0] + 1024
    assert own[1] == plain[1]


@pytest.mark.full
def test_a_chunk_takes_no_more_memory_than_a_token_and_its_places():
    one, more, most = (memory("cache positions", 4096, count)[0] for count in (1, 64, 1024))
    assert more == most <= one + 8192
