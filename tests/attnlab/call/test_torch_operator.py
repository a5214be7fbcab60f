"""PyTorch's ways of working: fullgraph, export, meta and fake tensors, autocast, nested tensors."""

import contextlib
import json
import shutil
import subprocess
import sys

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import attnlab
from attnlab.cache import KVCache, RollingCache
from attnlab.linear import delta_attention, linear_attention
from attnlab.paged import paged_attention
from tests.attnlab.call import torch_programs
from tests.attnlab.call.torch_programs import arrays, gradients
from tests.support import ROOT, needs, refused, selected
from tests.support.libraries import ALGORITHMS, function


def program(*arguments):
    """What the programs print."""
    needs("torch")
    command = [sys.executable, "-W", "ignore", "-m", "tests.attnlab.call.torch_programs", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


SLOW = "dynamic", "exported_strictly", "refusals", "rooms", "transformed"


@pytest.fixture(scope="module")
def failures(request):
    return json.loads(program(*selected(request, "check")))


@pytest.mark.skipif(torch.__version__.startswith("2.6."), reason="PyTorch 2.6 cannot trace the call")
@pytest.mark.parametrize("check", [
    pytest.param(check, marks=pytest.mark.thin(18) if " " in check else pytest.mark.full if check in SLOW else ())
    for check in torch_programs.CHECKS
])  # fmt: skip
def test_compilers(failures, check):
    assert check not in failures, failures[check]


@pytest.mark.skipif(torch.__version__.startswith("2.6."), reason="PyTorch 2.6 cannot trace the call")
@pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor needs a C++ compiler")
@pytest.mark.full
def test_inductor():
    program("inductor")


def call(algorithm, query, key, value, mask, bias):
    """(out, lse)."""
    options = dict(causal=True, window=(2, None), dropout=0.5, seed=3, return_lse=True)
    return function(algorithm)(query, key, value, mask=mask, bias=bias, **options)


def assert_alike(results, expected, device):
    """Shapes, dtypes and strides are right, and there are no values."""
    for one, other in zip(results, expected):
        assert (one.shape, one.dtype, one.stride()) == (other.shape, other.dtype, other.stride())
        assert one.device.type == device


@pytest.mark.parametrize(("device", "dtype"), [
    ("meta", torch.float32), ("meta", torch.bfloat16), ("cpu", torch.float64)])  # fmt: skip
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_meta_and_fake_tensors(algorithm, device, dtype):
    real = arrays(dtype=dtype)
    expected = call(algorithm, *real)
    with FakeTensorMode() if device == "cpu" else contextlib.nullcontext():
        x = [torch.empty_like(y, device=device).requires_grad_(y.is_floating_point()) for y in arrays(dtype=dtype)]
        results = call(algorithm, *x)
        assert_alike(results, expected, device)
        leaves = [y for y in x if y.requires_grad]
        assert_alike(gradients(results, leaves), leaves, device)


@pytest.mark.parametrize(("name", "shape"), [("key", (2, 3, 7, 8)), ("value", (2, 2, 6, 3))])
def test_a_tensor_without_values_is_checked_too(name, shape):
    x = dict(zip(("query", "key", "value"), (y.to("meta") for y in arrays())))
    with pytest.raises(ValueError, match=f"{name} has"):
        attnlab.tiled_attention(**x | {name: torch.empty(shape, dtype=torch.float64, device="meta")})


def test_a_block_mask_and_the_layout_of_no_heads():
    query, key, value = (torch.empty(n, 8, device="meta") for n in (6, 4, 4))
    table = [[True, False], [True, True], [False, True]]
    out = attnlab.tiled_attention(query, key, value, block_mask=table, block_q=2, block_k=2)
    assert out.shape == (6, 8)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_autocast_casts_as_pytorchs_attention_does(algorithm):
    """float32 query and key, as rotary tables make them, and a bfloat16 value; float64 stays what it is."""
    query, key, value, mask, bias = arrays(dtype=torch.float32)
    x = [y.requires_grad_() for y in (query, key, value.bfloat16(), bias)]
    attend = function(algorithm)
    with torch.autocast("cpu", torch.bfloat16):
        out, lse = attend(*x[:3], mask=mask, bias=x[3], return_lse=True)
        assert attend(*(y.double() for y in x[:3])).dtype == torch.float64
        theirs = torch.nn.functional.scaled_dot_product_attention(query, query, query)
    assert out.dtype == theirs.dtype == torch.bfloat16
    expected, exact = attend(*(y.bfloat16() for y in x[:3]), mask=mask, bias=x[3], return_lse=True)
    torch.testing.assert_close((out, lse), (expected, exact), rtol=0, atol=0)
    assert lse.dtype == torch.float32
    grads = [torch.autograd.grad(y.sum(), x) for y in (out, expected)]
    torch.testing.assert_close(*grads, rtol=0, atol=0)
    assert [y.dtype for y in grads[0]] == [y.dtype for y in x]


ROOMS = {
    "linear": linear_attention,
    "delta": delta_attention,
    "cache": lambda q, k, v: KVCache.empty(k.bfloat16(), v.bfloat16(), capacity=8).attend(q, k, v)[0],
    "rolling cache": lambda q, k, v: RollingCache.empty(k.bfloat16(), v.bfloat16(), window=2).attend(q, k, v)[0],
    "pages": lambda q, k, v: paged_attention(q, k, v, torch.zeros(2, 1, dtype=torch.int32), torch.full((2,), 4)),
}


@pytest.mark.parametrize("room", ROOMS)
def test_autocast_in_the_other_rooms(room):
    """As in the six: mixed inputs are cast, float64 stays, sums are no less exact than without autocast."""
    draw = torch.Generator().manual_seed(5)
    query, key, value = (torch.randn(2, heads, 4, 8, generator=draw) for heads in (4, 2, 2))
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        out = ROOMS[room](query, key, value.bfloat16())
        same = ROOMS[room](query, key, value)
        if "cache" not in room:
            assert ROOMS[room](query.double(), key.double(), value.double()).dtype == torch.float64
    expected = ROOMS[room](query.bfloat16(), key.bfloat16(), value.bfloat16())
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close((out, same), (expected, expected), rtol=0, atol=0)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_nested_tensors_are_refused(algorithm):
    query, key, value = arrays()[:3]
    nested = torch.nested.nested_tensor([value[0], value[1, :1]], layout=torch.jagged)
    refused(TypeError, "query is a nested tensor", function(algorithm), nested, nested, nested)
    refused(TypeError, "value is a nested tensor", function(algorithm), query, key, nested)
