"""The gradient of chunked attention in PyTorch: one query chunk at a time, and in it one key chunk at a time.

The forward is a chain: summarize, then combine_all. Backward, the gradient of combine_all gives that of every
summary, and each summary is computed once more to carry it on to q, k, v and bias. Derived in notebook 06.
"""

from collections.abc import Callable
from functools import partial

from attnlab.core.arrays.torch import Keys, Lse, Out, Rows, Shift, Values
from attnlab.core.arrays.torch import accumulator
from attnlab.core.arrays.torch_autograd import custom_gradient, vjp
from attnlab.core.bundle import Inputs, Rules, Sizes
from attnlab.core.geometry import blocks, chunk_sizes
from attnlab.core.scores import Visible
from attnlab.core.scores.torch import over_tile, read, tile, visible_tiles
from attnlab.core.shapes import Float
from attnlab.softmax.torch import Triple

import torch
from torch import Tensor as Array

Summaries = tuple[Float[Array, " chunks *rows"], Float[Array, " chunks *rows"], Float[Array, " chunks *rows Dv"]]


def recomputed(summarize: Callable, combine_all: Callable) -> Callable[[Callable], Callable]:
    """Decorator of the chunked core: its gradient recomputes the summaries instead of keeping them."""
    return custom_gradient(partial(backward, summarize, combine_all), partial(whole, summarize, combine_all))


def backward(
    summarize: Callable, combine_all: Callable,
    rules: Rules, sizes: Sizes, x: Inputs, out: Out, lse: Lse, dout: Out, dlse: Lse, wants_bias: bool,
) -> tuple[Array, ...]:
    """dq, dk, dv and, where wanted, dbias; summed in the accumulation dtype."""
    inputs = [x.query, x.key, x.value] + [x.bias] * wants_bias
    dq, dk, dv, *dbias = grads = [torch.zeros_like(y, dtype=lse.dtype) for y in inputs]
    query_chunk, key_chunk = chunk_sizes(rules.band.m, x.value.shape[-1], *sizes)

    for rows in blocks(rules.band.n, query_chunk):
        q, do = rules.scale * x.query[..., rows, :].to(lse.dtype), dout[..., rows, :].to(lse.dtype)
        chunks = len(list(rules.band.key_blocks(rows, key_chunk)))  # at most, as a mask may hide some
        summaries = buffers(chunks, q, x.value.shape[-1])
        for c, (cols, visible) in enumerate(visible_tiles(rules, x, rows, key_chunk)):
            k, v, b = read(x, rows, cols, visible)
            for held, new in zip(summaries, summarize(rules, x.seed, rows, cols, q, k, v, b, visible)):
                held[c] = new
        dsummaries = vjp(lambda *x: combine_all(x), *summaries)[1]((do, dlse[..., rows])) if chunks else ()
        del summaries  # each is computed again when its turn comes

        for (cols, visible), *dsummary in zip(visible_tiles(rules, x, rows, key_chunk), *dsummaries):
            k, v, b = read(x, rows, cols, visible)
            summary = partial(summarize, rules, x.seed, rows, cols)
            dq_i, dk_j, dv_j, *db = gradient_of_summary(summary, q, k, v, b, visible, tuple(dsummary), wants_bias)
            dq[..., rows, :].add_(dq_i, alpha=rules.scale)
            dk[..., cols, :] += dk_j
            dv[..., cols, :] += dv_j
            if wants_bias:
                over_tile(dbias[0], rows, cols).add_(db[0])
    return tuple(grad.to(y.dtype) for grad, y in zip(grads, inputs))


def buffers(count: int, q: Rows, dv: int) -> Summaries:
    """Buffers for all summaries, still empty. Made one by one, between tiles, they'd scatter on the heap."""
    rows = q.shape[:-1]
    return q.new_full((count, *rows), -torch.inf), q.new_zeros((count, *rows)), q.new_zeros((count, *rows, dv))


def gradient_of_summary(
    summary: Callable, q: Rows, k: Keys, v: Values, bias: Shift, visible: Visible, cotangent: Triple, wants_bias: bool
) -> tuple[Array, ...]:
    """From the gradient of one summary to those of q, k, v and, where wanted, bias."""

    def function(q: Rows, k: Keys, v: Values, bias: Shift = bias) -> Triple:
        return summary(q, k, v, bias, visible)

    return vjp(function, q, k, v, *[bias] * wants_bias)[1](cotangent)


def whole(summarize: Callable, combine_all: Callable, rules: Rules, sizes: Sizes, x: Inputs) -> tuple[Out, Lse]:
    """Attention in one chunk, without buffers, for second derivatives. It takes N·M memory."""
    rows, cols = slice(0, rules.band.n), slice(0, rules.band.m)
    q = rules.scale * x.query.to(accumulator(x.query))
    m, l, o = summarize(rules, x.seed, rows, cols, q, *tile(rules, x, rows, cols))
    out, lse = combine_all((m[None], l[None], o[None]))
    return out.to(x.query.dtype), lse
