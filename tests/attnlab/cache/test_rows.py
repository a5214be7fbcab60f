"""Caches cut back, rows selected, prompts of unequal lengths."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attnlab import rotary
from attnlab.cache import KVCache, RollingCache
from tests.attnlab.cache.test_cache import K, N, Q, V, empty, feed, slow
from tests.support import refused
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
    refused(ValueError, "length is 1; the cache holds 0 tokens", cache.truncate, 1)
    refused(ValueError, "length is -1", cache.truncate, -1)


def test_truncate_by_a_traced_length():
    q, k, v = (jnp.asarray(x, jnp.float32) for x in (Q, K, V))
    cache = feed(empty(k, v), [7], q, k, v)[2]
    cut = jax.jit(lambda cache, length: cache.truncate(length))
    assert [int(cut(cache, length).length) for length in (-3, 4, 7, 9)] == [0, 4, 7, 7]


@pytest.mark.thin(2)
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
        refused(ValueError, "rows has 2; there are 2 rows", cache.select, [0, 2])
        refused(ValueError, "rows has -1", cache.select, [-1])
        refused(TypeError, r"rows is float64 of shape \(1,\)", cache.select, [0.5])
    refused(ValueError, "it needs a batch axis", empty(k[0], v[0]).select, [0])


@pytest.mark.thin(3)
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


@pytest.mark.thin(3)
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
    refused(ValueError, r"mask has shape \(3, 8\), which does not broadcast", cache.attend, *three, mask=wrong)
    assert int(cache.length) == 0


@pytest.mark.parametrize("library", LIBRARIES)
def test_rows_of_unequal_lengths(library):
    """Padded at the end: each row's tokens, one or three at a time, are those of the row alone."""
    prompts = [6, 2]
    padding = (np.arange(N) >= np.array(prompts)[:, None])[:, None, :, None]
    ends = [x.copy() for x in (Q, K, V)]
    for x in ends:
        x[np.broadcast_to(padding, x.shape)] = 9
    alone, lengths = slow(Q, K, V), prompts
    with precision(library, Q):
        first = [to(library, x[..., :6, :]) for x in ends]
        (out, lse), cache = empty(*first[1:]).attend(*first, return_lse=True)
        for b, length in enumerate(prompts):
            np.testing.assert_allclose(back(out)[b, :, :length], alone[0][b, :, :length], atol=1e-12)
        for count in (1, 3, 1, 3):
            at = np.array(lengths)[:, None] + np.arange(count)
            new = [np.stack([x[b][:, at[b]] for b in range(2)]) for x in (Q, K, V)]
            given = lengths if count == 1 else to(library, np.array(lengths, np.int32))
            result, cache = cache.attend(*(to(library, x) for x in new), lengths=given, return_lse=True)
            for got, expected in zip(result, alone):
                rows = np.stack([expected[b][:, at[b]] for b in range(2)])
                np.testing.assert_allclose(back(got), rows, atol=1e-12)
            lengths = [length + count for length in lengths]
            assert int(cache.length) == max(lengths)


@pytest.mark.parametrize("library", LIBRARIES)
def test_lengths_and_a_mask(library):
    """A mask for all rows, or one for each, over the slots."""
    for shape in ((N + 2,), (2, 1, 1, N + 2), (2, 4, 2, N + 2)):
        mask = np.random.default_rng(5).random(shape) < 0.7
        with precision(library, Q):
            q, k, v = (to(library, x) for x in (Q, K, V))
            results = []
            for rows in (slice(0, 2), slice(1, 2)):
                part = mask if len(shape) == 1 else mask[rows]
                cache = feed(empty(k[rows], v[rows]), [5], *(x[rows][..., :5, :] for x in (q, k, v)))[2]
                cache, lengths = (cache, [5, 3]) if rows.start == 0 else (cache.truncate(3), None)
                new = (x[rows][..., 5:7, :] for x in (q, k, v))
                results.append(back(cache.attend(*new, lengths=lengths, mask=to(library, part))[0]))
        np.testing.assert_allclose(results[0][1:], results[1], atol=1e-12)


@pytest.mark.full
@pytest.mark.parametrize("library", LIBRARIES)
def test_lengths_that_are_none(library):
    """Refused before anything is written."""
    q, k, v = (to(library, x.astype("f4")) for x in (Q, K, V))
    cache = feed(empty(k, v), [5], *(x[..., :5, :] for x in (q, k, v)))[2]
    one = [x[..., 5:6, :] for x in (q, k, v)]
    for lengths, kind, message in (
        ([5, 6], ValueError, r"lengths\[1\] is 6; the cache holds 5"), ([-1, 5], ValueError, r"lengths\[0\] is -1"),
        ([5], ValueError, "lengths has 1 numbers; the cache has 2 rows"), (5, TypeError, r"it must be \(B,\) integers"),
        ([5.0, 5.0], TypeError, r"lengths is float64 of shape \(2,\)"),
    ):  # fmt: skip
        refused(kind, message, cache.attend, *one, lengths=lengths)
    with pytest.raises(ValueError, match="the cache is full: it holds 5 of 16 tokens, and key brings 12 more"):
        cache.attend(*(x[..., :12, :] for x in (q, k, v)), lengths=[0, 5])
    assert int(cache.length) == 5
    with pytest.raises(ValueError, match="for lengths it needs a batch axis"):
        empty(k[0], v[0]).attend(*(x[0] for x in one), lengths=[0])


@pytest.mark.parametrize("library", LIBRARIES)
def test_lengths_of_no_rows(library):
    q, k, v = (to(library, x[:0, :, :1].astype("f4")) for x in (Q, K, V))
    out, cache = empty(k, v).attend(q, k, v, lengths=[])
    assert tuple(out.shape) == (0, 4, 1, 3)
    assert int(cache.length) == 1


@pytest.mark.full
def test_traced_lengths():
    """One program for all; what is no length gives NaN in its own row; gradients are those of each row alone."""
    q, k, v = (jnp.asarray(x, jnp.float32) for x in (Q, K, V))
    cache = feed(empty(k, v), [7], *(x[..., :7, :] for x in (q, k, v)))[2]
    new = [x[..., 7:9, :] for x in (q, k, v)]
    step = jax.jit(lambda cache, lengths, *new: cache.attend(*new, lengths=lengths))
    for lengths in ([7, 3], [-1, 7], [7, 8], [0, 0]):
        out, more = step(cache, jnp.array(lengths), *new)
        wrong = [not 0 <= length <= 7 for length in lengths]
        assert [bool(jnp.isnan(row).any()) for row in out] == wrong
        assert wrong != [False, False] or int(more.length) == max(lengths) + 2
    assert step._cache_size() == 1

    def loss(key, rows, **options):
        part = [x[rows] for x in new]
        cache = feed(empty(k[rows], v[rows]), [7], *(x[rows][..., :7, :] for x in (q, k, v)))[2]
        cache = cache if options else cache.truncate(3)
        return (cache.attend(part[0], key[rows], part[2], **options)[0][-1] ** 2).sum()

    both = jax.grad(loss)(new[1], slice(0, 2), lengths=jnp.array([7, 3]))
    alone = jax.grad(loss)(new[1], slice(1, 2))
    np.testing.assert_allclose(both, alone, atol=1e-5)
    assert jnp.abs(both[1]).max() > 0.01
