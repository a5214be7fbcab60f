"""The Pallas kernel gives the oracle's answers and gradients, in Pallas' interpreter and, if there is one, on a GPU."""

import functools
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import grad, jacrev, jit, vmap

import attnlab
from attnlab.call import Inputs, Rules
from attnlab.geometry import Band
from attnlab.kernels.pallas.gpu import gradient_on_gpu, kernel_on_gpu, refusal
from attnlab.kernels.sizes import tile_size
from attnlab.tiled import jax as plain
from attnlab.tiled import pallas
from tests.algorithms.test_gradients import COMPILED, INFINITE
from tests.support.cases import CASES, Case, keys_hidden, mask, poison, rows_hidden, whole
from tests.support.comparison import assert_agrees, assert_gradients_agree
from tests.support.libraries import dtype, to
from tests.support.pairwise import in_turn

SIZES = {"block_q": 16, "block_k": 16}
KERNEL_CALL = "__gpu$xla.gpu.triton"


def answer(function, case, **sizes):
    """(out, lse) of a case."""
    arrays = case.arrays("jax")
    return jit(functools.partial(function, return_lse=True, **sizes, **case.options))(**arrays)


def answer_and_gradients(function, case, dout, dlse, **sizes):
    """(out, lse) of a case and the gradients by query, key and value, from one compiled program."""

    def both(arrays, rest, dout, dlse):
        attend = functools.partial(function, return_lse=True, **rest, **sizes, **case.options)
        results, pull = jax.vjp(lambda arrays: attend(**arrays), arrays)
        return results, pull((dout, dlse))[0]

    arrays = case.arrays("jax")
    rest = {"mask": arrays.pop("mask")} if "mask" in arrays else {}
    return jit(both)(arrays, rest, to("jax", dout), to("jax", dlse))


def check(case, function=pallas.tiled_attention, **sizes):
    """Answer and gradients of a case are the oracle's."""
    dout, dlse = case.cotangents()
    results, grads = answer_and_gradients(function, case, dout, dlse, **sizes)
    assert_agrees(case, *results)
    assert_gradients_agree(case, grads, dout, dlse)


# The calls that every algorithm must answer; most of them are one tile

SERVED = {name: case for name, case in CASES.items() if "bias" not in case.stored and "float64" not in name}
DIFFERENTIATED = [
    "2-D", "5-D", "2-D, one token", "blocks of any size", "GQA, a mask for each head", "MQA", "causal with N > M",
    "mask ()", "mask (7, 1)", "mask (2, 1, 1, 1)", "rows that see nothing", "NaN in padding, GQA, causal",
    "NaN in a key of one group", "NaN left of the window", "NaN in queries that see nothing", "dropout 1.0",
    "scores in the thousands", "no keys", "no queries",
]  # fmt: skip


@pytest.mark.parametrize("name", [row for row in in_turn(SERVED, 1) if row.values[0] not in DIFFERENTIATED])
def test_agreement(name):
    assert_agrees(SERVED[name], *answer(pallas.tiled_attention, SERVED[name], **SIZES))


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.full if name in COMPILED else ()) for name in DIFFERENTIATED
])  # fmt: skip
def test_agreement_and_gradients(name):
    check(SERVED[name], **SIZES)


def test_most_cases_are_served():
    assert len(SERVED) >= 90
    assert not INFINITE & set(DIFFERENTIATED)


# Several tiles, ragged at both ends


def several_tiles(name, n=37, m=50, hq=4, hk=2, d=12, dv=5, kind="float32", hurt=None, draw=None, mask=None, **options):
    """A case of three tiles of queries by four of keys, in batches of two and groups of two."""
    random = np.random.default_rng(sum(map(ord, name)))
    draw = draw or (lambda random, shape: random.normal(size=shape))
    stored = {"query": draw(random, (2, hq, n, d)), "key": draw(random, (2, hk, m, d))}
    stored["value"] = random.normal(size=(2, hk, m, dv))
    stored = {key: x.astype(dtype(kind)) for key, x in stored.items()}
    if mask is not None:
        stored["mask"] = mask(random)
    if hurt is not None:
        hurt(stored)
    return Case(name, stored, options)


