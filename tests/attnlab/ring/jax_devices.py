"""What the tests of ring and tree attention in JAX do, in a process of their own with five CPU devices."""

import faulthandler
import re
from functools import partial
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as Spec

import attnlab
from attnlab.kernels import cudnn
from attnlab.ring import positions, ring_attention, shard, tree_attention, unshard
from attnlab.ring.heads import by_heads
from attnlab.tiled.numpy import tiled_attention, tiled_attention_backward

faulthandler.dump_traceback_later(300, exit=True)  # no test waits longer
jax.config.update("jax_num_cpu_devices", 5)
jax.config.update("jax_enable_x64", True)

NAMES = ("out", "lse", "dq", "dk", "dv")
SPLIT = Spec(None, None, "ranks")


def mesh(devices):
    """The first devices, in a row."""
    return Mesh(np.array(jax.devices()[:devices]), ("ranks",))


def whole(length, dtype="float64", d=6, dv=5, heads=(4, 2), batch=2):
    """Query, key, value of a sequence and cotangents of out and lse."""
    draw, (hq, hk) = np.random.default_rng(length), heads
    sizes = (hq, length, d), (hk, length, d), (hk, length, dv), (hq, length, dv), (hq, length)
    return [np.asarray(jnp.asarray(draw.standard_normal((batch, *size)), dtype)) for size in sizes]


def ring(devices, **options):
    """ring_attention on the whole of sharded arrays."""
    program = partial(ring_attention, axis_name="ranks", return_lse=True, **options)
    return jax.shard_map(program, mesh=mesh(devices), in_specs=(SPLIT,) * 3, out_specs=(SPLIT, SPLIT))


def gradient(attend, *arrays):
    """out, lse, dq, dk, dv."""
    *arrays, dout, dlse = arrays
    results, pull = jax.vjp(attend, *arrays)
    return *results, *pull((dout, dlse.astype(results[1].dtype)))


def equal(devices, length, layout, dtype="float64", **options):
    """The largest difference to one device, of every result."""
    jax.config.update("jax_disable_most_optimizations", True)  # these programs run once
    arrays = whole(length, dtype)
    padding = np.ravel(positions(length, devices, layout)) < 0
    parts = []
    for axis, x in zip((-2, -2, -2, -2, -1), arrays):
        parts.append(np.concatenate(shard(x, devices, layout, axis=axis), axis))
        np.moveaxis(parts[-1], axis, -1)[..., padding] = np.nan
    attend = ring(devices, length=length, layout=layout, **options)
    found = jax.jit(partial(gradient, attend))(*map(jnp.asarray, parts))
    q, k, v, dout, dlse = (x.astype(float) for x in arrays)
    out, lse = tiled_attention(q, k, v, return_lse=True, **options)
    right = out, lse, *tiled_attention_backward(q, k, v, out, lse, dout, dlse=dlse, **options)
    differences = {}
    for name, x, y in zip(NAMES, found, right):
        axis = -1 if name == "lse" else -2
        x = unshard(np.split(np.asarray(x).astype(float), devices, axis), length, layout, axis=axis)
        differences[name] = float(abs(x - y).max())
    return differences


def count(text, operation):
    """How often a compiled program names an operation."""
    return len(re.findall(rf" {operation}(?:-start)?\(", text))


def program(devices, slots=512, layout="contiguous"):
    """Of the forward and of the gradient: permutes in the program, and temporary bytes on a device."""
    jax.config.update("jax_disable_most_optimizations", False)
    sizes = [(1, 1, slots * devices, 64)] * 4 + [(1, 1, slots * devices)]
    arrays = [jax.ShapeDtypeStruct(size, jnp.float32) for size in sizes]
    attend = ring(devices, causal=True, layout=layout)
    found = []
    for function, inputs in ((attend, arrays[:3]), (partial(gradient, attend), arrays)):
        compiled = jax.jit(function).lower(*inputs).compile()
        text = compiled.as_text()
        found.append((count(text, "collective-permute"), compiled.memory_analysis().temp_size_in_bytes))
        assert not count(text, "all-gather") + count(text, "all-reduce")
    return found


