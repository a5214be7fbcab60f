"""How a contestant is called: its function, its arrays, and the arithmetic that its time is divided by."""

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterable
from typing import Any

from attnlab import METHODS
from attnlab.measure import GRADIENTS
from attnlab_course.bench import peers
from attnlab_course.bench.contestants import GROUPED, OWN, SDPA, Contestant
from attnlab_course.bench.setting import Setting
from attnlab_course.instruments import hardware
from attnlab_course.instruments.timing import Call, wait_for

import numpy as np

NAMESPACES = {"numpy": "numpy", "jax": "jax.numpy", "torch": "torch"}
LENGTH_FIRST = "nn", "onnxruntime"  # arrays (batch, length, heads, size)
PRODUCT = {"cpu": 2048, "cuda": 8192}  # rows and columns of the matrices whose product is the yardstick


def prepare(contestant: Contestant, setting: Setting) -> Call:
    """The call to time, on arrays of its own; it ends when the result is there."""
    if contestant.method == "products":
        return _products(contestant.library, setting)
    return bind(contestant.library, make_timed_call(contestant, setting), *make_inputs(contestant, setting))


def prepare_all(contestants: Iterable[Contestant], setting: Setting) -> dict[str, Call]:
    """The calls of several contestants, by name."""
    return {contestant.name: prepare(contestant, setting) for contestant in contestants}


def bind(library: str, function: Callable, *arrays: Any) -> Call:
    """A call without arguments, compiled in JAX, which ends when the result is there."""
    if library == "jax":
        import jax

        function = jax.jit(function)
    elif library == "numpy" or arrays[0].device.type == "cpu":
        return functools.partial(function, *arrays)  # nothing to wait for, which takes microseconds
    return lambda: wait_for(function(*arrays))


def make_timed_call(contestant: Contestant, setting: Setting) -> Callable:
    """The function to time: attention, or attention and its gradients, of the arrays that :func:`make_inputs` makes."""
    forward = bind_options(contestant, setting)

    def run(*arrays: Any) -> Any:
        *arrays, mask = arrays
        call = forward if mask is None else functools.partial(forward, mask=mask)
        return GRADIENTS[contestant.library](call, *arrays) if setting.gradient else call(*arrays)

    return run


def bind_options(contestant: Contestant, setting: Setting) -> Callable:
    """Bind the setting's options to an attention function of (query, key, value, mask=None)."""
    method = contestant.method
    if method == "nn":
        return functools.partial(_jax_nn, setting)
    if method in (*OWN["torch"], *SDPA):
        return functools.partial(_torch_sdpa, setting, SDPA.get(method))
    if method in peers.NEEDS:
        return peers.MAKERS[method](setting)
    if method == "flex":
        return _flex_attention(setting)
    if method == GROUPED.method:
        return _torch_grouped
    if method == "formula":
        return functools.partial(_formula, importlib.import_module(NAMESPACES[contestant.library]))
    kernel = None if method in METHODS else importlib.import_module(f"attnlab.tiled.{method}").tiled_attention
    return functools.partial(kernel or METHODS[method], causal=setting.causal, window=setting.window)


