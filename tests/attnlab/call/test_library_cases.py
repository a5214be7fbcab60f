"""The cases by which libraries test and document their own attention: PyTorch's samples and JAX's options."""

import os
import subprocess
import sys

import numpy as np
import pytest

from attnlab import tiled_attention
from tests.support import PYTHONPATH, needs

SAMPLES = """
import sys, torch
from torch.testing._internal.common_methods_invocations import op_db
(own,) = [one for one in op_db if one.name == "nn.functional.scaled_dot_product_attention"]
samples = own.sample_inputs("cpu", torch.float64, requires_grad=False)
torch.save([((x.input, *x.args), x.kwargs) for x in samples], sys.argv[1])
"""


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    """PyTorch's sample inputs, made in a process of their own, as its testing code changes settings."""
    needs("torch", "expecttest")
    import torch

    file = tmp_path_factory.mktemp("samples") / "samples.pt"
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH}
    subprocess.run([sys.executable, "-c", SAMPLES, file], env=environment, check=True, capture_output=True)
    return torch.load(file)


def test_pytorchs_samples_without_dropout(samples):
    """Results and gradients. Those with dropout are called without it here."""
    import torch
    from torch.nn import functional

    from attnlab.compat import scaled_dot_product_attention

    assert len(samples) >= 25
    for arrays, options in samples:
        leaves = [x.requires_grad_() for x in arrays]
        calls = scaled_dot_product_attention, functional.scaled_dot_product_attention
        ours, theirs = (call(*leaves, **options | {"dropout_p": 0.0}) for call in calls)
        torch.testing.assert_close(ours, theirs)
        gradients = (torch.autograd.grad(out.cos().sum(), leaves) for out in (ours, theirs))
        torch.testing.assert_close(*gradients)


def test_pytorchs_samples_with_dropout(samples):
    """On average they are what they would be without it."""
    import torch

    from attnlab.compat import scaled_dot_product_attention

    random = [(arrays, options) for arrays, options in samples if options["dropout_p"] > 0]
    assert len(random) >= 12
    torch.manual_seed(0)
    for arrays, options in random:
        exact = scaled_dot_product_attention(*arrays, **options | {"dropout_p": 0.0})
        many = torch.stack([scaled_dot_product_attention(*arrays, **options) for _ in range(60)]).detach()
        assert many.std(0).max() > 0
        assert ((many.mean(0) - exact).abs() <= 6 * many.std(0) / 60**0.5 + 1e-9).all()


T, S = 6, 9
RANDOM = np.random.default_rng(5)
Q, K, V = (RANDOM.normal(size=shape).astype("f4") for shape in ((2, T, 4, 8), (2, S, 2, 8), (2, S, 2, 8)))
BIAS, MASK = RANDOM.normal(size=(2, 4, T, S)).astype("f4"), RANDOM.random((2, 4, T, S)) < 0.7
MASK[..., 0] = True
LENGTHS = np.array([[4, 6], [9, 3]], np.int32)
KEYS = np.arange(S) < LENGTHS[1][:, None, None, None]
CASES = {  # jax.nn's options: ours
    "nothing": ({}, {}),
    "scale": ({"scale": 0.3}, {"scale": 0.3}),
    "bias": ({"bias": BIAS}, {"bias": BIAS}),
    "a bias for all heads": ({"bias": BIAS[:, :1]}, {"bias": BIAS[:, :1]}),
    "mask": ({"mask": MASK}, {"mask": MASK}),
    "mask and bias": ({"mask": MASK, "bias": BIAS}, {"mask": MASK, "bias": BIAS}),
    "causal": ({"is_causal": True}, {"causal": True, "offset": 0}),
    "causal and mask": ({"is_causal": True, "mask": MASK}, {"causal": True, "offset": 0, "mask": MASK}),
    "a window": ({"local_window_size": (3, 2)}, {"window": (3, 2), "offset": 0}),
    "a window as one number": ({"local_window_size": 4}, {"window": 4, "offset": 0}),
    "a causal window": ({"local_window_size": (3, 2), "is_causal": True}, {"window": (3, 0), "offset": 0}),
    "lengths of keys": ({"key_value_seq_lengths": LENGTHS[1]}, {"mask": KEYS}),
    "both lengths": ({"query_seq_lengths": LENGTHS[0], "key_value_seq_lengths": LENGTHS[1]}, {
        "mask": KEYS & (np.arange(T)[:, None] < LENGTHS[0][:, None, None, None])}),
}  # fmt: skip


def of_jax(arrays, options):
    needs("jax")
    import jax

    return jax.nn.dot_product_attention(*arrays, **options)


@pytest.mark.parametrize(("case", "heads"), [
    pytest.param(case, heads, marks=[] if heads == "groups" else pytest.mark.thin(6)) for case in CASES
    for heads in ("groups", "one key head", "no groups", "no batch") if not (heads == "no batch" and "lengths" in case)
])  # fmt: skip
def test_jaxs_documented_cases(case, heads):
    """Every option of its page, with the shapes of its page; its heads stand after tokens, and lse's last."""
    arrays = {"groups": (Q, K, V), "one key head": (Q, K[:, :, :1], V[:, :, :1]), "no groups": (Q[:, :, :2], K, V),
              "no batch": (Q, K, V)}[heads]  # fmt: skip
    theirs, ours = CASES[case]
    if heads == "no groups":
        theirs, ours = ({k: x[:, :2] if np.ndim(x) == 4 else x for k, x in options.items()} for options in CASES[case])
    if heads == "no batch":
        arrays = [x[0] for x in arrays]
        theirs, ours = ({k: x[0] if np.ndim(x) == 4 else x for k, x in options.items()} for options in CASES[case])
    out, lse = of_jax(arrays, theirs | {"return_residual": True})
    right, whole = tiled_attention(*(np.swapaxes(x, -3, -2) for x in arrays), **ours, return_lse=True)
    np.testing.assert_allclose(out, np.swapaxes(right, -3, -2), rtol=1e-5, atol=1e-5)
    seen = np.isfinite(whole)
    np.testing.assert_allclose(np.swapaxes(lse, -2, -1)[seen], whole[seen], rtol=1e-5, atol=1e-5)
