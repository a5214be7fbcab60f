"""NumPy arrays to each library and back, and one way to call any algorithm of any library."""

import contextlib
import functools
import itertools

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import torch

import attnlab
from attnlab.core import arguments

LIBRARIES = tuple(arguments.LIBRARIES)
ALGORITHMS = tuple(attnlab.METHODS)
SAFE = ("safe", "online", "chunked", "tiled")  # any finite scores are served
BLOCKS = {name: tuple(x for x in public.defaults if x in ("block_q", "block_k") or "chunk" in x)
          for name, public in attnlab.METHODS.items()}  # fmt: skip
EVERYWHERE = pytest.mark.parametrize(("library", "algorithm"), list(itertools.product(LIBRARIES, ALGORITHMS)))
ARRAYS = ("mask", "bias", "query_segments", "key_segments")
EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}

# How an array lies in memory: what is stored, and the view of it that is handed over.
STORE = {
    "contiguous": lambda x: x,
    "transposed": lambda x: np.ascontiguousarray(x.swapaxes(-1, -2)),
    "strided": lambda x: np.repeat(x, 2, axis=-2),
    "reversed": lambda x: np.ascontiguousarray(x[..., ::-1, :]),
    "expanded": lambda x: x[:1].copy(),
    "read-only": lambda x: x,
}


def dtype(name):
    """NumPy's dtype of that name, bfloat16 included."""
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def accumulation(kind):
    """The dtype of scores, sums and lse for inputs of that dtype."""
    return "float64" if kind == "float64" else "float32"


def expand(x, batch):
    """x with its first axis repeated without a copy."""
    shape = (batch, *x.shape[1:])
    if isinstance(x, torch.Tensor):
        return x.expand(shape)
    return jnp.broadcast_to(x, shape) if isinstance(x, jax.Array) else np.broadcast_to(x, shape)


def view(x, layout, batch=3):
    """The view of a stored array that a call receives."""
    if layout == "transposed":
        return x.swapaxes(-1, -2)
    if layout == "strided":
        return x[..., ::2, :]
    if layout == "reversed":
        return x.flip(-2) if isinstance(x, torch.Tensor) else x[..., ::-1, :]
    if layout == "expanded":
        return expand(x, batch)
    if layout == "read-only" and isinstance(x, np.ndarray):
        x = x.copy()
        x.flags.writeable = False
    return x


def to(library, x):
    """A NumPy array as an array of the library, a copy."""
    if library == "jax":
        return jax.device_put(x.copy())  # jnp.asarray would compile a program for each shape and dtype
    if library == "torch" and x.dtype == dtype("bfloat16"):
        return torch.from_numpy(x.copy().view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(x.copy()) if library == "torch" else x.copy()


def back(x):
    """An array of any library as NumPy; half precision widens to float32, which changes no value."""
    if isinstance(x, torch.Tensor):
        x = x.detach()
        return (x.float() if x.dtype in (torch.float16, torch.bfloat16) else x).numpy()
    x = np.asarray(x)
    return x.astype(np.float32) if x.dtype.name in ("float16", "bfloat16") else x


def dtype_of(x):
    """Name of the dtype of an array of any library."""
    return str(x.dtype).removeprefix("torch.")


def precision(library, *arrays):
    """A context in which JAX keeps float64 if any array needs it."""
    double = library == "jax" and any(x is not None and x.dtype.name == "float64" for x in arrays)
    return jax.enable_x64(True) if double else contextlib.nullcontext()


def blocks_of(algorithm, sizes):
    """Block sizes under the names that the algorithm gives them."""
    return dict(zip(BLOCKS[algorithm], sizes))


def function(algorithm):
    """The public function that dispatches on the library of query."""
    return getattr(attnlab, f"{algorithm}_attention")


def arguments_of(arrays):
    """Arrays under the names that the functions give them: both segments are one argument."""
    rest = {name: x for name, x in arrays.items() if not name.endswith("_segments")}
    pair = tuple(arrays[name] for name in ("query_segments", "key_segments") if name in arrays)
    return rest | ({"segments": pair} if pair else {})


def call(library, algorithm, query, key, value, *, sizes=(3, 4), **options):
    """(out, lse) of library arrays; JAX compiles the call, options that are no arrays being static."""
    arrays = {name: options.pop(name) for name in ARRAYS if options.get(name) is not None}
    if isinstance(options.get("seed"), jax.Array):
        arrays["seed"] = options.pop("seed")
    static = {"return_lse": True, **options, **blocks_of(algorithm, sizes)}
    if library == "jax":
        return compiled(algorithm, tuple(static.items()))(query, key, value, **arguments_of(arrays))
    return function(algorithm)(query, key, value, **static, **arguments_of(arrays))


@functools.cache
def compiled(algorithm, static):
    """One compiled function for all calls that differ in their arrays alone."""
    return jax.jit(functools.partial(function(algorithm), **dict(static)))


def gradients(library, algorithm, arrays, dout, dlse, *, sizes=(3, 4), **options):
    """Gradients of Σ out·dout + Σ lse·dlse by query, key, value and, where given, bias."""
    if library == "numpy":
        return numpy_gradients(arrays, dout, dlse, dict(zip(("block_q", "block_k"), sizes)) | options)
    static = {"return_lse": True, **options, **blocks_of(algorithm, sizes)}
    if library == "jax":
        return compiled_gradient(algorithm, tuple(static.items()))(arrays, dout, dlse)
    leaves = {name: x.detach().requires_grad_(x.is_floating_point()) for name, x in arrays.items()}
    results = function(algorithm)(**arguments_of(leaves), **static)
    wanted = {name: x for name, x in leaves.items() if x.requires_grad}
    return dict(zip(wanted, torch.autograd.grad(results, list(wanted.values()), (dout, dlse))))


def numpy_gradients(arrays, dout, dlse, options):
    """Forward, then the explicit backward of tiled attention."""
    out, lse = function("tiled")(**arguments_of(arrays), **options, return_lse=True)
    query, key, value = (arrays[name] for name in ("query", "key", "value"))
    options = options | arguments_of({name: arrays[name] for name in ARRAYS if name in arrays})
    grads = attnlab.tiled_attention_backward(query, key, value, out, lse, dout, dlse=dlse, **options)
    return dict(zip(("query", "key", "value", "bias"), grads))


@functools.cache
def compiled_gradient(algorithm, static):
    """One compiled gradient for all calls that differ in their arrays alone."""

    def pull(arrays, dout, dlse):
        floats = {name: x for name, x in arrays.items() if jnp.issubdtype(x.dtype, jnp.floating)}
        rest = {name: x for name, x in arrays.items() if name not in floats}
        f = lambda floats: function(algorithm)(**arguments_of(floats | rest), **dict(static))  # noqa: E731
        return jax.vjp(f, floats)[1]((dout, dlse))[0]

    return jax.jit(pull)
