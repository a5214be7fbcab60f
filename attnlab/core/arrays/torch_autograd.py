"""Cores in PyTorch that work in buffers and bring their own gradient.

autograd and vmap cannot see through a buffer that is written in place. So such a core becomes the forward of an
autograd.Function, whose backward calls a second one; under ``torch.func.vmap`` the vmapped axis becomes one more
leading batch axis of the same core. Derivatives of the gradient are those of a plain formula, if there is one.
"""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from attnlab.core.arrays.torch import uncompiled
from attnlab.core.bundle import Inputs, Rules, Sizes
from attnlab.core.torch_operator import no_autocast

import torch
from torch import Tensor as Array
from torch.autograd import Function, forward_ad


@dataclass(frozen=True)
class Algorithm:
    """A core, its gradient, and a plain formula of the same result for derivatives of the gradient.

    core(rules, sizes, x) gives (out, lse), and so does plain; backward(rules, sizes, x, out, lse, dout, dlse,
    wants_bias) gives dq, dk, dv and, where wanted, dbias.
    """

    core: Callable
    backward: Callable
    plain: Callable | None


def custom_gradient(backward: Callable, plain: Callable | None = None) -> Callable[[Callable], Callable]:
    """Decorator of a core: ``backward`` takes the place of the derivative of its loops, which no compiler unrolls."""

    def decorate(core: Callable) -> Callable:
        algorithm = Algorithm(core, no_autocast(backward), plain and no_autocast(plain))

        @uncompiled
        @functools.wraps(core)
        def function(rules: Rules, sizes: Sizes, x: Inputs) -> tuple[Array, Array]:
            asked = torch.is_grad_enabled() and any(isinstance(y, Array) and y.requires_grad for y in x)
            if asked or _in_transform():  # else going through a Function would cost 50 µs for nothing
                return WithGradient.apply(algorithm, rules, sizes, *x)
            return core(rules, sizes, x)

        return function

    return decorate


@uncompiled
def explicit_gradient(
    backward: Callable, rules: Rules, sizes: Sizes, x: Inputs, out: Array, lse: Array, dout: Array, dlse: Array
) -> tuple[Array, ...]:
    """dq, dk, dv and, where there is a bias, dbias, of a gradient that is called by hand; vmap serves it, too."""
    algorithm = Algorithm(backward, no_autocast(backward), None)
    return Gradient.apply(algorithm, rules, sizes, x.bias is not None, out, lse, dout, dlse, *x)


def _in_transform() -> bool:
    """Whether torch.func's transforms or forward-mode derivatives are at work."""
    return torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0


class WithGradient(Function):
    """(out, lse) of (algorithm, rules, sizes, *inputs)."""

    @staticmethod
    def forward(algorithm: Algorithm, rules: Rules, sizes: Sizes, *inputs: Any) -> tuple[Array, Array]:
        return algorithm.core(rules, sizes, Inputs(*inputs))

    @staticmethod
    def setup_context(ctx: Any, arguments: tuple, results: tuple[Array, Array]) -> None:
        ctx.algorithm, ctx.rules, ctx.sizes, *inputs = arguments
        save_for_gradient(ctx, Inputs(*inputs), *results)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *cotangents: Array | None) -> tuple:
        x, *results = load_saved(ctx)
        _, _, _, *wants = ctx.needs_input_grad
        wants_bias = Inputs(*wants).bias
        cotangents = [  # the loss does not use this result: its gradient is an expanded 0, which takes no memory
            y.new_zeros(()).expand_as(y) if dy is None else dy for y, dy in zip(results, cotangents)
        ]
        run = Gradient.apply if torch.is_grad_enabled() or _in_transform() else Gradient.forward  # 50 µs less
        grads = run(ctx.algorithm, ctx.rules, ctx.sizes, wants_bias, *results, *cotangents, *x)
        return None, None, None, *gradients_by_place(*grads)

    @staticmethod
    def jvp(ctx: Any, *tangents: Array | None) -> None:
        name = ctx.algorithm.core.__name__
        raise NotImplementedError(f"{name} has no forward-mode derivative; use safe_attention")

    @staticmethod
    def vmap(info: Any, dims: tuple, algorithm: Algorithm, rules: Rules, sizes: Sizes, *inputs: Any) -> tuple:
        _, _, _, *dims = dims
        x = vmapped_inputs(Inputs(*inputs), Inputs(*dims), info.batch_size, bias_size=1)
        return WithGradient.apply(algorithm, rules, sizes, *x), (0, 0)


