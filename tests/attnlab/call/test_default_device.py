"""PyTorch: the tensors of a call decide on a device, and never the one that new tensors get by default.

On meta and fake tensors shapes come out, or a sentence that says who looks at numbers.
"""

import ast
import contextlib
import pathlib

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import attnlab
from attnlab.cache import KVCache, RollingCache, dequantize, quantize
from attnlab.compat import scaled_dot_product_attention
from attnlab.linear import FEATURES, FORMS, Hedgehog, hedgehog_loss, linear_attention
from attnlab.linear.delta import delta_attention
from attnlab.paged import PagedCache, paged_attention
from tests.support import needs, refused

needs("torch")

NEW = {"arange", "as_tensor", "empty", "eye", "full", "linspace", "ones", "rand", "randint", "randn", "tensor",
       "tril_indices", "triu_indices", "zeros"}  # fmt: skip
ARRAYS = [torch.rand(1, 2, 4, 4, generator=torch.Generator().manual_seed(0)) for _ in range(3)]
PAGES = torch.zeros(1, 1, dtype=torch.int32), torch.tensor([4])
LENGTHS = [0]


def dropped(*x):
    torch.manual_seed(3)
    return scaled_dot_product_attention(*x, dropout_p=0.5)


def written(*x):
    cache = PagedCache.empty(*x[1:], blocks=1, block_size=4)
    return cache.write(x[0].int().flatten()[:1], *(y[0, :, :1] for y in x[1:])).key_pages[0, :, 0]


CALLS = {
    **{name: lambda *x, f=f: f(*x, causal=True, window=2, dropout=0.5, seed=1) for name, f in attnlab.METHODS.items()},
    "rotary": lambda *x: attnlab.rotary(x[0]),
    "rotary of one position": lambda *x: attnlab.rotary(x[0], 3),
    "compat": dropped,
    "merge": lambda *x: attnlab.merge((x[0], x[0][..., 0]), (x[1], x[1][..., 0]))[0],
    "cache": lambda *x: KVCache.empty(*x[1:], capacity=5).attend(*x, lengths=LENGTHS)[0],
    "rolling cache": lambda *x: RollingCache.empty(*x[1:], window=2, sinks=1, rotary=1e4).attend(*x)[0],
    "its positions": lambda *x: RollingCache.empty(*x[1:], window=2).positions,
    "its rows": lambda *x: KVCache.empty(*x[1:], capacity=5).select(x[0].long().flatten()[:3]).keys,
    "loss": lambda *x: hedgehog_loss(*x[:2], Hedgehog(x[2][0], x[2][0]), causal=True),
    "slots": written,
    "few bits": lambda *x: dequantize(quantize(x[0], 4, axis=-1, group=2)),
    "pages": lambda *x: paged_attention(*x, *PAGES),
    **{f"linear {name}": lambda *x, name=name: linear_attention(*x, features=name, causal=True) for name in FEATURES},
    **{f"delta {form}": lambda *x, form=form: delta_attention(*x, form=form) for form in FORMS},
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_the_default_device_changes_nothing(name):
    expected = CALLS[name](*ARRAYS)
    with torch.device("meta"):
        torch.testing.assert_close(CALLS[name](*ARRAYS), expected, rtol=0, atol=0)


def test_every_new_tensor_names_a_device():
    home = pathlib.Path(attnlab.__file__).parent
    nameless = [
        f"{path.relative_to(home)}:{node.lineno}"
        for path in home.rglob("*.py") for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in NEW
        and isinstance(node.func.value, ast.Name) and node.func.value.id == "torch"
        and "device" not in {keyword.arg for keyword in node.keywords}
    ]  # fmt: skip
    assert not nameless


NAMES = [name for name in CALLS if name != "pages"]  # whose table is on a device
LOOKS = {"cache": "KVCache.attend", "rolling cache": "RollingCache.attend"}


@pytest.mark.parametrize("kind", ["meta", "fake"])
@pytest.mark.parametrize("name", NAMES)
def test_shapes_without_values(name, kind):
    expected = CALLS[name](*ARRAYS)
    with FakeTensorMode() if kind == "fake" else contextlib.nullcontext() as mode:
        x = [mode.from_tensor(x) if kind == "fake" else x.to("meta") for x in ARRAYS]
        if name in LOOKS:
            refused(NotImplementedError, rf"^{LOOKS[name]} looks at numbers, and a meta or fake", CALLS[name], *x)
        else:
            out = CALLS[name](*x)
            assert (out.shape, out.dtype) == (expected.shape, expected.dtype)


def test_pages_without_values():
    with pytest.raises(NotImplementedError, match=r"^paged_attention looks at numbers"):
        paged_attention(*(x.to("meta") for x in (*ARRAYS, *PAGES)))
