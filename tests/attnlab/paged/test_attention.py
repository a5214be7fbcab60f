"""Paged attention: equal to attention over each sequence gathered by hand, in three libraries."""


import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from attnlab.paged import BlockManager, PagedCache, paged_attention
from tests.attnlab.paged.pages import Paged
from tests.support import refused
from tests.support.comparison import assert_close, rounding
from tests.support.libraries import EPS, LIBRARIES, accumulation, back, dtype_of, precision, to

CASES = {
    "one query": dict(lengths=[5, 0, 16, 1], n=1, size=4),
    "around a block": dict(lengths=[15, 16, 17], n=1, size=16),
    "some queries": dict(lengths=[9, 3, 4], n=3, size=4),
    "more queries than tokens": dict(lengths=[2, 0, 7], n=5, size=4),
    "heads in groups": dict(lengths=[6, 11], n=2, size=4, hq=6, hk=2, d=8, dv=5),
    "one key head": dict(lengths=[6, 11], n=2, size=4, hq=3, hk=1),
    "window": dict(lengths=[30, 2, 9], n=3, size=4, window=(4, 0)),
    "window of oneself": dict(lengths=[7, 3], n=2, size=2, window=(0, None)),
    "window of both sides": dict(lengths=[7, 3], n=2, size=2, window=3),
    "unbounded window": dict(lengths=[7, 3], n=2, size=2, window=(-1, 5)),
    "scale": dict(lengths=[7, 3], n=2, size=2, scale=-0.3),
    "large scores": dict(lengths=[7, 3], n=2, size=2, magnitude=40.0),
    "several tiles": dict(lengths=[1500, 511, 513], n=1, size=16, hq=1, hk=1, d=4, dv=4),
    "several tiles, window": dict(lengths=[1500, 700], n=2, size=16, hq=1, hk=1, d=4, dv=4, window=(600, 0)),
    "a size that divides no tile": dict(lengths=[1100], n=1, size=48, hq=1, hk=1, d=4, dv=4),
    "large blocks": dict(lengths=[1300, 3], n=1, size=600, hq=1, hk=1, d=4, dv=4),
    "several blocks of queries": dict(lengths=[150], n=140, size=16, hq=4, hk=1, d=4, dv=4),
    "a block a token": dict(lengths=[3, 5], n=1, size=1),
    "a table that fits": dict(lengths=[8, 6], n=1, size=4, width=2),
}  # fmt: skip


def limits(case, kind):
    """Largest errors allowed in out and lse."""
    out, _, size = case.expected()
    accuracy = rounding(kind, size)[..., None] + EPS[kind] / 2
    return accuracy * max(np.abs(out).max(initial=0), 1e-3), 4 * EPS[accumulation(kind)] * (2 + size)


def check(library, case, kind="float32"):
    with precision(library, case.query):
        arrays = [to(library, x) for x in case.arrays]
        out, lse = paged_attention(*arrays, return_lse=True, **case.options)
        alone = paged_attention(*arrays, **case.options)
    assert dtype_of(out) == kind
    assert dtype_of(lse) == accumulation(kind)
    expected = case.expected()
    for found, desired, limit, what in zip((out, lse), expected, limits(case, kind), ("out", "lse")):
        assert_close(back(found), desired, limit, what)
    np.testing.assert_array_equal(back(alone), back(out))


@pytest.mark.thin(10)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("library", LIBRARIES)
def test_agrees_with_each_sequence_by_itself(library, name):
    check(library, Paged(**CASES[name]))


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_dtypes(library, kind):
    check(library, Paged([9, 0, 4], 2, size=4, hq=4, hk=2, dv=5, kind=kind), kind)