PADDED = lambda random: (np.arange(50) < np.array([50, 20])[:, None])[:, None, None]  # noqa: E731
LARGE = [
    several_tiles("plain"),
    several_tiles("tiles that divide", n=32, m=48, hq=2),
    several_tiles("MQA, one query", n=1, hk=1),
    several_tiles("causal", causal=True),
    several_tiles("causal, N > M", n=50, m=37, causal=True),
    several_tiles("window", window=(9, 4)),
    several_tiles("window left, N > M", n=50, m=20, window=(6, None)),
    several_tiles("mask of every axis", mask=mask(2, 4, 37, 50)),
    several_tiles("mask of heads and keys, causal", mask=mask(4, 1, 50), causal=True),
    several_tiles("padding", mask=PADDED, hurt=poison(key=(1, ..., slice(20, None)), value=(1, ..., slice(20, None)))),
    several_tiles("empty rows", mask=rows_hidden(0, 5, 36, n=37, m=50), hurt=poison(query=(..., [0, 5, 36]))),
    several_tiles("a hidden tile", mask=keys_hidden(16, 32, m=50), hurt=poison(key=(..., slice(16, 32)))),
    several_tiles("NaN left of the window", n=20, m=50, window=(5, 0), hurt=poison(
        key=(..., slice(0, 25)), value=(..., slice(0, 25)))),
    several_tiles("NaN in queries above the diagonal", n=50, m=30, causal=True, hurt=poison(query=(..., slice(0, 20)))),
    several_tiles("dropout", dropout=0.3, seed=2**32 - 1, window=20),
    several_tiles("scores in the thousands", draw=whole(-30, 30), scale=1.0),
    several_tiles("float16", kind="float16", causal=True),
    several_tiles("bfloat16", kind="bfloat16", window=(20, 9), dropout=0.3, seed=8),
]  # fmt: skip


@pytest.mark.parametrize("case", LARGE, ids=lambda case: case.name)
def test_several_tiles(case):
    check(case, **SIZES)


def test_tiles_of_the_default_size():
    check(LARGE[4])


@pytest.mark.parametrize("poisoned", [np.nan, np.inf])
def test_what_comes_back_to_empty_rows_is_ignored(poisoned):
    case = SERVED["rows that see nothing"]
    dout, dlse = case.cotangents()
    empty = np.isneginf(case.expected().lse)
    hurt = [np.where(empty.reshape(empty.shape + (1,) * (x.ndim - empty.ndim)), poisoned, x) for x in (dout, dlse)]
    _, grads = answer_and_gradients(pallas.tiled_attention, case, *(x.astype(np.float32) for x in hurt))
    dout[empty], dlse[empty] = 0, 0
    assert_gradients_agree(case, grads, dout, dlse)


@pytest.mark.parametrize(("name", "i"), [("key", slice(None, 30)), ("value", slice(None, 30))])
def test_a_visible_nan_reaches_the_rows_that_see_it(name, i):
    arrays = {name: jnp.ones((37, 4)) for name in ("query", "key", "value")}
    arrays[name] = arrays[name].at[30, 1].set(jnp.nan)
    out = pallas.tiled_attention(**arrays, causal=True, **SIZES)
    assert np.isnan(out[30:]).any(-1).all()
    assert not np.isnan(out[:16]).any()


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_half_precision_accumulates_in_float32(kind):
    """1024 equal weights of 1 over values of 1: in bfloat16 the sum sticks at 256."""
    query, key, value = (jnp.ones((n, 2), kind) for n in (1, 1024, 1024))
    out, lse = pallas.tiled_attention(query, key, value, scale=0.0, return_lse=True)
    np.testing.assert_array_equal(out.astype(np.float32), 1)
    np.testing.assert_allclose(lse, np.log(1024), rtol=1e-6)


# Head sizes