def _torch_sdpa(setting: Setting, kernel: str | None, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
    """PyTorch's own; windows come as a mask, since it has none."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel(getattr(SDPBackend, kernel)) if kernel else contextlib.nullcontext():
        return torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=setting.causal and not setting.dense,
            enable_gqa=setting.heads != setting.kv_heads,
        )  # fmt: skip


def _flex_attention(setting: Setting) -> Callable:
    """PyTorch's FlexAttention, compiled for one setting; hidden tiles are skipped by a block mask."""
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    low, high, n, m = setting.band.low, setting.band.high, setting.n, setting.keys
    low, high = -n if low is None else low, m if high is None else high
    bounded = setting.causal or setting.window is not None
    tiles = create_block_mask(
        lambda b, h, i, j: (j >= i + low) & (j <= i + high), None, None, n, m, device=setting.device
    ) if bounded else None  # fmt: skip
    call = torch.compile(flex_attention, dynamic=False)
    return functools.partial(call, block_mask=tiles, enable_gqa=setting.heads != setting.kv_heads)


def _torch_grouped(query: Any, key: Any, value: Any, mask: None = None) -> Any:
    """PyTorch's own for one query, the heads that read one key head being its rows: no key is copied."""
    import torch

    grouped = query.reshape((*key.shape[:-2], -1, query.shape[-1]))
    return torch.nn.functional.scaled_dot_product_attention(grouped, key, value).reshape(query.shape)


def _jax_nn(setting: Setting, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
    """JAX's own; its arrays are (batch, length, heads, size). Its rules are top-left: a mask where N and M differ."""
    import jax

    if setting.keys != setting.n:
        return jax.nn.dot_product_attention(query, key, value, mask=mask)
    window = setting.window and tuple(setting.n if side < 0 else side for side in setting.window)
    return jax.nn.dot_product_attention(
        query, key, value, mask=mask, is_causal=setting.causal, local_window_size=window
    )


def _formula(xp: Any, query: Any, key: Any, value: Any) -> Any:
    """Safe attention written out in six operations of a library, without options."""
    s = query @ key.mT * query.shape[-1] ** -0.5
    p = xp.exp(s - xp.amax(s, axis=-1, keepdims=True))
    return p / xp.sum(p, axis=-1, keepdims=True) @ value


def make_inputs(contestant: Contestant, setting: Setting, shapes_only: bool = False) -> list:
    """Query, key, value, with the gradient dout, and the mask or None; for JAX perhaps only their shapes."""
    swapped = contestant.method in LENGTH_FIRST
    heads = [setting.heads, setting.kv_heads, setting.kv_heads] + [setting.heads] * setting.gradient
    lengths = [setting.n, setting.keys, setting.keys, setting.n]
    sizes = tuple((setting.batch, h, length, setting.d) for h, length in zip(heads, lengths))
    spelled = contestant.method in (*OWN["torch"], *SDPA) or (swapped and setting.keys != setting.n)
    mask = setting.mask() if setting.dense and spelled else None
    if shapes_only:
        import jax

        sizes = [(b, n, h, d) for b, h, n, d in sizes] if swapped else sizes
        arrays = [jax.ShapeDtypeStruct(size, setting.dtype) for size in sizes]
        return [*arrays, None if mask is None else jax.ShapeDtypeStruct(mask.shape, bool)]
    mask = None if mask is None else _from_numpy(contestant.library, mask, "bool", setting.device)
    return [*make_arrays(contestant.library, sizes, swapped, setting.dtype, setting.device), mask]


@functools.lru_cache(maxsize=8)  # the contestants of a library share their arrays
def make_arrays(library: str, sizes: tuple, swapped: bool, dtype: str, device: str) -> list:
    """Standard normal arrays of the library, the same in each; ``swapped``: (batch, length, heads, size)."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(size, dtype=np.float32) for size in sizes]
    arrays = [np.ascontiguousarray(x.swapaxes(1, 2)) for x in arrays] if swapped else arrays
    return [_from_numpy(library, x, dtype, device) for x in arrays]


def _from_numpy(library: str, x: np.ndarray, dtype: str, device: str) -> Any:
    """Convert a NumPy array to one of the library."""
    if library == "torch":
        import torch

        return torch.from_numpy(x).to(device=device, dtype=getattr(torch, dtype))
    if library == "jax":
        import jax.numpy as jnp

        return jnp.asarray(x, dtype)
    if dtype == "bfloat16":
        import ml_dtypes

        return x.astype(ml_dtypes.bfloat16)
    return x.astype(dtype)


def _products(library: str, setting: Setting) -> Call:
    """One square matrix product; NumPy, which computes attention on half precision in float32, takes that."""
    dtype = "float32" if library == "numpy" and setting.dtype != "float64" else setting.dtype
    matmul, _ = hardware.operations(library, dtype)
    place: Any = contextlib.nullcontext()
    if library == "torch":
        import torch

        place = torch.device(setting.device)
    with place:
        run = matmul(PRODUCT[setting.device])
    return lambda: wait_for(run())


def count_flops(contestant: Contestant, setting: Setting) -> int:
    """Operations of the matrix products that a contestant computes."""
    return 2 * PRODUCT[setting.device] ** 3 if contestant.method == "products" else setting.flops
