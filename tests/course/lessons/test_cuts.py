"""The cuts of a cache: what each of them lets a query see, what a plan holds, and the stored prices."""

import numpy as np
import pytest
from attnlab_course import model
from attnlab_course.lessons.lesson24 import cuts, indexer

import attnlab
from attnlab.cache import dequantize, quantize

RNG = np.random.default_rng(24)
Q, K, V = RNG.normal(size=(3, 1, 2, 80, 32)).astype(np.float32)


def seen(visible):
    """(2, 80, 80): which keys each query reads."""
    return (visible(0, Q, K) & (cuts.distances(80) >= 0))[0] if visible(0, Q, K).ndim == 4 else visible(0, Q, K)


@pytest.mark.parametrize("worth", ["weight", "chance", "anew"])
def test_an_evicting_cache_keeps_its_budget_and_the_newest_and_what_is_gone_stays_gone(worth):
    rows = seen(cuts.evicting(16, worth))
    assert (rows.sum(-1) == np.minimum(np.arange(80) + 1, 16)).all()
    assert all(rows[:, i, max(i - 7, 0) : i + 1].all() for i in range(80))
    i, j = np.tril_indices(79)
    assert not (rows[:, i + 1, j] & ~rows[:, i, j]).any()


def test_by_weight_goes_the_key_of_the_smallest_sum():
    s = Q[0, 0] @ K[0, 0].T / np.sqrt(32)
    sums = np.zeros(80)
    for i in range(4):
        p = np.exp(s[i, : i + 1])
        sums[: i + 1] += p / p.sum()
    gone = np.flatnonzero(~cuts.evicting(4, "weight")(0, Q, K)[0, 0, 4, :5])
    assert gone == [sums[:3].argmin()]


def test_pages_that_are_read_are_those_of_the_largest_bounds_and_the_own_one():
    rows = seen(cuts.chosen(32, "pages"))
    for i in (20, 47, 79):
        pages = [rows[:, i, p * 16 : min((p + 1) * 16, i + 1)] for p in range(i // 16 + 1)]
        assert all(page.all() or not page.any() for head in range(2) for page in (x[head] for x in pages))
        assert pages[-1].all()
    assert seen(cuts.chosen(8, "keys"))[:, 79].sum(-1).tolist() == [8, 8]


def test_a_window_and_its_sinks():
    rows = cuts.newest(10, sinks=4)(0, Q, K) & (cuts.distances(80) >= 0)
    assert np.flatnonzero(rows[79]).tolist() == [0, 1, 2, 3, *range(74, 80)]


@pytest.mark.parametrize("window", [None, 32])
def test_few_bits_give_the_rows_of_a_cache_that_quantizes_whole_groups(window):
    out = cuts.quantized(Q, K, V, bits=(4, 4), window=window)
    q, k = attnlab.rotary(Q), attnlab.rotary(K)
    for i in (0, 30, 31, 32, 63, 79):
        end = (i + 1) // 32 * 32
        start = 0 if window is None else max(end - window, 0)
        rough = [dequantize(quantize(x[..., :end, :], 4, axis=axis))[..., start:, :] for x, axis in ((k, -2), (V, -1))]
        keys, values = (np.concatenate([r, x[..., end : i + 1, :]], -2) for r, x in zip(rough, (k, V)))
        expected = attnlab.safe_attention(q[..., i : i + 1, :], keys, values)
        np.testing.assert_allclose(out[..., i : i + 1, :], expected, atol=1e-5)


def test_a_rotation_before_rounding_spreads_an_outlier_and_changes_no_score():
    turn = cuts.hadamard(32)
    np.testing.assert_allclose(turn @ turn.T, np.eye(32), atol=1e-12)
    assert (abs(turn) == abs(turn[0, 0])).all()
    large = K * np.where(np.arange(32) == 5, 30, 1).astype(np.float32)
    exact = attnlab.safe_attention(attnlab.rotary(Q), attnlab.rotary(large), V, causal=True)
    plain, turned = (abs(cuts.quantized(Q, large, V, bits=(8, None), axes=(-1, -1), turn=x) - exact).max()
                     for x in (False, True))  # fmt: skip
    assert turned < plain / 2


def test_floats_as_servers_store_them():
    x = np.array([[0.3, 1, 5.9, -6, *[0.0] * 12]], np.float32)
    assert cuts.rounded(x, "FP8", -1)[0, :4].tolist() == [0.3125, 1, 6, -6]
    assert cuts.rounded(x, "FP4", -1)[0, :4].tolist() == [0.5, 1, 6, -6]  # e2m1: 0.5, 1, 1.5, 2, 3, 4, 6
    assert cuts.rounded(100 * x, "FP4", -1)[0, 3] == pytest.approx(-600, rel=0.05)


def test_a_learned_index_by_hand_and_what_it_reads():
    q, k, v = np.random.default_rng(1).normal(size=(3, 1, 4, 80, 32)).astype(np.float32)
    q_map, k_map, weigh = index = [x[0] for x in indexer.stored(8)]
    x, y = (z[0].swapaxes(0, 1).reshape(80, 128) for z in (q, k))
    x, y = (z / np.sqrt((z * z).mean(-1, keepdims=True)) for z in (x, y))
    products = attnlab.rotary((x @ q_map).reshape(80, 4, 8).swapaxes(0, 1)) @ attnlab.rotary(y @ k_map).T
    by_hand = sum((1 + (x @ weigh)[79, h]) * np.maximum(products[h, 79], 0) for h in range(4))
    np.testing.assert_allclose(indexer.scores(q, k, *index)[0, 79], by_hand, atol=1e-3)
    rows = [*np.argsort(by_hand[:72])[-8:], *range(72, 80)]  # the best eight, and the newest
    expected = attnlab.safe_attention(attnlab.rotary(q)[..., 79:, :], attnlab.rotary(k)[..., rows, :], v[..., rows, :])
    np.testing.assert_allclose(cuts.indexed(8, 16)(0, q, k, v)[..., 79:, :], expected, atol=1e-5)


def test_what_a_plan_holds():
    """Of 512 tokens: all, an eighth, 31 in full and 481 of 5 bits, and a layer of each."""
    assert cuts.share([(512, 16)] * 4) == 1
    assert cuts.share([(64, 16)] * 4) == 1 / 8
    assert cuts.share([(512, 4)] * 4) == (31 * 16 + 481 * 5) / (512 * 16)
    assert cuts.share([(64, 4), (512, 16)]) == (31 * 16 + 64 * 5 + 512 * 16) / (2 * 512 * 16)


def test_the_stored_prices_are_those_of_the_script():
    stored, names = cuts.stored(), {}
    for table, row, *_ in cuts.rows():
        names.setdefault(table, []).append(row)
    assert {table: list(rows) for table, rows in stored.items()} == names
    assert stored["bits"]["in full"] == stored["plans"]["all keys in full"]


@pytest.mark.parametrize(
    ("table", "row"),
    [("keys", "sinks 64"), ("keys", "index 8, 64"), ("plans elsewhere", "windows of 32, 64, 64, at 4 bits")],
)
def test_a_price_comes_out_again(table, row):
    cut, first = next((cut, first) for *names, cut, first in cuts.rows() if names == [table, row])
    assert cuts.price(model.load(), cut, first) == pytest.approx(cuts.stored()[table][row], abs=2e-3)