class Gradient(Function):
    """dq, dk, dv and, where wanted, dbias of (algorithm, rules, sizes, wants_bias, out, lse, dout, dlse, *inputs)."""

    @staticmethod
    def forward(
        algorithm: Algorithm, rules: Rules, sizes: Sizes, wants_bias: bool,
        out: Array, lse: Array, dout: Array, dlse: Array, *inputs: Any,
    ) -> tuple[Array, ...]:  # fmt: skip
        return algorithm.backward(rules, sizes, Inputs(*inputs), out, lse, dout, dlse, wants_bias)

    @staticmethod
    def setup_context(ctx: Any, arguments: tuple, results: tuple[Array, ...]) -> None:
        ctx.algorithm, ctx.rules, ctx.sizes, ctx.wants_bias, _, _, dout, dlse, *inputs = arguments
        save_for_gradient(ctx, Inputs(*inputs), dout, dlse)

    @staticmethod
    def backward(ctx: Any, *cotangents: Array) -> tuple:
        """The derivative of the plain formula's gradient, which does not need out and lse."""
        if ctx.algorithm.plain is None:
            name = ctx.algorithm.core.__name__
            raise NotImplementedError(f"{name} is not twice differentiable; use safe_attention")
        x, dout, dlse = load_saved(ctx)
        arrays = [x.query, x.key, x.value] if x.bias is None else [x.query, x.key, x.value, x.bias]

        def plain(*arrays: Array) -> tuple[Array, Array]:
            differentiated = dict(zip(("query", "key", "value", "bias"), arrays))
            return ctx.algorithm.plain(ctx.rules, ctx.sizes, x._replace(**differentiated))

        def gradient(dout: Array, dlse: Array, *arrays: Array) -> tuple[Array, ...]:
            dq, dk, dv, *dbias = vjp(plain, *arrays)[1]((dout, dlse))
            return dq, dk, dv, *(dbias if ctx.wants_bias else ())

        ddout, ddlse, *grads = vjp(gradient, dout, dlse, *arrays)[1](cotangents)
        return None, None, None, None, None, None, ddout, ddlse, *gradients_by_place(*grads)

    @staticmethod
    def vmap(
        info: Any, dims: tuple, algorithm: Algorithm, rules: Rules, sizes: Sizes, wants_bias: bool,
        out: Array, lse: Array, dout: Array, dlse: Array, *inputs: Any,
    ) -> tuple:  # fmt: skip
        _, _, _, _, at_out, at_lse, at_dout, at_dlse, *dims = dims
        results = [
            vmapped_axis_first(y, dim, info.batch_size)
            for y, dim in ((out, at_out), (lse, at_lse), (dout, at_dout), (dlse, at_dlse))
        ]
        x = vmapped_inputs(Inputs(*inputs), Inputs(*dims), info.batch_size, bias_size=info.batch_size)
        grads = Gradient.apply(algorithm, rules, sizes, wants_bias, *results, *x)
        return grads, (0,) * len(grads)


for function in (WithGradient, Gradient):  # each apply binds its arguments to it: 60 µs if it must be found
    function.forward.__signature__ = inspect.signature(lambda *arguments: None)


def vjp(function: Callable, *arrays: Array) -> tuple[Any, Callable[[tuple[Array, ...]], tuple[Array, ...]]]:
    """As ``torch.func.vjp``, which refuses to work under saved-tensor hooks: a whole step may run under them."""
    if torch._C._are_functorch_transforms_active():
        return torch.func.vjp(function, *arrays)
    again = torch.is_grad_enabled()  # derivatives of the gradient are wanted
    with torch.enable_grad():
        leaves = [y.view_as(y) if again and y.requires_grad else y.detach().requires_grad_() for y in arrays]
        results = function(*leaves)

    def pull(cotangents: tuple[Array, ...]) -> tuple[Array, ...]:
        pairs = [(y, dy) for y, dy in zip(results, cotangents) if y.requires_grad]  # the others are constants
        if not pairs:
            return tuple(map(torch.zeros_like, leaves))
        outputs, dys = zip(*pairs)
        return torch.autograd.grad(outputs, leaves, dys, create_graph=again, materialize_grads=True)

    return results, pull


def save_for_gradient(ctx: Any, x: Inputs, *more: Array) -> None:
    """Save the arrays of a call for backward, and its seed, which is a number."""
    ctx.seed = x.seed
    ctx.save_for_backward(*x._replace(seed=None), *more)


def load_saved(ctx: Any) -> tuple:
    """The inputs that ``save_for_gradient`` saved, and the arrays beside them."""
    tensors = ctx.saved_tensors
    arrays, more = tensors[: len(Inputs._fields)], tensors[len(Inputs._fields) :]
    return Inputs(*arrays)._replace(seed=ctx.seed), *more


def gradients_by_place(query: Array, key: Array, value: Array, bias: Array | None = None) -> Inputs:
    """Inputs that hold each gradient in the place of its array."""
    return Inputs(query, key, value, bias=bias)


def vmapped_inputs(x: Inputs, dims: Inputs, size: int, bias_size: int) -> Inputs:
    """The inputs with the vmapped axis in front. Masks broadcast over it; a bias may, its gradient may not."""
    sizes = Inputs(size, size, size, mask=1, bias=bias_size, query_segments=1, key_segments=1)
    return Inputs(*(vmapped_axis_first(y, dim, at_most) for y, dim, at_most in zip(x, dims, sizes)))


def vmapped_axis_first(x: Any, dim: int | None, size: int | None) -> Any:
    """An array with the vmapped axis in front. If it has no such axis, it's expanded without a copy."""
    if not isinstance(x, Array):
        return x
    return x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)