@pytest.mark.parametrize(("d", "dv"), [(16, 16), (40, 40), (64, 64), (128, 128), (256, 256), (1, 40), (72, 16)])
def test_head_sizes(d, dv):
    check(several_tiles(f"{d} and {dv}", n=20, m=24, hq=2, hk=1, d=d, dv=dv, causal=True), **SIZES)


def test_tile_sizes():
    """Powers of two, at least 16, no longer than needed, that divide the caller's block."""
    assert [tile_size(128, length, None) for length in (1000, 128, 100, 20, 1)] == [128, 128, 128, 32, 16]
    assert [tile_size(64, 1000, block) for block in (16, 48, 64, 96, 512)] == [16, 16, 64, 32, 64]


# Block masks

@pytest.mark.parametrize("options", [{}, {"causal": True}, {"dropout": 0.4, "seed": 3}], ids=str)
@pytest.mark.parametrize("sizes", [(16, 16), (32, 16), (16, 48)])
def test_block_mask(sizes, options):
    """The same as the plain version, whose tiles are as large as the mask's blocks; a hidden tile may hold NaN."""
    sizes = dict(zip(("block_q", "block_k"), sizes))
    random = np.random.default_rng(3)
    table = random.random((-(-37 // sizes["block_q"]), -(-50 // sizes["block_k"]))) < 0.6
    table[:, 0], table[-1] = False, False
    hidden = slice(0, sizes["block_k"])
    case = several_tiles("block mask", hurt=poison(key=(..., hidden), value=(..., hidden)), **options)
    dout, dlse = case.cotangents()
    found, wanted = (
        answer_and_gradients(function, case, dout, dlse, block_mask=table, **sizes)
        for function in (pallas.tiled_attention, plain.tiled_attention)
    )
    assert np.isneginf(found[0][1]).any()
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5), found, wanted)


# Errors

QUERY = jnp.zeros((1, 16, 8))
REFUSED = {
    "bias is given; the kernel takes none": dict(bias=jnp.zeros(16)),
    "query has size 257; the kernel takes 1 to 256": dict(query=jnp.zeros((1, 16, 257)), key=jnp.zeros((1, 16, 257))),
    "value has size 300; the kernel takes 1 to 256": dict(value=jnp.zeros((1, 16, 300))),
    "block_q is 24; the kernel takes multiples of 16": dict(block_q=24),
    "block_k is 8; the kernel takes multiples of 16": dict(block_k=8),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_the_kernel_does_not_serve(message):
    arguments = dict(query=QUERY, key=QUERY, value=QUERY) | REFUSED[message]
    with pytest.raises(NotImplementedError, match=f"^{message}; use attnlab.tiled.jax"):
        pallas.tiled_attention(**arguments)
    assert plain.tiled_attention(**arguments).shape[:-1] == (1, 16)


def test_float64_is_refused():
    with jax.enable_x64(True), pytest.raises(NotImplementedError, match="query has dtype float64; the kernel takes"):
        pallas.tiled_attention(*[jnp.zeros((1, 16, 8), "float64")] * 3)


def test_a_mask_beyond_32_bits_is_refused():
    large = jax.ShapeDtypeStruct((2**16, 2**16), bool)
    assert refusal(Inputs(QUERY, QUERY, QUERY, large), (None, None)).startswith("mask has 4294967296 elements")


def test_checks_are_those_of_every_algorithm():
    with pytest.raises(TypeError, match=r"query is a NumPy array; this call takes JAX arrays only"):
        pallas.tiled_attention(*[np.zeros((4, 4), np.float32)] * 3)
    with pytest.raises(ValueError, match="key has size 3, query has 8"):
        pallas.tiled_attention(QUERY, QUERY[..., :3], QUERY)


def test_to_choose_imports_no_pallas():
    code = (
        "import attnlab.tiled.jax, attnlab.kernels.pallas.gpu, sys; "
        "print([name for name in sys.modules if name.startswith(('jax.experimental.pallas', 'jax._src.pallas'))])"
    )
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(attnlab.__file__))}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# Transformations

