"""What PyTorch's transforms make of every algorithm: torch.func, vmap, autocast."""

import numpy as np
import pytest
import torch
from torch.func import grad, jacrev, vjp, vmap

from tests.support import oracle
from tests.support.libraries import ALGORITHMS, SAFE, call

B, HQ, HK, N, M, D, DV = 3, 4, 2, 3, 5, 4, 2


def arrays(*batch, dtype=torch.float64):
    """query, key, value with the given batch axes."""
    random = torch.Generator().manual_seed(5)
    shapes = (*batch, HQ, N, D), (*batch, HK, M, D), (*batch, HK, M, DV)
    return [torch.randn(shape, generator=random, dtype=dtype) for shape in shapes]


def attend(algorithm, **options):
    """A function of query, key, value and more arrays by name, which gives (out, lse)."""
    return lambda *x, **more: call("torch", algorithm, *x, **more, sizes=(2, 2), **options)


def loss(algorithm, **options):
    """A number that every output of the call enters, each with a weight of its own."""

    def function(*x, **more):
        out, lse = attend(algorithm, **options)(*x, **more)
        weight = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).reshape(out.shape)
        return (out * weight).sum() + (torch.where(lse == -torch.inf, 0, lse) ** 2).sum()

    return function


def assert_same(one, other):
    """Equal up to rounding, tensor by tensor."""
    torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_grad_and_vjp_give_what_autograd_gives(algorithm):
    x = arrays()
    f = loss(algorithm, causal=True)
    leaves = [t.clone().requires_grad_() for t in x]
    expected = torch.autograd.grad(f(*leaves), leaves)
    assert_same(grad(f, argnums=(0, 1, 2))(*x), expected)
    value, pull = vjp(f, *x)
    assert_same(pull(torch.ones_like(value)), expected)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_jacrev_gives_the_oracles_gradient(algorithm):
    x = arrays()
    bias = torch.linspace(-1, 1, M, dtype=torch.float64)
    dout = np.random.default_rng(0).normal(size=(HQ, N, DV))
    jacobians = jacrev(lambda *x: attend(algorithm)(*x[:3], bias=x[3])[0], argnums=(0, 1, 2, 3))(*x, bias)
    expected = oracle.gradients(*(t.numpy() for t in x), dout=dout, bias=bias.numpy())
    for jacobian, right in zip(jacobians, expected):
        np.testing.assert_allclose(np.tensordot(dout, jacobian.numpy(), 3), right, atol=1e-12)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_vmap_is_a_batch(algorithm):
    x = arrays(B)
    assert_same(vmap(attend(algorithm, window=1))(*x), attend(algorithm, window=1)(*x))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_vmap_over_some_of_the_arrays(algorithm):
    """A batch of queries in the last axis and of masks and biases, one key and value for all."""
    queries, (_, key, value) = arrays(B)[0], arrays()
    mask = torch.arange(M) < torch.tensor([5, 2, 0])[:, None]
    bias = torch.linspace(0, 1, B * N, dtype=torch.float64).reshape(B, N, 1)

    def single(query, mask, bias):
        return attend(algorithm)(query, key, value, mask=mask, bias=bias)

    many = vmap(single, in_dims=(-1, 0, 0))(queries.movedim(0, -1), mask, bias)
    expected = [torch.stack(x) for x in zip(*(single(*one) for one in zip(queries, mask, bias)))]
    assert_same(list(many), expected)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_vmap_of_grad(algorithm):
    x = arrays(B)
    bias = torch.linspace(0, 1, B * M, dtype=torch.float64).reshape(B, 1, M)

    def single(query, key, value, bias):
        return loss(algorithm)(query, key, value, bias=bias)

    many = vmap(grad(single, argnums=(0, 1, 2, 3)))(*x, bias)
    expected = [grad(single, argnums=(0, 1, 2, 3))(*one) for one in zip(*x, bias)]
    assert_same(many, tuple(torch.stack(t) for t in zip(*expected)))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_grad_of_vmap_with_a_shared_bias(algorithm):
    """The gradient of what all examples share is the sum over the examples."""
    x = arrays(B)
    bias = torch.linspace(0, 1, M, dtype=torch.float64)

    def total(bias):
        return vmap(lambda *x: loss(algorithm)(*x, bias=bias))(*x).sum()

    expected = sum(grad(lambda bias, one=one: loss(algorithm)(*one, bias=bias))(bias) for one in zip(*x))
    assert_same(grad(total)(bias), expected)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_vmap_gives_every_example_the_mask_of_the_single_call(algorithm):
    x = arrays(B)
    f = attend(algorithm, dropout=0.5, seed=9)
    expected = [f(*one) for one in zip(*x)]
    assert_same(vmap(f)(*x), tuple(torch.stack(t) for t in zip(*expected)))
    assert not torch.allclose(f(*x)[0], torch.stack([out for out, _ in expected]))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_vmap_of_grad_with_dropout(algorithm):
    x = arrays(B)
    f = grad(loss(algorithm, dropout=0.5, seed=9), argnums=(0, 1, 2))
    expected = [f(*one) for one in zip(*x)]
    assert_same(vmap(f)(*x), tuple(torch.stack(t) for t in zip(*expected)))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_vmap_in_vmap(algorithm):
    x = arrays(2, B)
    assert_same(vmap(vmap(attend(algorithm)))(*x), attend(algorithm)(*x))


