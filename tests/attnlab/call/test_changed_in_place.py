"""PyTorch: an argument changed in place before backward is an error, or the gradient never needed it."""

import functools

import pytest
import torch

import attnlab
from attnlab.compat import scaled_dot_product_attention
from attnlab.linear import FORMS, Hedgehog, hedgehog_loss, linear_attention
from attnlab.linear.delta import delta_attention
from tests.support import needs

needs("torch")

RANDOM = torch.Generator().manual_seed(3)
B, HQ, HK, N, D, DV = 2, 4, 2, 5, 4, 3


def some(*shape):
    return torch.rand(shape, generator=RANDOM, dtype=torch.float64) + 0.1


ROWS = {"query": some(B, HQ, N, D), "key": some(B, HK, N, D), "value": some(B, HK, N, DV)}
KEPT = {"mask": torch.tensor([True, False, True, True, True])}
STATE = {"u": some(B, HK, D, DV), "z": some(B, HK, D)}
WEIGHTS = {"phi_q": some(HQ, D, 2), "phi_k": some(HK, D, 2)}
TOKENS = {"beta": some(B, HK, N), "log_decay": -some(B, HK, N), "state": some(B, HK, D, DV)}
HIDDEN = {"bias": some(N, N), "segments": torch.tensor([0, 0, 1, 1, 1])}
DROPS = {"causal": True, "dropout": 0.5, "seed": 1}
CALLS = {name: (functools.partial(f, **DROPS), ROWS | KEPT | HIDDEN) for name, f in attnlab.METHODS.items()}
CALLS |= {
    "compat": (lambda attn_mask, **x: scaled_dot_product_attention(**x, attn_mask=attn_mask, enable_gqa=True),
               ROWS | {"attn_mask": some(N, N)}),
    "merge": (lambda a, lse_a, b, lse_b: attnlab.merge((a, lse_a), (b, lse_b)),
              {"a": some(N, D), "lse_a": some(N), "b": some(N, D), "lse_b": some(N)}),
    "rotary": (lambda x, positions: attnlab.rotary(x, positions), {"x": some(N, D), "positions": torch.arange(N)}),
    "hedgehog_loss": (lambda query, key, phi_q, phi_k: hedgehog_loss(query, key, Hedgehog(phi_q, phi_k)),
                      {"query": ROWS["query"], "key": ROWS["key"]} | WEIGHTS),
}  # fmt: skip
for name in ("naive", "safe", "online"):
    CALLS[f"{name}_softmax"] = getattr(attnlab, f"{name}_softmax"), {"x": some(N, D)}
for form in FORMS:
    how = {"form": form, "chunk_size": 2}
    CALLS[f"linear {form}"] = (
        lambda u, z, how=how, **x: linear_attention(**x, **how, state=(u, z), causal=True, return_state=True),
        ROWS | KEPT | STATE)  # fmt: skip
    CALLS[f"hedgehog {form}"] = (
        lambda phi_q, phi_k, how=how, **x: linear_attention(**x, **how, features=Hedgehog(phi_q, phi_k), causal=True),
        ROWS | WEIGHTS)  # fmt: skip
    CALLS[f"delta {form}"] = functools.partial(delta_attention, **how, return_state=True), ROWS | KEPT | TOKENS
CASES = [
    (name, changed, learns)
    for name, (_, arrays) in CALLS.items() for changed in arrays for learns in (True, False)
    if any(learns or other != changed for other, x in arrays.items() if x.is_floating_point())
]  # fmt: skip


def summed(results):
    """All results in one number, each element with a weight of its own."""
    flat = torch.utils._pytree.tree_leaves(results)
    return sum((y * torch.linspace(-1, 1, y.numel(), dtype=y.dtype).reshape(y.shape)).sum() for y in flat)


@pytest.mark.parametrize(("name", "changed", "learns"), CASES)
def test_an_argument_changed_before_backward(name, changed, learns):
    """Whether it learns itself, as a gradient of the others needs it, or not."""
    call, arrays = CALLS[name]

    def gradients(change):
        leaves = {key: x.clone() for key, x in arrays.items()}
        for key, x in leaves.items():
            x.requires_grad_(x.is_floating_point() and (learns or key != changed))
        given = {key: x.view_as(x) for key, x in leaves.items()}  # a leaf can't be changed
        total = summed(call(**given))
        if change:
            with torch.no_grad():
                given[changed].copy_(~given[changed] if changed == "mask" else given[changed].flip(0) * -2)
        return torch.autograd.grad(total, [x for x in leaves.values() if x.requires_grad])

    expected = gradients(change=False)
    try:
        found = gradients(change=True)
    except RuntimeError as error:
        found, told = None, str(error)
    if found is None:
        assert "inplace" in told
    else:
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