def arrays(*batch):
    """query, key, value of two query heads and one key head, with the given batch axes."""
    random = np.random.default_rng(5)
    shapes = (*batch, 2, 18, 4), (*batch, 1, 20, 4), (*batch, 1, 20, 3)
    return [jnp.asarray(random.normal(size=shape), "float32") for shape in shapes]


def loss_at(offset, *x, function=pallas.tiled_attention, **options):
    """As ``loss``, of queries from a position on."""
    options = dict(causal=True, window=(9, None), offset=offset, return_lse=True) | options
    out, lse = function(*x, **options)
    return (out**2).sum() + jnp.where(jnp.isfinite(lse), lse, 0).sum()


def loss(*x, **options):
    """A number that out and lse enter."""
    out, lse = pallas.tiled_attention(*x, **SIZES, return_lse=True, **options)
    return (out * jnp.linspace(-1, 1, out.size).reshape(out.shape)).sum() + (lse**2).sum()


def assert_same(one, other):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_vmap_of_grad_with_dropout():
    """Every example has the mask of the single call, forward and backward."""
    x = arrays(2)
    both = jax.value_and_grad(functools.partial(loss, dropout=0.5, seed=9, causal=True), argnums=(0, 1, 2))
    single = jit(both)
    expected = jax.tree.map(lambda *x: jnp.stack(x), *[single(*one) for one in zip(*x)])
    assert_same(jit(vmap(both))(*x), expected)


def test_vmap_over_some_of_the_arrays():
    """Masks and, in their last axis, queries by batches; one key and value for all. Two axes, one in the other."""
    queries, (_, key, value) = arrays(3)[0], arrays()
    shown = jnp.arange(20) < jnp.array([20, 7, 0])[:, None]

    def single(query, mask):
        return pallas.tiled_attention(query, key, value, mask=mask, return_lse=True, **SIZES)

    expected = [jit(single)(*one) for one in zip(queries, shown)]
    expected = jax.tree.map(lambda *x: jnp.stack(x), *expected)
    assert_same(jit(vmap(single, in_axes=(-1, 0)))(jnp.moveaxis(queries, 0, -1), shown), expected)
    nested = jit(vmap(vmap(single), in_axes=(None, 0)))(queries, jnp.stack([shown, shown]))
    assert_same(jax.tree.map(lambda x: x[1], nested), expected)


def test_grad_of_vmap_with_shared_keys():
    """The gradient of what all examples share is the sum over the examples."""
    queries, (_, key, value) = arrays(2)[0], arrays()
    total = grad(lambda key: vmap(lambda query: loss(query, key, value))(queries).sum())
    assert_same(jit(total)(key), sum(jit(grad(loss, argnums=1))(query, key, value) for query in queries))


def test_jacrev():
    x = [part[..., :2, :] for part in arrays()]
    found = jit(jacrev(functools.partial(pallas.tiled_attention, causal=True), argnums=(0, 1, 2)))(*x)
    assert_same(found, jit(jacrev(functools.partial(plain.tiled_attention, causal=True), argnums=(0, 1, 2)))(*x))


def test_one_program_serves_every_seed():
    x = arrays()
    f = jit(lambda seed: pallas.tiled_attention(*x, dropout=0.5, seed=seed))
    for seed in (0, 2**32 - 1):
        assert_same(f(jnp.uint32(seed)), plain.tiled_attention(*x, dropout=0.5, seed=seed))
    assert f._cache_size() == 1


@pytest.mark.parametrize("options", [{}, dict(block_mask=np.tri(2, dtype=bool), **SIZES)], ids=str)
def test_one_program_serves_every_offset(options):
    """An offset is data, in the loops' bounds and beside a block mask."""
    x = arrays()
    f = jit(jax.value_and_grad(lambda offset, *x: loss_at(offset, *x, **options), argnums=(1, 2, 3)))
    for offset in (-3, 0, 2, 40):
        assert_same(f(jnp.int32(offset), *x), jax.value_and_grad(
            lambda *x: loss_at(offset, *x, function=plain.tiled_attention, **options), argnums=(0, 1, 2))(*x))  # noqa: B023
    assert f._cache_size() == 1


