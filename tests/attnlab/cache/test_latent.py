"""A latent that is stored once: keys whose first numbers are the values."""

import jax
import numpy as np
import pytest

from attnlab.cache import KVCache
from tests.attnlab.cache.test_cache import K, Q, slow
from tests.support import refused
from tests.support.libraries import LIBRARIES, back, precision, to

DV = 4
SPLITS = ([1, 2, 5, 4], [12])


def latent(key):
    return KVCache.empty(key, DV, capacity=14)


@pytest.mark.thin(2)
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("split", SPLITS, ids=["mixed", "all"])
def test_a_latent_gives_the_rows_of_keys_and_values(library, split):
    expected = slow(Q, K, K[..., :DV])
    with precision(library, Q):
        q, k = (to(library, x) for x in (Q, K))
        cache, results = latent(k), []
        for start, size in zip(np.cumsum([0, *split]), split):
            (out, lse), cache = cache.attend(*(x[..., start : start + size, :] for x in (q, k)), None, return_lse=True)
            results.append((back(out), back(lse)))
    out, lse = zip(*results)
    np.testing.assert_allclose(np.concatenate(out, -2), expected[0][..., :12, :], atol=1e-12)
    np.testing.assert_allclose(np.concatenate(lse, -1), expected[1][..., :12], atol=1e-12)


@pytest.mark.parametrize("library", LIBRARIES)
def test_it_is_stored_once(library):
    k = to(library, K.astype("f4"))
    cache, both = latent(k), KVCache.empty(k, k[..., :DV], capacity=14)
    assert cache.nbytes * (k.shape[-1] + DV) == both.nbytes * k.shape[-1]
    if library == "jax":
        assert sum(x.nbytes for x in jax.tree.leaves(cache)) == cache.nbytes + 4
    elif library == "numpy":
        assert cache.values.base is cache.keys
    else:
        assert cache.values.data_ptr() == cache.keys.data_ptr()


@pytest.mark.parametrize("library", LIBRARIES)
def test_select_keeps_it_once_and_goes_on(library):
    with precision(library, Q):
        q, k = (to(library, x) for x in (Q, K))
        _, cache = latent(k).attend(q[..., :6, :], k[..., :6, :], None)
        more = cache.select([1, 0])
        assert more.nbytes == cache.nbytes
        if library == "numpy":
            assert more.values.base is more.keys
        turned = [to(library, x[[1, 0]][..., 6:8, :]) for x in (Q, K)]
        out, _ = more.truncate(6).attend(*turned, None)
        expected = slow(Q, K, K[..., :DV])[0][[1, 0]][..., 6:8, :]
        np.testing.assert_allclose(back(out), expected, atol=1e-12)


def test_a_jitted_step_in_jax():
    q, k = (jax.numpy.asarray(x, "float32") for x in (Q, K))
    step = jax.jit(lambda cache, q, k: cache.attend(q, k, None))
    cache, rows = latent(k), []
    for i in range(5):
        out, cache = step(cache, q[..., i : i + 1, :], k[..., i : i + 1, :])
        rows.append(back(out))
    np.testing.assert_allclose(np.concatenate(rows, -2), slow(Q, K, K[..., :DV])[0][..., :5, :], atol=1e-5)


@pytest.mark.parametrize("library", LIBRARIES)
def test_what_does_not_fit_is_refused(library):
    k = to(library, K.astype("f4"))
    refused(ValueError, f"value is {K.shape[-1] + 1}, and key has shape", KVCache.empty, k, K.shape[-1] + 1, capacity=9)
    refused(ValueError, "value is 0", KVCache.empty, k, 0, capacity=9)
    refused(TypeError, "value", KVCache.empty, k, True, capacity=9)
    with pytest.raises(ValueError, match="value must be None: this cache was made for values that are the first 4"):
        latent(k).attend(k, k, k[..., :DV])
    refused(TypeError, "value", KVCache.empty(k, k, capacity=99).attend, k, k, None)


@pytest.mark.parametrize("library", LIBRARIES)
def test_rows_of_unequal_lengths(library):
    """Row 1 goes on from its third token, row 0 from its fifth; the cache stays one of a latent."""
    with precision(library, Q):
        q, k = (to(library, x) for x in (Q, K))
        _, cache = latent(k).attend(q[..., :5, :], k[..., :5, :], None)
        new = [to(library, np.stack([x[0][:, 5:6], x[1][:, 3:4]])) for x in (Q, K)]
        out, cache = cache.attend(*new, None, lengths=[5, 3])
        assert cache.latent == DV
        expected = slow(Q, K, K[..., :DV])[0]
        np.testing.assert_allclose(back(out)[0, :, 0], expected[0, :, 5], atol=1e-12)
        np.testing.assert_allclose(back(out)[1, :, 0], expected[1, :, 3], atol=1e-12)
