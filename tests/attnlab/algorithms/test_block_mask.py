"""Block masks: the same as an element mask, forward and backward. test_hidden_tiles counts what is visited."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from attnlab import safe_attention, tiled_attention
from attnlab.tiled.numpy import tiled_attention_backward
from tests.support.libraries import LIBRARIES

SIZES = [(8, 8, 4, 4), (10, 13, 4, 5), (7, 9, 3, 2), (5, 3, 5, 3), (9, 9, 5, 4), (6, 10, 20, 4)]
OPTIONS = {"": {}, "causal": {"causal": True}, "window": {"window": (3, 2)}, "dropout": {"dropout": 0.3, "seed": 7}}


def make(n, m, bq, bk, seed=0):
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=(4, n, 6)), rng.normal(size=(2, m, 6)), rng.normal(size=(2, m, 3))]
    tiles = rng.random((-(-n // bq), -(-m // bk))) < 0.6
    dout = rng.normal(size=(4, n, 3))
    return arrays, tiles, np.kron(tiles, np.ones((bq, bk), bool))[:n, :m], dout


def gradients(library, arrays, dout, **options):
    """Out and gradients of an attention function of the library."""
    if library == "numpy":
        out, lse = tiled_attention(*arrays, return_lse=True, **options)
        return out, *tiled_attention_backward(*arrays, out, lse, dout, **options)
    if library == "torch":
        inputs = [torch.tensor(x, requires_grad=True) for x in arrays]
        out = tiled_attention(*inputs, **options)
        return out.detach().numpy(), *torch.autograd.grad(out, inputs, torch.asarray(dout))
    with jax.enable_x64(True):
        out, pull = jax.vjp(lambda *x: tiled_attention(*x, **options), *map(jax.device_put, arrays))
        return out, *pull(jax.device_put(dout))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("rule", OPTIONS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_same_as_an_element_mask(library, rule, sizes):
    (arrays, tiles, mask, dout), options = make(*sizes), OPTIONS[rule]
    found = gradients(library, arrays, dout, block_q=sizes[2], block_k=sizes[3], block_mask=tiles, **options)
    inputs = [torch.tensor(x, requires_grad=True) for x in arrays]
    out = safe_attention(*inputs, mask=torch.asarray(mask), **options)
    wanted = out, *torch.autograd.grad(out, inputs, torch.asarray(dout))
    for x, y in zip(found, wanted):
        np.testing.assert_allclose(x, y.detach().numpy(), rtol=0, atol=1e-10)


def test_errors():
    arrays = [np.zeros((8, 4))] * 3
    tiles = np.ones((2, 2), bool)
    with pytest.raises(ValueError, match="block_mask is given without block_q and block_k"):
        tiled_attention(*arrays, block_q=4, block_mask=tiles)
    with pytest.raises(ValueError, match=r"block_mask has shape \(2, 2\); 8 queries by 8 keys in these .*\(2, 3\)"):
        tiled_attention(*arrays, block_q=4, block_k=3, block_mask=tiles)
    with pytest.raises(TypeError, match="block_mask has dtype int64; it must be boolean"):
        tiled_attention(*arrays, block_q=4, block_k=4, block_mask=tiles.astype(int))
    with pytest.raises(TypeError, match="block_mask is traced"):
        jax.jit(lambda t: tiled_attention(*map(jnp.asarray, arrays), block_q=4, block_k=4, block_mask=t))(tiles)
