"""attnlab.compat.scaled_dot_product_attention is PyTorch's: results, gradients, what it refuses; drawn seeds."""

import pytest
import torch
from torch.nn import functional

from attnlab.compat import scaled_dot_product_attention
from tests.support import refused

SHAPES = {
    "equal": ((2, 4, 5, 8), (2, 4, 7, 8), (2, 4, 7, 3)),
    "one batch of keys": ((3, 4, 5, 8), (1, 4, 7, 8), (1, 4, 7, 8)),
    "one key head": ((2, 4, 5, 8), (2, 1, 7, 8), (2, 1, 7, 8)),
    "one query for all": ((5, 8), (2, 3, 7, 8), (3, 7, 8)),
    "longer queries": ((2, 1, 9, 8), (2, 1, 4, 8), (2, 1, 4, 8)),
    "one axis of heads": ((4, 5, 8), (4, 7, 8), (4, 7, 8)),
    "no heads": ((5, 8), (7, 8), (7, 8)),
    "groups": ((2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 8)),
}
MASKS = ["none", "causal", "boolean", "float", "hidden rows"]


def call(shapes, mask, dtype=torch.float64):
    """Leaves and options."""
    random = torch.Generator().manual_seed(3)
    x = [torch.randn(shape, generator=random, dtype=dtype).requires_grad_() for shape in SHAPES[shapes]]
    n, m = x[0].shape[-2], x[1].shape[-2]
    given = {
        "boolean": torch.rand(n, m, generator=random) < 0.8,
        "float": torch.randn(n, m, generator=random, dtype=dtype).requires_grad_(),
        "hidden rows": (torch.arange(n) != 2)[:, None] & torch.ones(m, dtype=torch.bool),
    }.get(mask)
    return x, dict(attn_mask=given, is_causal=mask == "causal", enable_gqa=shapes == "groups")


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("shapes", SHAPES)
def test_results_and_gradients_are_pytorchs(shapes, mask):
    x, options = call(shapes, mask)
    leaves = x + [options["attn_mask"]] * (mask == "float")
    functions = scaled_dot_product_attention, functional.scaled_dot_product_attention
    results = [function(*x, scale=0.3, **options) for function in functions]
    torch.testing.assert_close(*results)
    torch.testing.assert_close(*(torch.autograd.grad(out.cos().sum(), leaves) for out in results))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_swap_in_a_transformer(monkeypatch, dtype):
    """One line: an encoder of PyTorch's, with padding, trains on it."""
    torch.manual_seed(1)
    layer = torch.nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True, norm_first=True, dtype=dtype)
    model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    x, padding = torch.randn(3, 6, 16, dtype=dtype), torch.arange(6) >= torch.tensor([6, 4, 2])[:, None]
    causal = torch.ones(6, 6, dtype=torch.bool).triu(1)
    calls, found = [], []

    def counted(*args, **kwargs):
        calls.append(kwargs)
        return scaled_dot_product_attention(*args, **kwargs)

    for function in (functional.scaled_dot_product_attention, counted):
        monkeypatch.setattr(functional, "scaled_dot_product_attention", function)
        out = model(x, mask=causal, src_key_padding_mask=padding)
        found.append((out, torch.autograd.grad((out[~padding] ** 2).sum(), list(model.parameters()))))
    assert len(calls) == 2
    tolerance = {torch.float32: 1e-4, torch.bfloat16: 0.1}[dtype]
    for one, other in zip(found[0][1], found[1][1]):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance * other.abs().max().item())
    torch.testing.assert_close(found[0][0], found[1][0], rtol=tolerance, atol=tolerance)


def test_dropout_is_drawn_from_pytorchs_generator():
    ones, one = torch.ones(1, 2, 64, 64), torch.eye(64).expand(1, 2, 64, 64)
    outs = []
    for seed in (5, 5, 6):
        torch.manual_seed(seed)
        outs += [scaled_dot_product_attention(ones, ones, one, dropout_p=0.25) for _ in range(2)]
    assert torch.equal(outs[0], outs[2])
    assert not torch.equal(outs[0], outs[1])
    assert not torch.equal(outs[0], outs[4])
    torch.testing.assert_close(outs[0].unique(), torch.tensor([0, 1 / 48]))
    assert abs((outs[0] == 0).float().mean() - 0.25) < 0.03
    before = torch.get_rng_state()
    scaled_dot_product_attention(ones, ones, ones)
    assert torch.equal(before, torch.get_rng_state())


def test_what_pytorch_refuses():
    x, options = call("equal", "boolean")
    for function in (scaled_dot_product_attention, functional.scaled_dot_product_attention):
        refused((ValueError, RuntimeError), "attn_mask", function, *x, **options | {"is_causal": True})
        groups, _ = call("groups", "none")
        with pytest.raises((ValueError, RuntimeError)):
            function(*groups)


def test_dropout_under_torch_func_says_what_to_do():
    x = torch.randn(2, 1, 4, 8)
    with pytest.raises(ValueError, match=r"dropout_p is 0.5 under torch.func.*tiled_attention\("):
        torch.func.vmap(lambda q: scaled_dot_product_attention(q, q, q, dropout_p=0.5), randomness="different")(x)