@pytest.mark.parametrize("library", LIBRARIES)
def test_nothing_to_see(library):
    query = np.ones((2, 2, 1, 4), np.float32)
    for pages, width in ((0, 0), (3, 0), (0, 2)):
        empty = np.ones((pages, 2, 4, 4), np.float32)
        table, lengths = np.full((2, width), 7, np.int32), np.zeros(2, np.int32)
        out, lse = paged_attention(*(to(library, x) for x in (query, empty, empty, table, lengths)), return_lse=True)
        assert not back(out).any()
        assert (back(lse) == -np.inf).all()
    arrays = [to(library, x) for x in Paged([5, 3], 0, size=4).arrays]
    assert tuple(paged_attention(*arrays).shape) == (2, 2, 0, 8)
    arrays = [to(library, x) for x in Paged([], 1, size=4, width=1).arrays]
    assert tuple(paged_attention(*arrays).shape) == (0, 2, 1, 8)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_query_that_sees_nothing_may_hold_nan(library):
    case = Paged([2, 0], 3, size=2)
    case.query[0, :, 0] = case.query[1] = np.nan
    out, lse = paged_attention(*(to(library, x) for x in case.arrays), return_lse=True)
    assert not back(out)[0, :, 0].any()
    assert not back(out)[1].any()
    assert (back(lse)[1] == -np.inf).all()
    assert np.isfinite(back(out)).all()


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("kind", ["int64", "uint8"])
def test_integers_of_any_dtype(library, kind):
    case = Paged([5, 3], 1, size=4, width=2)
    arrays = case.arrays
    table = np.where(arrays[3] < 100, np.maximum(arrays[3], 0), 200).astype(kind)
    with jax.enable_x64(library == "jax" and kind == "int64"):
        out = paged_attention(*(to(library, x) for x in (*arrays[:3], table, arrays[4].astype(kind))))
    assert_close(back(out), case.expected()[0], limits(case, "float32")[0], "out")


@pytest.mark.thin(2)
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", ["some queries", "heads in groups", "window", "several tiles", "large blocks"])
def test_tokens_before_heads(library, name):
    """Pages (P, S, Hk, D), as vLLM and flash-attn have them: the same to the last bit."""
    case = Paged(**CASES[name])
    query, key_pages, value_pages, *rest = case.arrays
    pages = [np.ascontiguousarray(x.swapaxes(1, 2)) for x in (key_pages, value_pages)]
    arrays = [to(library, x) for x in (query, *pages, *rest)]
    out = paged_attention(*arrays, layout="tokens", **case.options)
    assert_close(back(out), case.expected()[0], limits(case, "float32")[0], "out")


def test_errors_name_the_layout():
    """Where pages of the other layout can be told from ours."""
    query, pages = np.zeros((1, 4, 1, 8), np.float32), np.zeros((6, 16, 2, 8), np.float32)
    table, lengths = np.zeros((1, 2), np.int32), np.array([20], np.int32)
    with pytest.raises(ValueError, match=r"16 heads, .* if yours are \(P, S, Hk, D\), give layout='tokens'"):
        paged_attention(query, pages, pages, table, lengths)
    assert paged_attention(query, pages, pages, table, lengths, layout="tokens").shape == query.shape
    with pytest.raises(ValueError, match=r"lengths\[0\] is 20; .* T · S = 4; .* give layout='tokens'"):
        paged_attention(np.zeros((1, 16, 1, 8), np.float32), pages, pages, table, lengths)
    with pytest.raises(ValueError, match="layout is 'NHD'; it must be one of heads, tokens"):
        paged_attention(query, pages, pages, table, lengths, layout="NHD")
    cache = PagedCache(pages, pages, BlockManager(6, 16))
    cache.manager.add("a")
    cache.manager.append("a", 3)
    refused(ValueError, r"with blocks of 16 tokens .* layout='tokens'", cache.attend, query, ["a"])


def test_pages_that_lie_otherwise():
    """Views of pages, in NumPy and PyTorch."""
    case = Paged([9, 3], 2, size=4)
    query, key_pages, value_pages, *rest = case.arrays
    for convert in (np.asarray, torch.from_numpy):
        views = [convert(np.ascontiguousarray(x.swapaxes(1, 2))).swapaxes(1, 2) for x in (key_pages, value_pages)]
        out = paged_attention(convert(query), *views, *map(convert, rest))
        assert_close(back(out), case.expected()[0], limits(case, "float32")[0], "out")


