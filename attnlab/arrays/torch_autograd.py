"""Cores in PyTorch that work in buffers and bring their own gradient.

autograd and vmap cannot see through a buffer that is written in place. So such a core becomes the forward of an
autograd.Function, whose backward calls a second one; under ``torch.func.vmap`` the vmapped axis becomes one more
leading batch axis of the same core. Derivatives of the gradient are those of a plain formula, if there is one.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from attnlab.arrays.torch import no_autocast

from torch import Tensor as Array
from torch.autograd import Function
from torch.func import vjp


@dataclass(frozen=True)
class Algorithm:
    """A core, its gradient, and a plain formula of the same result for derivatives of the gradient.

    core(query, key, value, mask, bias, *options) gives (out, lse), and so does plain; backward(query, key, value,
    mask, bias, out, lse, dout, dlse, *options, wants_bias) gives dq, dk, dv and, where wanted, dbias.
    """

    core: Callable
    backward: Callable
    plain: Callable | None


def custom_gradient(backward: Callable, plain: Callable | None = None) -> Callable[[Callable], Callable]:
    """Decorator of a core: ``backward`` takes the place of the derivative of its loops."""

    def decorate(core: Callable) -> Callable:
        algorithm = Algorithm(core, no_autocast(backward), plain and no_autocast(plain))

        @functools.wraps(core)
        def function(*arrays_and_options: Any, **sizes: Any) -> tuple[Array, Array]:
            return Attention.apply(algorithm, *arrays_and_options, *sizes.values())

        return function

    return decorate


class Attention(Function):
    """(out, lse) of (algorithm, query, key, value, mask, bias, *options)."""

    @staticmethod
    def forward(algorithm: Algorithm, *args: Any) -> tuple[Array, Array]:
        return algorithm.core(*args)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple[Array, Array]) -> None:
        ctx.algorithm, *arrays = inputs[:6]
        ctx.options = inputs[6:]
        ctx.save_for_backward(*arrays, *output)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *cotangents: Array | None) -> tuple:
        saved, wants_bias = ctx.saved_tensors, ctx.needs_input_grad[5]
        cotangents = [  # of a result that the loss does not use: 0, without memory
            x.new_zeros(()).expand_as(x) if dx is None else dx for x, dx in zip(saved[5:], cotangents)
        ]
        dq, dk, dv, *dbias = Gradient.apply(ctx.algorithm, *saved, *cotangents, *ctx.options, wants_bias)
        return None, dq, dk, dv, None, *(dbias or [None]), *[None] * len(ctx.options)

    @staticmethod
    def jvp(ctx: Any, *tangents: Array | None) -> None:
        name = ctx.algorithm.core.__name__
        raise NotImplementedError(f"{name} has no forward-mode derivative; use safe_attention")

    @staticmethod
    def vmap(info: Any, in_dims: tuple, algorithm: Algorithm, *args: Any) -> tuple:
        sizes = [info.batch_size] * 3 + [1, 1]  # mask and bias broadcast over the new axis
        return Attention.apply(algorithm, *leading(args, in_dims[1:], sizes)), (0, 0)


class Gradient(Function):
    """dq, dk, dv, dbias of (algorithm, query, key, value, mask, bias, out, lse, dout, dlse, *options, wants_bias)."""

    @staticmethod
    def forward(algorithm: Algorithm, *args: Any) -> tuple[Array, ...]:
        return algorithm.backward(*args)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple[Array, ...]) -> None:
        ctx.algorithm, *arrays = inputs[:6]
        *ctx.options, ctx.wants_bias = inputs[10:]
        ctx.save_for_backward(*arrays, *inputs[8:10])

    @staticmethod
    def backward(ctx: Any, *cotangents: Array) -> tuple:
        """The derivative of the plain formula's gradient, which does not need out and lse."""
        if ctx.algorithm.plain is None:
            name = ctx.algorithm.core.__name__
            raise NotImplementedError(f"{name} is not twice differentiable; use safe_attention")
        query, key, value, mask, bias, dout, dlse = ctx.saved_tensors
        arrays = [query, key, value] if bias is None else [query, key, value, bias]

        def plain(query: Array, key: Array, value: Array, bias: Array | None = None) -> tuple[Array, Array]:
            return ctx.algorithm.plain(query, key, value, mask, bias, *ctx.options)

        def gradient(dout: Array, dlse: Array, *arrays: Array) -> tuple[Array, ...]:
            return vjp(plain, *arrays)[1]((dout, dlse))[: 3 + ctx.wants_bias]

        ddout, ddlse, dq, dk, dv, *dbias = vjp(gradient, dout, dlse, *arrays)[1](cotangents)
        rest = [None] * (len(ctx.options) + 1)
        return None, dq, dk, dv, None, *(dbias or [None]), None, None, ddout, ddlse, *rest

    @staticmethod
    def vmap(info: Any, in_dims: tuple, algorithm: Algorithm, *args: Any) -> tuple:
        sizes = [info.batch_size] * 3 + [1] + [info.batch_size] * 5  # each example has its own dbias
        grads = Gradient.apply(algorithm, *leading(args, in_dims[1:], sizes))
        return grads, (0,) * len(grads)


def leading(args: tuple, in_dims: tuple, sizes: list[int]) -> list:
    """The arrays with the vmapped axis in front; one that has none gets it without a copy."""
    arrays = [
        x if x is None else x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)
        for x, dim, size in zip(args, in_dims, sizes)
    ]
    return [*arrays, *args[len(sizes) :]]
