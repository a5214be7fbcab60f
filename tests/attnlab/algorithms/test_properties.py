"""Laws that hold for every input: tilings, permutations and shifts of the keys, and what is refused."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.libraries import ALGORITHMS, SAFE, back, call, dtype, function, gradients, to

TOLERANCE = dict(rtol=1e-9, atol=1e-11)
LENGTH, SEED = st.integers(0, 20), st.integers(0, 2**32 - 1)
SIZE = st.one_of(st.none(), st.integers(1, 25))
SIDE = st.one_of(st.none(), st.integers(-1, 12))
OPTIONS = st.fixed_dictionaries({
    "causal": st.booleans(),
    "window": st.one_of(st.none(), st.integers(-1, 6), st.tuples(SIDE, SIDE)),
    "dropout": st.sampled_from([0.0, 0.0, 0.3]),
    "seed": SEED,
})  # fmt: skip


def arrays(seed, n, m, *, mask=True, bias=True):
    """query, key, value of 4 heads on 2, a mask that hides some, a bias that hides some."""
    random = np.random.default_rng(seed)
    x = {"query": random.normal(size=(4, n, 3)), "key": random.normal(size=(2, m, 3))}
    x["value"] = random.normal(size=(2, m, 2))
    if mask:
        x["mask"] = random.random((4, n, m)) < 0.8
    if bias:
        x["bias"] = np.where(random.random((1, 1, m)) < 0.1, -np.inf, random.normal(size=(1, 1, m)))
    return x


def result(library, algorithm, x, **options):
    """(out, lse) as NumPy arrays."""
    return [back(t) for t in call(library, algorithm, **{name: to(library, t) for name, t in x.items()}, **options)]


def assert_same(one, other):
    """Equal up to rounding, array by array; −∞ in the same places."""
    assert len(one) == len(other)
    for a, b in zip(one, other):
        np.testing.assert_allclose(a, b, **TOLERANCE)


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("algorithm", ["chunked", "tiled"])
@given(seed=SEED, n=LENGTH, m=LENGTH, sizes=st.tuples(SIZE, SIZE), options=OPTIONS)
@example(seed=1, n=7, m=5, sizes=(1, 1), options={"causal": True, "window": (3, None)})
def test_any_tiling_gives_the_same_answer(algorithm, library, seed, n, m, sizes, options):
    x = arrays(seed, n, m)
    assert_same(result(library, algorithm, x, sizes=sizes, **options), result("numpy", "safe", x, **options))


@pytest.mark.parametrize(("library", "algorithm"), [("numpy", "tiled"), ("torch", "chunked"), ("torch", "tiled")])
@given(seed=SEED, n=LENGTH, m=LENGTH, sizes=st.tuples(SIZE, SIZE), options=OPTIONS)
def test_any_tiling_gives_the_same_gradient(library, algorithm, seed, n, m, sizes, options):
    x, random = arrays(seed, n, m), np.random.default_rng(seed)
    dout, dlse = random.normal(size=(4, n, 2)), random.normal(size=(4, n))

    def grads(library, algorithm, sizes):
        given = {name: to(library, t) for name, t in x.items()}
        found = gradients(library, algorithm, given, to(library, dout), to(library, dlse), sizes=sizes, **options)
        return [back(found[name]) for name in ("query", "key", "value")]

    assert_same(grads(library, algorithm, sizes), grads("torch", "safe", (None, None)))


@pytest.mark.thin(2)
@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(seed=SEED, n=LENGTH, m=LENGTH)
def test_the_order_of_the_keys_does_not_matter(algorithm, library, seed, n, m):
    x = arrays(seed, n, m)
    order = np.random.default_rng(seed).permutation(m)
    moved = {"query": x["query"], "key": x["key"][:, order], "value": x["value"][:, order]}
    moved |= {name: x[name][..., order] for name in ("mask", "bias")}
    assert_same(result(library, algorithm, moved), result(library, algorithm, x))


@pytest.mark.thin(2)
@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(seed=SEED, n=LENGTH, m=LENGTH, shift=st.floats(-50, 50))
def test_a_shift_of_the_scores_moves_lse_alone(algorithm, library, seed, n, m, shift):
    x = arrays(seed, n, m)
    out, lse = result(library, algorithm, x)
    assert_same(result(library, algorithm, x | {"bias": x["bias"] + shift}), (out, lse + shift))


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("algorithm", SAFE)
@given(seed=SEED, n=LENGTH, m=LENGTH, shift=st.floats(-1e5, 1e5))
def test_a_large_shift_harms_no_safe_algorithm(algorithm, library, seed, n, m, shift):
    x = arrays(seed, n, m)
    out, lse = result(library, algorithm, x)
    moved, moved_lse = result(library, algorithm, x | {"bias": x["bias"] + shift})
    np.testing.assert_allclose(moved, out, atol=1e-8)
    np.testing.assert_allclose(moved_lse, lse + shift, atol=1e-8)


@pytest.mark.thin(2)
@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(seed=SEED, n=LENGTH, m=LENGTH, causal=st.booleans())
def test_what_nobody_sees_may_be_anything(algorithm, library, seed, n, m, causal):
    """NaN in the keys and values that no query sees, and in the queries that see nothing, changes nothing."""
    x = arrays(seed, n, m, bias=False)
    x["mask"] = x["mask"][:, :1] & (np.random.default_rng(seed).random((4, n, 1)) < 0.7)
    band = np.tri(n, m, m - n, bool) if causal else np.ones((n, m), bool)
    seen = x["mask"] & band
    expected = result(library, algorithm, x, causal=causal)
    hidden = ~seen.reshape(2, 2, n, m).any((1, 2))
    for name, where in (("key", hidden), ("value", hidden), ("query", ~seen.any(-1))):
        x[name] = np.where(where[..., None], np.nan, x[name])
    assert_same(result(library, algorithm, x, causal=causal), expected)


# Bad input

SHAPE = st.lists(st.sampled_from([0, 1, 2, 3, 4]), max_size=5).map(tuple)
KIND = st.sampled_from(["float16", "bfloat16", "float32", "float64", "int32", "bool", "complex64"])
OWNER = st.sampled_from(["own"] * 4 + ["other", "list"])
JUNK = st.sampled_from([None, True, False, 0, 1, -1, -2, 2.5, float("nan"), float("inf"), "x", (1, 2), (1,), [], 2**32])
ARGUMENTS = ("query", "key", "value", "mask", "bias", "causal", "window", "scale", "dropout", "seed", "return_lse",
             "block_q", "block_k")  # fmt: skip


@st.composite
def calls(draw):
    """A right call in which up to three arguments are replaced: arrays by any array, options by anything."""
    batch, group = draw(st.sampled_from([(), (2,), (2, 3)])), draw(st.integers(1, 2))
    heads = (*batch, 2) if batch or draw(st.booleans()) else ()
    n, m, kind = draw(st.integers(0, 3)), draw(st.integers(0, 3)), draw(st.sampled_from(["float32", "float64"]))
    rows = (*heads[:-1], 2 * group) if heads else ()
    shapes = {"query": (*rows, n, 3), "key": (*heads, m, 3), "value": (*heads, m, 2)}
    call = {name: (shape, kind, "own") for name, shape in shapes.items()}
    if draw(st.booleans()):
        call["mask"] = draw(st.sampled_from([(n, m), (m,), (n, 1), (1, 1), (*rows, n, m), (m, n)])), "bool", "own"
    if draw(st.booleans()):
        call["bias"] = draw(st.sampled_from([(n, m), (m,), (*rows, 1, m), (m, n)])), kind, "own"
    for name in draw(st.lists(st.sampled_from(ARGUMENTS), max_size=3)):
        arrays = name in ARGUMENTS[:5]
        call[name] = draw(st.tuples(SHAPE, KIND, OWNER)) if arrays else draw(JUNK)
    return call


def is_number(x):
    """A real number that is no boolean."""
    return isinstance(x, int | float) and not isinstance(x, bool)


def is_whole(x, low, high=float("inf")):
    """An integer of a range."""
    return is_number(x) and isinstance(x, int) and low <= x <= high


def arrays_are_right(query, key, value, mask=None, bias=None, **_):
    """The contract's rules for the arrays, each given as (shape, dtype, whose array it is)."""
    (q, kind, _), (k, _, _), (v, _, _) = query, key, value
    if any(x is not None and x[2] != "own" for x in (query, key, value, mask, bias)):
        return False
    floats = ("float16", "bfloat16", "float32", "float64")
    if kind not in floats or {x[1] for x in (query, key, value)} != {kind}:
        return False
    if min(len(q), len(k), len(v)) < 2 or len({len(q), len(k), len(v)}) > 1 or len({q[:-3], k[:-3], v[:-3]}) > 1:
        return False
    if k[-1] != q[-1] or k[:-1] != v[:-1]:
        return False
    if len(q) > 2 and q[-3] > 0 and (k[-3] == 0 or q[-3] % k[-3]):
        return False
    return fits(mask, ("bool",), (*q[:-1], k[-2])) and fits(bias, floats, (*q[:-1], k[-2]))