def tree(devices, form, dtype="float64"):
    """Difference to one device, disagreement between devices, and collectives in the program."""
    jax.config.update("jax_disable_most_optimizations", True)
    q, k, v, *_ = whole(4 * devices, dtype)
    q, mask = q[..., :3, :], np.arange(4 * devices) % 5 > 0
    replicated = Spec() if form == "allreduce" else Spec("ranks")  # equal, but shard_map cannot know

    def decode(q, k, v, mask):
        results = tree_attention(q, k, v, mask=mask, form=form, axis_name="ranks", return_lse=True)
        return results if form == "allreduce" else tuple(x[None] for x in results)

    specs = Spec(), SPLIT, SPLIT, Spec("ranks")
    run = jax.shard_map(decode, mesh=mesh(devices), in_specs=specs, out_specs=(replicated,) * 2)
    compiled = jax.jit(run).lower(q, k, v, mask).compile()
    found = [np.asarray(x).astype(float) for x in compiled(q, k, v, mask)]
    right = attnlab.safe_attention(*(x.astype(float) for x in (q, k, v)), mask=mask, return_lse=True)
    text = compiled.as_text()
    return {
        "difference": max(float(abs(x - y).max()) for x, y in zip(found, right)),
        "disagreement": 0.0 if form == "allreduce" else max(float(np.ptp(x, 0).max()) for x in found),
        "all-reduce": count(text, "all-reduce"), "collective-permute": count(text, "collective-permute"),
    }  # fmt: skip


def cores(half="bfloat16"):
    """On a GPU with cuDNN, traced: inputs of every core with whether cuDNN takes it, and dtypes of what travels."""
    asked = []

    def serves(rules, sizes, x):
        asked.append(([y.dtype.name for y in x[:3]], cudnn_serves(rules, sizes, x)))
        return False  # without a GPU cuDNN can't be traced

    cudnn_serves, q = cudnn.serves, jax.ShapeDtypeStruct((2, 4, 32, 8), half)  # a shape that nothing else has traced
    with mock.patch.object(jax, "default_backend", return_value="gpu"), \
         mock.patch.object(cudnn, "has_fused_attention", return_value=True), \
         mock.patch.object(cudnn, "serves", serves):
        step = partial(gradient, ring(2, layout="striped", causal=True))
        text = str(jax.make_jaxpr(step)(q, q, q, q, jax.ShapeDtypeStruct(q.shape[:-1], "float32")))
        split = jax.shard_map(partial(tree_attention, axis_name="ranks"), mesh=mesh(2), in_specs=(Spec(), SPLIT, SPLIT),
                              out_specs=Spec())  # fmt: skip
        jax.make_jaxpr(split)(q, q, q)
        jax.make_jaxpr(attnlab.tiled_attention)(q, q, q)
    return asked, re.findall(r":(\w+)\[[^]]*\](?:\{[^}]*\})? = ppermute", text)


def algorithm(method):
    """Batch sharded, query replicated: the largest difference to a call that is not sharded, of out and gradients."""
    jax.config.update("jax_disable_most_optimizations", True)
    specs = Spec(), Spec("ranks"), Spec("ranks")
    found = results_of(method, lambda attend: jax.shard_map(attend, mesh=mesh(2), in_specs=specs, out_specs=specs[1]))
    right = results_of("safe", lambda attend: lambda query, key, value: attend(jnp.repeat(query, 2, 0), key, value))
    return max(float(abs(x - y).max()) for x, y in zip(found, right))


def results_of(method, placed):
    """out, dq, dk, dv of one query against a batch of two."""
    query, key, value, *_, shift = map(jnp.asarray, whole(7))
    attend = placed(partial(attnlab.attention, method=method, causal=True, bias=shift[0, :, :, None]))

    def results(*arrays):
        out, pull = jax.vjp(attend, *arrays)
        return out, *pull(jnp.cos(out))

    return jax.jit(results)(query[:1], key, value)


def heads(devices):
    """The largest differences to one device of out, dq, dk, dv, where heads are split meanwhile."""
    *arrays, dout, _ = whole(24, heads=(12, 6))

    def attend(q, k, v):
        return attnlab.tiled_attention(q, k, v, causal=True)

    def exchange(x, cut, join):
        return jax.lax.all_to_all(x, "ranks", x.ndim + cut, x.ndim + join, tiled=True)

    def split(*x):
        return by_heads(attend, *x, exchange)

    sharded = jax.shard_map(split, mesh=mesh(devices), in_specs=(SPLIT,) * 3, out_specs=SPLIT)
    pulled = (jax.vjp(f, *map(jnp.asarray, arrays)) for f in (sharded, attend))
    found, right = ((out, *pull(dout)) for out, pull in pulled)
    return [float(abs(x - y).max()) for x, y in zip(found, right)]


def case(name, **options):
    """One task of the process."""
    tasks = {"equal": equal, "program": program, "tree": tree, "algorithm": algorithm, "heads": heads,
             "cores": cores}  # fmt: skip
    return tasks[name](**options)
