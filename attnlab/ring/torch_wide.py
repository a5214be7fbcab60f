"""Attention to a part of the keys and its gradient, not yet rounded: parts are added up in the accumulation dtype.

The kernels on a GPU read half precision and write float32. The loops, which write what they read, get a wide query.
"""

from attnlab.core.arrays.torch import Array, Lse, Out
from attnlab.core.arrays.torch import accumulator
from attnlab.core.bundle import Inputs, Rules
from attnlab.core.torch_operator import no_autocast
from attnlab.kernels.triton.gpu import kernel, kernel_gradient, serves
from attnlab.tiled.torch import tiled_attention
from attnlab.tiled.torch_grad import backward

AUTO = (None, None)  # block sizes


def attend(rules: Rules, x: Inputs) -> tuple[Out, Lse]:
    """(out, lse) of a part, both in the accumulation dtype."""
    wide = accumulator(x.query)
    if serves(x, AUTO):
        return kernel(rules, AUTO, x, wide)
    return tiled_attention.core(rules, AUTO, x._replace(query=x.query.to(wide)))


def gradient(rules: Rules, x: Inputs, out: Out, lse: Lse, dout: Out, dlse: Lse) -> tuple[Array, Array, Array]:
    """dq, dk and dv of a part in the dtype of lse, the sums' dtype; out and lse are those of all parts."""
    results = out, lse, dout, dlse
    if serves(x, AUTO):
        return kernel_gradient(rules, AUTO, x, *results, wants_bias=False, dtype=lse.dtype)
    wide = Inputs(*(y.to(lse.dtype) for y in x[:3]))
    return no_autocast(backward)(rules, AUTO, wide, *results, False)