@pytest.mark.parametrize("algorithm", [a for a in ALGORITHMS if a != "tiled"])
def test_second_derivative_is_that_of_safe_attention(algorithm):
    x = arrays()

    def norm(algorithm):
        return lambda query: sum((g**2).sum() for g in grad(loss(algorithm), argnums=(0, 1, 2))(query, *x[1:]))

    assert_same(grad(norm(algorithm))(x[0]), grad(norm("safe"))(x[0]))


def test_tiled_attention_refuses_a_second_derivative():
    leaves = [t.requires_grad_() for t in arrays()]
    (first,) = torch.autograd.grad(loss("tiled")(*leaves), leaves[:1], create_graph=True)
    with pytest.raises(NotImplementedError, match="safe_attention"):
        first.sum().backward()
    x = arrays()
    with pytest.raises(NotImplementedError, match="safe_attention"):
        grad(lambda query: grad(loss("tiled"))(query, *x[1:]).sum())(x[0])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_autocast_changes_nothing_but_the_inputs(algorithm):
    """Cast as test_torch_operator.py tells, they enter products of float32."""
    leaves = [t.to(torch.bfloat16).requires_grad_() for t in arrays(dtype=torch.float32)]

    expected = attend(algorithm)(*leaves)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = attend(algorithm)(*leaves)
    for one, other in zip(inside, expected):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    grads = [torch.autograd.grad((out.sum(), lse.sum()), leaves) for out, lse in (inside, expected)]
    torch.testing.assert_close(*grads, rtol=0, atol=0)


@pytest.mark.parametrize("algorithm", ["chunked", "tiled"])
def test_autocast_changes_nothing_in_a_backward_called_inside(algorithm):
    """Their gradients are functions of their own; elsewhere autograd's products follow autocast."""
    leaves = [t.to(torch.bfloat16).requires_grad_() for t in arrays(dtype=torch.float32)]
    expected = torch.autograd.grad(attend(algorithm)(*leaves)[0].sum(), leaves)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = torch.autograd.grad(attend(algorithm)(*leaves)[0].sum(), leaves)
    torch.testing.assert_close(inside, expected, rtol=0, atol=0)


@pytest.mark.parametrize("algorithm", SAFE)
def test_a_part_of_the_gradients(algorithm):
    """Only what asks for a gradient gets one, whichever it is."""
    everything = [t.requires_grad_() for t in arrays()]
    expected = torch.autograd.grad(loss(algorithm)(*everything), everything)
    for k in range(3):
        leaves = [t.detach().requires_grad_(i == k) for i, t in enumerate(everything)]
        assert_same(torch.autograd.grad(loss(algorithm)(*leaves), leaves[k]), (expected[k],))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_only_the_bias_has_a_gradient(algorithm):
    x = arrays()
    bias = torch.zeros(1, M, dtype=torch.float64, requires_grad=True)
    out, _ = attend(algorithm)(*x, bias=bias)
    dout = np.random.default_rng(0).normal(size=out.shape)
    (got,) = torch.autograd.grad(out, [bias], torch.from_numpy(dout))
    expected = oracle.gradients(*(t.numpy() for t in x), dout=dout, bias=bias.detach().numpy()).bias
    np.testing.assert_allclose(got.numpy(), expected, atol=1e-12)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA device")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_gpu_gives_what_the_cpu_gives(algorithm):
    x = arrays(dtype=torch.float32)
    f = attend(algorithm, causal=True, dropout=0.3, seed=4)
    on_gpu = f(*(t.cuda() for t in x))
    assert all(t.is_cuda for t in on_gpu)
    torch.testing.assert_close(tuple(t.cpu() for t in on_gpu), f(*x), rtol=1e-4, atol=1e-5)
