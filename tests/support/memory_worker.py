"""Measures extra memory in a process of its own, without pytest's hooks and with the flags that JAX needs.

Reads a list of tasks as JSON from standard input and writes the list of peaks in bytes. A task names algorithm
and library, the shapes of query, key and value, and where wanted dtype, options, the shapes of mask and bias,
"heads_last" for arrays that lie as (..., length, heads, size), and "gradient" to measure forward and backward.
"""

import importlib
import json
import os
import subprocess
import sys

import numpy as np

from attnlab.measure import HONEST_XLA, extra_bytes, jax_bytes
from tests.support import ROOT


def measure(task):
    """Peak bytes of one task."""
    names, arrays = list(task["arrays"]), [make(task, *x) for x in task["arrays"].values()]
    module = importlib.import_module(f"attnlab.{task['algorithm']}.{task['library']}")
    attention, options = getattr(module, f"{task['algorithm']}_attention"), task["options"]

    def forward(*x):
        return attention(**dict(zip(names, x)), **options, return_lse=True)

    def backward(*x):
        return module.tiled_attention_backward(*x[:6], **dict(zip(names[3:], x[6:])), **options)

    call = forward
    if task.get("gradient"):
        (*rows, _), dtype = task["arrays"]["query"]
        arrays.append(make(task, [*rows, task["arrays"]["value"][0][-1]], dtype))
        call = GRADIENTS[task["library"]](forward, backward)
    if task["library"] == "jax":
        return jax_bytes(call, *arrays)
    call(*arrays)  # a first call also allocates what a library keeps for good
    return extra_bytes(call, *arrays)


def make(task, shape, dtype):
    """An array of ones (of a mask: True); for JAX, which compiles and does not run, its shape and dtype."""
    if task["library"] == "jax":
        return importlib.import_module("jax").ShapeDtypeStruct(tuple(shape), np.dtype(dtype))
    swap = task.get("heads_last") and len(shape) > 3
    x = np.ones(np.swapaxes(np.empty(shape, bool), -2, -3).shape if swap else shape, dtype)
    x = importlib.import_module("torch").from_numpy(x) if task["library"] == "torch" else x
    return x.swapaxes(-2, -3) if swap else x


def numpy_gradient(forward, backward):
    """(out, lse, dq, dk, dv) by the explicit backward of tiled attention."""

    def call(*x):
        *x, dout = x
        out, lse = forward(*x)
        return out, lse, *backward(*x[:3], out, lse, dout, *x[3:])

    return call


def torch_gradient(forward, _):
    """(out, lse, dq, dk, dv) by autograd."""
    import torch

    def call(*x):
        *x, dout = x
        leaves = [t.detach().requires_grad_() for t in x[:3]]
        out, lse = forward(*leaves, *x[3:])
        return out.detach(), lse.detach(), *torch.autograd.grad(out, leaves, dout)

    return call


def jax_gradient(forward, _):
    """(out, lse, dq, dk, dv) by reverse mode."""
    import jax
    import jax.numpy as jnp

    def call(*x):
        *x, dout = x
        (out, lse), pull = jax.vjp(lambda *leaves: forward(*leaves, *x[3:]), *x[:3])
        return out, lse, *pull((dout, jnp.zeros_like(lse)))

    return call


GRADIENTS = {"numpy": numpy_gradient, "torch": torch_gradient, "jax": jax_gradient}


def run(tasks):
    """Peaks of the tasks, measured in a fresh process."""
    environment = {**os.environ, "XLA_FLAGS": HONEST_XLA, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.support.memory_worker"]
    text = json.dumps(tasks)
    done = subprocess.run(command, input=text, env=environment, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    print(json.dumps([measure(task) for task in json.load(sys.stdin)]))
