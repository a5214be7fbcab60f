"""Ring and tree attention reach the kernels in half precision as it is, and get parts that are not yet rounded."""


import numpy as np
import pytest
import torch
import torch.distributed as dist

import attnlab
from attnlab.kernels import refusal
from attnlab.ring import ring_attention, shard, tree_attention, unshard
from tests.support import needs
from tests.support.interpreter import GPU, interpreter

needs("triton")

pytestmark = pytest.mark.usefixtures("patched_once")
DEVICE = "cuda" if GPU else "cpu"

with interpreter():
    from attnlab.kernels.triton import backward, forward
    from attnlab.ring import torch_turns
    from attnlab.tiled import triton as kernels


@pytest.fixture(scope="module")
def alone():
    """A group of one process: in zigzag it has three parts to add up, and no message to wait for."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield dist.group.WORLD
    dist.destroy_process_group()


@pytest.fixture
def launched(monkeypatch):
    """(kernel, dtype of the query, dtypes of the results) of every launch. Without a GPU the interpreter serves."""
    found = []
    if not GPU:
        monkeypatch.setattr(torch_turns, "serves", lambda x, sizes: refusal(x, sizes) is None)

    def watching(launch, results):
        def watched(kernel, programs, query, *args, **constants):
            name = kernel.fn.__name__
            if name in results:
                found.append((name, query.data.dtype, *(args[i].data.dtype for i in results[name])))
            launch(kernel, programs, query, *args, **constants)

        return watched

    monkeypatch.setattr(forward, "launch", watching(forward.launch, {"fold": [2]}))
    gradients = {"query_gradient": [7], "key_gradient": [5, 6]}
    monkeypatch.setattr(backward, "launch", watching(backward.launch, gradients))
    return found


def numbers(kind, n=21, d=16):
    random = np.random.default_rng(n)
    return [torch.from_numpy(random.normal(size=(heads, n, d))).to(kind).to(DEVICE) for heads in (4, 2, 2, 4)]


def with_gradient(attend, q, k, v, dout):
    """out, dq, dk, dv."""
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    out = attend(*leaves)
    return [out.detach(), *torch.autograd.grad(out, leaves, dout)]


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_the_ring_runs_in_the_kernels(kind, alone, launched):
    """Each part of both turns; the result is as near to float64's as that of one kernel."""
    arrays = numbers(kind)

    def ring(*x):
        return ring_attention(*x, length=21, causal=True, layout="zigzag", group=alone)

    shards = [shard(x, 1, "zigzag")[0] for x in arrays]
    found = [unshard([x], 21, "zigzag") for x in with_gradient(ring, *shards)]
    wide = torch.float32
    assert launched[:3] == [("fold", kind, wide)] * 3
    assert launched[3:] == 3 * [("query_gradient", kind, wide), ("key_gradient", kind, wide, wide)]

    exact = with_gradient(lambda *x: attnlab.safe_attention(*x, causal=True), *(x.double() for x in arrays))
    one = with_gradient(lambda *x: kernels.tiled_attention(*x, causal=True), *arrays)
    for x, alone_x, right in zip(found, one, exact):
        assert x.dtype == kind
        error, bound = ((y.double() - right).abs().max() for y in (x, alone_x))
        assert error <= 1.5 * bound


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_the_tree_runs_in_the_kernel(kind, alone, launched):
    q, k, v, _ = numbers(kind)
    mask = torch.arange(21, device=DEVICE) > 2
    out, lse = tree_attention(q[:, :1], k, v, mask=mask, group=alone, return_lse=True)
    assert launched == [("fold", kind, torch.float32)]
    assert (out.dtype, lse.dtype) == (kind, torch.float32)
    right = attnlab.safe_attention(q[:, :1].double(), k.double(), v.double(), mask=mask)
    torch.testing.assert_close(out.double(), right, rtol=0, atol=2e-3 if kind == torch.float16 else 1.5e-2)


def test_float64_runs_in_the_loops(alone, launched):
    q, k, v, _ = numbers(torch.float64)
    tree_attention(q, k, v, group=alone)
    ring_attention(q, k, v, group=alone)
    assert launched == []
