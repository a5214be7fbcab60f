"""What the tests on meshes do, in a process of their own with four CPU devices."""

import faulthandler
import re
from contextlib import nullcontext
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as Spec

import attnlab

faulthandler.dump_traceback_later(300, exit=True)  # no test waits longer
jax.config.update("jax_num_cpu_devices", 4)
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_disable_most_optimizations", True)  # these programs run once

SIZES = {"chunked": {"query_chunk_size": 4, "key_chunk_size": 4}, "tiled": {"block_q": 4, "block_k": 4}}
BOTH = Spec("batch", "heads")
SPECS = {"query": BOTH, "key": BOTH, "value": BOTH, "bias": Spec("heads"), "mask": Spec("batch")}


def inputs():
    """Arrays of two examples and four heads on two; keys 4 to 7, a tile, are hidden."""
    draw = np.random.default_rng(0).standard_normal
    shapes = (2, 4, 7, 6), (2, 2, 9, 6), (2, 2, 9, 5), (4, 7, 1)
    mask = np.arange(9) % np.array([[9], [5]])[:, :, None, None] < 4
    return *(jnp.asarray(draw(shape)) for shape in shapes), jnp.asarray(mask)


def results(attend, *arrays):
    """out, lse and the gradients of query, key, value and bias."""
    *arrays, mask = arrays
    found, pull = jax.vjp(lambda *x: attend(*x, mask), *arrays)
    return *found, *pull(tuple(jnp.cos(x) for x in found))


def case(method, kind):
    """The largest difference to one device, and the collectives of the program: forward and gradient."""
    def attend(query, key, value, bias, mask, method=method):
        options = dict(mask=mask, bias=bias, causal=True, return_lse=True)
        return attnlab.attention(query, key, value, method=method, **options, **SIZES.get(method, {}))

    types = AxisType.Auto if kind == "Auto" else AxisType.Explicit
    mesh = jax.make_mesh((2, 2), ("batch", "heads"), axis_types=(types,) * 2)
    right = jax.jit(partial(results, partial(attend, method="safe")))(*inputs())
    if kind == "shard_map":
        attend = jax.shard_map(attend, mesh=mesh, in_specs=tuple(SPECS.values()), out_specs=(BOTH, BOTH))
    placed = [jax.device_put(x, NamedSharding(mesh, spec)) for x, spec in zip(inputs(), SPECS.values())]
    with jax.set_mesh(mesh) if kind == "Explicit" else nullcontext():  # JAX 0.12 needs it for gradients
        program = jax.jit(partial(results, attend)).lower(*placed).compile()
    found = program(*placed)
    return {
        "difference": max(float(abs(np.asarray(x) - np.asarray(y)).max()) for x, y in zip(found, right)),
        "gathers": len(re.findall(r" all-(?:gather|to-all)(?:-start)?\(", program.as_text())),
        "sharded": all(tuple(x.sharding.spec)[:2] == ("batch", "heads") for x in found[:5]),
    }
