"""The demo in JAX: one program for all devices, in shard_map."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import attnlab
from attnlab.core.arrays.jax import Array
from attnlab.ring import Schedule, ring_attention
from attnlab_course import model
from attnlab_course.lessons.lesson21.ring_demo import Shards, compared, expected, memory, text

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec


def step(devices: int, length: int, layout: str) -> None:
    """The step on so many CPU devices, and on one of them; print what came of both."""
    for option, value in {"platforms": "cpu", "num_cpu_devices": devices, "enable_x64": True}.items():
        jax.config.update(f"jax_{option}", value)
    lm = model.load(library="jax", dtype="float64")
    mesh, every, split = Mesh(np.array(jax.devices()), ("ranks",)), PartitionSpec(), PartitionSpec("ranks")
    program = partial(gradient, lm.config, length, layout)
    ranks = jax.shard_map(program, mesh=mesh, in_specs=(every, Shards(split, split, split)), out_specs=every)
    found, peak, words = run(ranks, lm.parameters, text(length, devices, layout))
    one = partial(gradient, lm.config, length, None)
    right, alone, _ = run(one, lm.parameters, text(length, 1, "contiguous"))
    print(f"{devices} devices of JAX, {length} tokens, {layout}, float64")
    print(*compared(found, right, [np.asarray(p) for p in lm.parameters.values()]), sep="\n")
    permutes = len(re.findall(r" collective-permute(?:-start)?\(", words))
    carried = expected(Schedule(length, devices, layout), lm.config) // devices
    print(f"{permutes} permutes stand in the compiled program, {permutes // lm.config.layers} for each layer;")
    print(f"    of keys, values and their gradients each link carries {carried:,} bytes by the closed form")
    print(memory([peak] * devices, alone))


def run(function: Callable, parameters: dict[str, Array], x: Shards) -> tuple[list[np.ndarray], int, str]:
    """Loss and gradients in the order of the parameters; temporary bytes on a device; the compiled program."""
    compiled = jax.jit(function).lower(parameters, x).compile()
    loss, gradients = compiled(parameters, x)
    results = [np.asarray(y) for y in (loss, *(gradients[name] for name in parameters))]
    return results, compiled.memory_analysis().temp_size_in_bytes, compiled.as_text()


def gradient(config: model.Config, length: int, layout: str | None, parameters: dict[str, Array], x: Shards) -> Any:
    """The mean loss over ``length`` tokens and its gradient by the parameters; layout None is one device."""
    tokens, targets, at = (y[0] for y in x)

    def attend(layer: int, query: Array, key: Array, value: Array) -> Array:
        query, key = (attnlab.rotary(y, at) for y in (query, key))
        return ring_attention(query, key, value, length=length, causal=True, layout=layout, axis_name="ranks")

    def loss(parameters: dict[str, Array]) -> Array:
        logits = model.Model(config, parameters).logits(tokens, model.dense() if layout is None else attend)
        chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), targets[:, None], 1)[:, 0]
        mine = -jnp.where(at >= 0, chosen, 0).sum() / length
        return mine if layout is None else lax.psum(mine, "ranks")  # so shard_map sums the gradient, too

    return jax.value_and_grad(loss)(parameters)