def fits(x, kinds, target):
    """A mask or bias broadcasts to the scores and does not enlarge them."""
    if x is None:
        return True
    shape, kind, _ = x
    pairs = zip(shape[::-1], target[::-1])
    return kind in kinds and len(shape) <= len(target) and all(a in (1, b) for a, b in pairs)


def options_are_right(causal=False, return_lse=False, window=None, scale=None, dropout=0.0, seed=None, **blocks):
    """The contract's rules for the options."""
    sides = (window, window) if is_number(window) else window
    return (
        isinstance(causal, bool)
        and isinstance(return_lse, bool)
        and (window is None or (isinstance(sides, tuple | list) and len(sides) == 2))
        and all(side is None or is_whole(side, -1) for side in sides or ())
        and (scale is None or (is_number(scale) and np.isfinite(scale)))
        and is_number(dropout)
        and 0 <= dropout <= 1
        and (is_whole(seed, 0, 2**32 - 1) or (seed is None and dropout == 0))
        and all(x is None or is_whole(x, 1) for name, x in blocks.items() if name.startswith("block"))
    )


def build(library, shape, kind, owner):
    """An array of zeros of the library, of another library, or a list."""
    x = np.zeros(shape, dtype(kind))
    other = {"numpy": "torch", "torch": "numpy"}[library]
    return x.tolist() if owner == "list" else to(library if owner == "own" else other, x)


@pytest.mark.parametrize("library", ["numpy", "torch"])
@settings(max_examples=400)
@given(call=calls())
def test_a_call_is_right_or_refused_by_name(library, call):
    """Whatever is wrong raises TypeError or ValueError that names an argument; whatever is right is computed."""
    right = arrays_are_right(**call) and options_are_right(**{k: x for k, x in call.items() if k not in ARGUMENTS[:5]})
    values = {name: build(library, *x) if name in ARGUMENTS[:5] else x for name, x in call.items()}
    if right:
        out = function("tiled")(**values)
        out = out[0] if values.get("return_lse") else out
        assert tuple(out.shape) == (*call["query"][0][:-1], call["value"][0][-1])
    else:
        with pytest.raises((TypeError, ValueError), match=rf"\b({'|'.join(ARGUMENTS)})\b") as error:
            function("tiled")(**values)
        assert error.type in (TypeError, ValueError)  # not the shape checker's
