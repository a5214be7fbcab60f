"""Caches cut back, rows selected, prompts of unequal lengths."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attnlab import rotary
from attnlab.cache import KVCache, RollingCache
from tests.cache.test_cache import K, N, Q, V, empty, feed, slow
from tests.support.libraries import LIBRARIES, back, precision, to


@pytest.mark.parametrize("library", LIBRARIES)
def test_truncate_forgets_what_came_after(library):
    """Wrong guesses, cut off and overwritten, leave no trace."""
    expected = slow(Q, K, V)
    with precision(library, Q):
        q, k, v = (to(library, x) for x in (Q, K, V))
        cache = feed(empty(k, v), [5], q, k, v)[2]
        _, cache = cache.attend(*(-x[..., 6:10, :] for x in (q, k, v)))
        cache = cache.truncate(5)
        assert int(cache.length) == 5
        out, cache = cache.attend(*(x[..., 5:9, :] for x in (q, k, v)))
        np.testing.assert_allclose(back(out), expected[0][..., 5:9, :], atol=1e-12)
        assert int(cache.truncate(9).length) == 9
        assert int(cache.truncate(0).length) == 0


@pytest.mark.parametrize("library", LIBRARIES)
def test_truncate_refuses(library):
    k, v = (to(library, x) for x in (K.astype("f4"), V.astype("f4")))
    cache = empty(k, v)
    with pytest.raises(ValueError, match="length is 1; the cache holds 0 tokens"):
        cache.truncate(1)
    with pytest.raises(ValueError, match="length is -1"):
        cache.truncate(-1)


def test_truncate_by_a_traced_length():
    q, k, v = (jnp.asarray(x, jnp.float32) for x in (Q, K, V))
    cache = feed(empty(k, v), [7], q, k, v)[2]
    cut = jax.jit(lambda cache, length: cache.truncate(length))
    assert [int(cut(cache, length).length) for length in (-3, 4, 7, 9)] == [0, 4, 7, 7]


@pytest.mark.parametrize("kind", ["all", "sinks"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_select_goes_on_with_those_rows(library, kind):
    """Reordered, doubled: each goes on as the row that it was, and the cache it came from is left alone."""
    rows = [1, 0, 1]
    options = {} if kind == "all" else dict(window=4, sinks=2)
    for chosen in (rows, np.array(rows)):
        with precision(library, Q):
            q, k, v = (to(library, x) for x in (Q, K, V))
            cache = feed(empty(k, v, kind), [6], *(x[..., :6, :] for x in (q, k, v)))[2]
            kept = back(cache.keys).copy()
            more = cache.select(chosen if isinstance(chosen, list) else to(library, chosen))
            out, more = more.attend(*(to(library, x[rows][..., 6:9, :]) for x in (Q, K, V)))
            np.testing.assert_allclose(back(out), slow(Q, K, V, **options)[0][rows][..., 6:9, :], atol=1e-12)
            np.testing.assert_array_equal(back(cache.keys), kept)
            assert (int(cache.length), int(more.length)) == (6, 9)


@pytest.mark.parametrize("library", LIBRARIES)
def test_select_refuses(library):
    k, v = (to(library, x.astype("f4")) for x in (K, V))
    for cache in (empty(k, v), RollingCache.empty(k, v, window=3)):
        with pytest.raises(ValueError, match="rows has 2; there are 2 rows"):
            cache.select([0, 2])
        with pytest.raises(ValueError, match="rows has -1"):
            cache.select([-1])
        with pytest.raises(TypeError, match=r"rows is float64 of shape \(1,\)"):
            cache.select([0.5])
    with pytest.raises(ValueError, match="it needs a batch axis"):
        empty(k[0], v[0]).select([0])


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_batch_of_unequal_prompts(library):
    """Padded on the left with NaN, masked, rotated from their own first token: each row as if it were alone."""
    padding = np.array([0, 3])
    positions = np.arange(N) - padding[:, None, None]
    hidden = np.arange(N + 2) < padding[:, None, None, None]
    q, k, v = (np.where(positions[..., None] < 0, np.nan, x) for x in (Q, K, V))
    out = []
    with precision(library, Q):
        cache, mask = KVCache.empty(to(library, k), to(library, v), capacity=N + 2), to(library, ~hidden)
        for start, stop in ((0, 6), (6, 7), (7, N)):
            at = to(library, positions[..., start:stop].astype(np.int32))
            turned = (rotary(to(library, x[..., start:stop, :]), at) for x in (q, k))
            part, cache = cache.attend(*turned, to(library, v[..., start:stop, :]), mask=mask)
            out.append(back(part))
    out = np.concatenate(out, -2)
    for b, pad in enumerate(padding):
        alone = slow(*(rotary(x[b, :, pad:]) for x in (Q, K)), V[b, :, pad:])[0]
        np.testing.assert_allclose(out[b, :, pad:], alone, atol=1e-9)
        assert not out[b, :, :pad].any()


@pytest.mark.parametrize("library", LIBRARIES)
def test_masks_of_every_shape(library):
    """Over slots: for heads, for queries, for all; a wrong one is refused before anything is written."""
    draw = np.random.default_rng(3)
    for shape in ((N + 2,), (4, 1, N + 2), (2, 1, 3, N + 2), (2, 4, 3, 1)):
        mask = draw.random(shape) < 0.6
        with precision(library, Q):
            q, k, v = (to(library, x) for x in (Q, K, V))
            cache = feed(empty(k, v), [5], *(x[..., :5, :] for x in (q, k, v)))[2]
            out, _ = cache.attend(*(x[..., 5:8, :] for x in (q, k, v)), mask=to(library, mask))
        seen = np.broadcast_to(mask, (2, 4, 3, N + 2))[..., :8] & (np.arange(8) <= np.arange(5, 8)[:, None])
        keys, values = (np.repeat(x[..., :8, :], 2, 1) for x in (K, V))
        e = np.exp(Q[..., 5:8, :] @ keys.swapaxes(-1, -2) / np.sqrt(6)) * seen
        total = e.sum(-1, keepdims=True)
        np.testing.assert_allclose(back(out), (e / np.where(total, total, 1)) @ values, atol=1e-12)
    cache = empty(to(library, K.astype("f4")), to(library, V.astype("f4")))
    three, wrong = [to(library, x[..., :3, :].astype("f4")) for x in (Q, K, V)], to(library, np.ones((3, 8), bool))
    with pytest.raises(ValueError, match=r"mask has shape \(3, 8\), which does not broadcast"):
        cache.attend(*three, mask=wrong)
    assert int(cache.length) == 0