def test_forward_mode_and_second_derivatives_are_refused():
    x = arrays()
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(pallas.tiled_attention, x, x)
    with pytest.raises(NotImplementedError, match="not twice differentiable; use safe_attention"):
        grad(lambda query: grad(loss)(query, *x[1:]).sum())(x[0])


# The compiler for GPUs takes the kernels: it refuses much that the interpreter lets pass

LOWERED = [(kind, d, {}) for kind in ("float16", "bfloat16", "float32") for d in (64, 128)]
LOWERED += [("float16", d, {}) for d in (16, 40, 256)]
LOWERED += [("bfloat16", 64, options) for options in (
    dict(causal=True), dict(window=(50, 9)), dict(dropout=0.1, seed=1), dict(mask=(2, 4, 130, 200)),
    dict(mask=(2, 1, 1, 200)), dict(mask=(130, 1)), dict(block_mask=np.eye(5, 4, dtype=bool), block_q=32, block_k=64),
)]  # fmt: skip


def lowered(function, kind, d, options):
    """The program that a GPU would get for a call and its gradient."""
    shapes = (2, 4, 130, d), (2, 2, 200, d), (2, 2, 200, d)
    options = dict(options)
    if "mask" in options:
        options["mask"] = jnp.ones(options["mask"], bool)

    def number(*x):
        out, lse = function(*x, return_lse=True, **options)
        return out.astype(jnp.float32).sum() + lse.sum()

    x = [jax.ShapeDtypeStruct(shape, kind) for shape in shapes]
    return jit(jax.value_and_grad(number, argnums=(0, 1, 2))).trace(*x).lower(lowering_platforms=("cuda",)).as_text()


@pytest.mark.parametrize(("kind", "d", "options"), LOWERED)
def test_the_kernels_lower_for_a_gpu(kind, d, options):
    text = lowered(pallas.tiled_attention, kind, d, options)
    assert text.count(KERNEL_CALL) == 3  # forward; dq; dk and dv
    assert "stablehlo.exponential" not in text


@pytest.mark.parametrize("machine", ["cpu", "gpu"])
def test_the_loops_stay_where_the_array_is_on_a_cpu(monkeypatch, machine):
    """Each device gets one version; a machine without a GPU never traces the kernel."""
    query, key, value = arrays()
    x, static = Inputs(query[None], key, value), (Rules(0.5, Band(18, 20, right=0), 0.0, (1, 2)), (None, None))
    out, lse = jnp.ones((1, 2, 18, 3)), jnp.ones((1, 2, 18))
    monkeypatch.setattr(jax, "default_backend", lambda: machine)
    forward = kernel_on_gpu(lambda *call: (out, lse))
    pull = gradient_on_gpu(lambda rules, sizes, kept, grads: kept[:1])

    def call(x):
        found = forward(*static, x)
        return found, pull(*static, (x, *found, None), found)

    traced = jit(call).trace(x)
    assert_same(jit(call)(x), ((out, lse), (x,)))
    assert KERNEL_CALL not in traced.lower(lowering_platforms=("cpu",)).as_text()
    found = traced.lower(lowering_platforms=("cuda",)).as_text().count(KERNEL_CALL)
    assert found == (3 if machine == "gpu" else 0)


class TestOnAGPU:
    """The same comparisons through the public function, which chooses the kernel."""

    @pytest.fixture(autouse=True)
    def _gpu(self):
        if jax.default_backend() != "gpu":
            pytest.skip("needs a GPU")

    @pytest.mark.parametrize("case", LARGE, ids=lambda case: case.name)
    def test_agreement_and_gradients(self, case):
        check(case, attnlab.tiled_attention)

    @pytest.mark.parametrize(("kind", "d", "options"), LOWERED)
    def test_the_kernel_is_chosen(self, kind, d, options):
        assert lowered(attnlab.tiled_attention, kind, d, options).count(KERNEL_CALL) == 3