def test_jax_compiles_once_for_all_tables_and_lengths():
    traces = []

    @jax.jit
    def attend(*arrays):
        traces.append(0)
        return paged_attention(*arrays, return_lse=True)

    for seed, lengths in enumerate([[9, 0, 4], [1, 12, 3]]):
        case = Paged(lengths, 2, size=4, spare=9 - sum(-(-t // 4) for t in lengths), width=3, seed=seed)
        out, lse = attend(*map(jnp.asarray, case.arrays))
        for found, desired, limit in zip((out, lse), case.expected(), limits(case, "float32")):
            assert_close(found, desired, limit, "out or lse")
    assert len(traces) == 1


def test_jax_marks_what_does_not_fit():
    """Traced lengths cannot raise: rows of a sequence longer than its table are NaN, the others right."""
    case = Paged([9, 4], 2, size=4, width=3)
    query, key_pages, value_pages, table, lengths = map(jnp.asarray, case.arrays)
    out, lse = jax.jit(lambda t: paged_attention(query, key_pages, value_pages, table, t, return_lse=True))(
        lengths.at[0].set(13)
    )
    assert np.isnan(out[0]).all()
    assert np.isnan(lse[0]).all()
    assert_close(out[1], case.expected()[0][1], limits(case, "float32")[0][1], "out")


@pytest.mark.full
def test_jax_maps():
    """A batch axis in front, by vmap, of queries and lengths."""
    case = Paged([9, 4], 2, size=4, width=3)
    query, key_pages, value_pages, table, lengths = map(jnp.asarray, case.arrays)
    attend = jax.vmap(lambda q, t: paged_attention(q, key_pages, value_pages, table, t))
    out = attend(jnp.stack([query, query]), jnp.stack([lengths, lengths - 3]))
    np.testing.assert_allclose(out[0], paged_attention(query, key_pages, value_pages, table, lengths), atol=1e-6)
    np.testing.assert_allclose(out[1], paged_attention(query, key_pages, value_pages, table, lengths - 3), atol=1e-6)


def make(library, **changed):
    """The arrays of a right call, some of them replaced."""
    case = Paged([5, 3], 1, size=4, hq=4, hk=2)
    arrays = dict(zip(("query", "key_pages", "value_pages", "block_table", "lengths"), case.arrays))
    arrays |= {name: x for name, x in changed.items() if name in arrays}
    arrays = {name: to(library, x) if isinstance(x, np.ndarray) else x for name, x in arrays.items()}
    return lambda: paged_attention(**arrays, **{name: x for name, x in changed.items() if name not in arrays})


def zeros(*shape, kind="float32"):
    return np.zeros(shape, kind)


@pytest.mark.parametrize("library", LIBRARIES)
def test_errors(library):
    right, wrong = Paged([5, 3], 1, size=4, hq=4, hk=2), []
    table = right.block_table.copy()
    table[1, 0] = 5
    wrong += [({"block_table": table}, r"block_table\[1, 0\] is 5; there are 5 pages, counted from 0")]
    table = right.block_table.copy()
    table[0, 1] = -2
    wrong += [({"block_table": table}, r"block_table\[0, 1\] is -2; there are 5 pages")]
    for lengths, at, came in (([5, 13], 1, 13), ([-1, 3], 0, -1)):
        said = rf"lengths\[{at}\] is {came}; it must be between 0 and T · S = 12"
        wrong += [({"lengths": np.array(lengths, np.int32)}, said)]
    wrong += [
        ({"lengths": zeros(3, kind="int32")}, r"lengths has shape \(3,\); with 2 sequences it must be \(2,\)"),
        ({"block_table": zeros(3, 3, kind="int32")}, r"block_table has shape \(3, 3\); .* it must be \(2, T\)"),
        ({"query": zeros(4, 1, 8)}, r"query has shape \(4, 1, 8\); it must be \(B, Hq, N, D\)"),
        ({"key_pages": zeros(5, 2, 8)}, r"key_pages has shape \(5, 2, 8\); layout='heads' reads \(P, Hk, S, D\)"),
        ({"value_pages": zeros(4, 2, 4, 8)}, "value_pages has 4 pages of 4 tokens and 2 heads, key_pages has 5"),
        ({"key_pages": zeros(5, 2, 4, 7)}, "key_pages has size 7, query has 8"),
        ({"query": zeros(2, 3, 1, 8)}, "key_pages has 2 heads, which does not divide query's 3"),
        ({"scale": float("inf")}, "scale is inf; it must be finite"),
        ({"window": (1, 2, 3)}, "window has 3 sides"),
    ]
    for changed, message in wrong:
        refused(ValueError, message, make(library, **changed))
    wrong = [
        ({"query": [1.0]}, "query is of type list"),
        ({"lengths": [5, 3]}, "lengths is of type list"),
        ({"block_table": zeros(2, 3)}, "block_table has dtype float32; it must be an integer dtype"),
        ({"key_pages": zeros(5, 2, 4, 8, kind="float16")}, "key_pages has dtype float16, query has float32"),
        ({"return_lse": 1}, "return_lse is 1; it must be True or False"),
    ]
    for changed, message in wrong:
        refused(TypeError, message, make(library, **changed))
    other = "torch" if library == "jax" else "jax"
    with pytest.raises(TypeError, match=r"block_table is a .* array; this call takes"):
        make(library, block_table=to(other, right.block_table))()
