"""JAX where it is told to be strict: no implicit promotion of ranks or dtypes, and no NaN."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec

import attnlab
from attnlab import naive_softmax, online_softmax, safe_softmax
from attnlab.adapters.flax import dot_product_attention
from attnlab.cache import KVCache, RollingCache, dequantize, quantize
from attnlab.linear import FORMS, Hedgehog, delta_attention, hedgehog_loss, linear_attention
from attnlab.paged import PagedCache, page_bounds
from attnlab.ring import ring_attention, tree_attention

MASK = jnp.array([True, False, True, True, True, False])
HIDDEN = {"mask": MASK, "bias": jnp.where(jnp.eye(6) > 0, -jnp.inf, 1), "segments": jnp.arange(6) // 3}
OPTIONS = {"causal": True, "window": 2, "dropout": 0.5, "seed": 3, **HIDDEN}
CALLS = {name: functools.partial(f, **OPTIONS, return_lse=True) for name, f in attnlab.METHODS.items()}
CALLS |= {f"{name}, plain": f for name, f in attnlab.METHODS.items()}
CALLS |= {f.__name__: lambda q, k, v, f=f: f(q) for f in (naive_softmax, safe_softmax, online_softmax)}
TURNS = {"one": {"positions": 3}, "own": {"interleaved": True, "size": 2}}
TURNS["batch"] = {"positions": jnp.ones((2, 1, 6), int)}
CALLS |= {f"rotary {name}": lambda q, k, v, how=how: attnlab.rotary(q, **how) for name, how in TURNS.items()}
for form in FORMS:
    how = {"form": form, "chunk_size": 4, "mask": MASK, "return_state": True}
    for features in ("elu", "taylor", (jnp.exp, jax.nn.relu)):
        CALLS[f"linear {form} {features}"] = functools.partial(linear_attention, features=features, causal=True, **how)
    CALLS[f"hedgehog {form}"] = lambda q, k, v, how=how: linear_attention(q, k, v, features=learned(q), **how)
    CALLS[f"delta {form}"] = lambda q, k, v, how=how: delta_attention(q, k, v, beta=k[..., 0], **how)


def learned(q):
    return Hedgehog(jnp.ones((4, 4, 2), q.dtype), jnp.ones((2, 4, 2), q.dtype))


def called(function):
    CALLS[function.__name__] = function
    return function


@called
def merge(q, k, v):
    return attnlab.merge((q, q[..., 0]), (q, jnp.full(q.shape[:-1], -jnp.inf)))


@called
def few_bits(q, k, v):
    return [dequantize(quantize(k, bits, axis=axis, group=2), k.dtype) for bits in (2, 4, 8) for axis in (-1, -2)]


@called
def cache(q, k, v):
    out, kept = KVCache.empty(k, v, capacity=12).attend(q, k, v, mask=jnp.ones(12, bool))
    out, kept = kept.attend(q, k, v, lengths=[3, 6])
    return out, kept.positions, kept.select([1]).truncate(2), KVCache.empty(k, 2, capacity=6).attend(q, k, None)


@called
def rolling_cache(q, k, v):
    empty = functools.partial(RollingCache.empty, k, v, window=3, sinks=1, rotary=1e4)
    caches = [empty(sink_positions=where).attend(q, k, v) for where in ("text", "cache")]
    return caches, caches[0][1].positions


@called
def pages(q, k, v):
    kept = PagedCache.empty(k, v, blocks=2, block_size=4)
    kept.manager.add("a")
    step = kept.manager.append("a", 6)
    kept = kept.copy([(0, 1)]).write(step.slots, k[0], v[0])
    return [kept.attend(q[:1, :, :n], ["a"], window=(2, 0)) for n in (1, 6)], page_bounds(kept.key_pages, [4, 2])


@called
def loss_of_hedgehog(q, k, v):
    return hedgehog_loss(q, k, learned(q), causal=True)


@called
def flax_adapter(q, k, v):
    swapped = (x.swapaxes(1, 2) for x in (q, k, v))
    return dot_product_attention(*swapped, mask=MASK, is_causal=True, dropout_rng=jax.random.key(0), dropout_rate=0.5)


@called
def devices(q, k, v):
    mesh, shards = jax.make_mesh((1,), ("x",), axis_types=(AxisType.Auto,)), PartitionSpec(None, None, "x")
    calls = (ring_attention, functools.partial(ring_attention, causal=True), tree_attention)
    return [jax.shard_map(functools.partial(f, axis_name="x"), mesh=mesh, in_specs=shards, out_specs=shards)(q, k, v)
            for f in calls]  # fmt: skip


def arrays(kind):
    random = np.random.default_rng(0)
    return [jnp.asarray(random.normal(size=(2, heads, 6, 4)), kind) for heads in (4, 2, 2)]


def gradient(call, x):
    """The call, and what it gives back."""
    out, pull = jax.vjp(call, *x)
    return pull(jax.tree.map(lambda y: jnp.zeros_like(y) if jnp.issubdtype(y.dtype, jnp.floating) else
                np.zeros(y.shape, jax.dtypes.float0), out))  # fmt: skip


@pytest.mark.thin(6)
@pytest.mark.parametrize(
    ("name", "kind"), [*((name, "bfloat16") for name in CALLS), *((name, "float64") for name in attnlab.METHODS)]
)
def test_no_rank_and_no_dtype_is_promoted(name, kind):
    """Found while it is traced, the gradient too; nothing is compiled but what looks at numbers."""
    with jax.enable_x64(kind == "float64"), jax.numpy_rank_promotion("raise"), jax.numpy_dtype_promotion("strict"):
        x, call = arrays(kind), CALLS[name]
        call(*x) if name == "pages" else jax.eval_shape(functools.partial(gradient, call), x)


@pytest.mark.parametrize("name", ["tiled", "merge", "pages"])
def test_no_nan(name):
    """What sees nothing is among the results, and pages that nobody has written."""
    with jax.debug_nans(True):
        CALLS[name](*arrays("float32"))
