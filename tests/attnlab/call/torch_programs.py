"""What PyTorch's compilers make of a call, run as a program, which prints what failed.

In a process of its own: Dynamo cannot trace the type checker that the tests put around every function.
"""

import json
import os
import sys
import tempfile
import traceback
from functools import partial

import torch
import torch.distributed as dist
from torch.export import Dim, export

import attnlab
from attnlab import METHODS, tiled_attention_backward
from attnlab.cache import KVCache, RollingCache
from attnlab.core.torch_operator import break_takes_message
from attnlab.linear import FORMS, linear_attention
from attnlab.paged import paged_attention
from attnlab.ring import ring_attention, tree_attention
from tests.support import refused

os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

OPTIONS = dict(causal=True, window=(3, None), dropout=0.2, seed=3)


def arrays(n=5, m=7, dtype=torch.float64):
    """query, key, value, mask and bias."""
    random = torch.Generator().manual_seed(5)
    shapes = (2, 4, n, 8), (2, 2, m, 8), (2, 2, m, 3), (4, 1, m)
    query, key, value, bias = (torch.randn(shape, generator=random, dtype=dtype) for shape in shapes)
    return query, key, value, torch.arange(m) != 1, bias


class Layer(torch.nn.Module):
    """One call, with something to compile before and after it."""

    def __init__(self, function, **options):
        super().__init__()
        self.call = lambda *x, **more: function(*x, **options, **more)

    def forward(self, query, key, value, mask, bias, offset=1):
        segments = torch.arange(query.shape[2]) // 2, torch.arange(key.shape[2]) // 4
        options = dict(mask=mask, bias=bias, segments=segments, offset=offset)
        out, lse = self.call(2 * query, key, value, **options, return_lse=True)
        return out.sin(), lse


def gradients(results, leaves):
    """Of a loss that both results enter."""
    out, lse = results
    return torch.autograd.grad(out.sum() + torch.where(lse == -torch.inf, 0, lse).sum(), leaves)


def same(function, other, x, **tolerance):
    """Both give the same results and, within a tolerance, the same gradients."""
    leaves = [y.requires_grad_() for y in x if isinstance(y, torch.Tensor) and y.is_floating_point()]
    results, expected = function(*x), other(*x)
    torch.testing.assert_close(results, expected)
    torch.testing.assert_close(gradients(results, leaves), gradients(expected, leaves), **tolerance)


def fullgraph(method, backend="aot_eager"):
    sizes = dict.fromkeys((x for x in method.defaults if x in ("block_q", "block_k") or "chunk" in x), 2)
    layer = Layer(method, **OPTIONS, **sizes)
    same(torch.compile(layer, fullgraph=True, backend=backend), layer, arrays())


def dynamic(method):
    """One compiled program for all lengths, offsets and seeds."""
    def call(*x):
        query, key, value, mask, bias, offset, seed = x
        options = dict(mask=mask, bias=bias, offset=offset, dropout=0.5, seed=seed)
        return method(query, key, value, causal=True, return_lse=True, **options)

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager", dynamic=True)
    same(compiled, call, (*arrays(), 11, 13))
    with torch._dynamo.config.patch(error_on_recompile=True):
        same(compiled, call, (*arrays(6, 9), 3, 21))
        same(compiled, call, (*arrays(12, 10), -1, 22))


def exported(method, strict=False):
    layer, x = Layer(method, **OPTIONS), arrays()
    lengths = ({2: Dim("N")}, {2: Dim("M")}, {2: Dim("M")}, {0: Dim("M")}, {2: Dim("M")})
    program = export(layer, x, strict=strict, dynamic_shapes=lengths).module()
    torch.testing.assert_close(program(*x), layer(*x))
    torch.testing.assert_close(program(*arrays(9, 11)), layer(*arrays(9, 11)))


def exported_strictly(method):
    exported(method, strict=True)


def autocast(method):
    """The cast is part of the program."""
    def call(*x):
        with torch.autocast("cpu", torch.bfloat16):
            query, key, value, mask, bias = x
            return method(query, key, value, mask=mask, bias=bias, return_lse=True)

    x = arrays(dtype=torch.float32)
    assert call(*x)[0].dtype == torch.bfloat16
    once = dict(rtol=0.02, atol=0.02)  # the operator's gradient knows out rounded to bfloat16
    same(torch.compile(call, fullgraph=True, backend="aot_eager"), call, x, **once)


def by_hand(method):
    """The gradient as a call of its own."""
    def call(*x):
        query, key, value, mask, bias = x
        out, lse = method(query, key, value, mask=mask, bias=bias, return_lse=True)
        return tiled_attention_backward(query, key, value, out, lse, out.cos(), mask=mask, bias=bias)

    torch.testing.assert_close(torch.compile(call, fullgraph=True, backend="eager")(*arrays()), call(*arrays()))


def operator(method):
    """PyTorch's own tests of an operator: schema, shapes, autograd, a compiler."""
    from attnlab.core import torch_operator

    given = dict(zip(("query", "key", "value", "mask", "bias"), arrays())) | dict(causal=True, dropout=0.0)
    given = {k: y.requires_grad_() if k in ("query", "key", "value", "bias") else y for k, y in given.items()}
    given["function"] = f"{method.__module__}.torch.{method.__name__}"
    given["gradient"] = f"{given['function']}_backward"
    torch.library.opcheck(torch_operator.attention, tuple(given.get(name) for name in torch_operator.CALL))


def transformed(method):
    """A transform in a compiled function: there the graph breaks. (tiled: Dynamo fails on what follows the break.)"""
    def call(*x):
        query, key, value, *_ = x
        one = torch.func.grad(lambda q: method(q, key, value, causal=True).sin().sum())(query)
        return one, torch.func.vmap(method)(query, key, value)

    torch.testing.assert_close(torch.compile(call, backend="eager")(*arrays()), call(*arrays()))


def room(function, *x):
    """Traced as a whole at its first call in the process: equal, and so are the gradients."""
    leaves = [y.requires_grad_() for y in x]
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    found, expected = ([y, *torch.autograd.grad(y.sin().sum(), leaves)] for y in (compiled(*x), function(*x)))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def rooms(_):
    """The functions beside the six."""
    query, key, value, *_ = arrays()
    out, lse = torch.randn(2, 3, 5, dtype=torch.float64), torch.randn(2, 3, dtype=torch.float64)
    softmaxes = attnlab.naive_softmax, attnlab.safe_softmax, attnlab.online_softmax
    room(lambda x: attnlab.rotary(x, torch.arange(5) + 7, base=500.0), query)
    room(lambda out, lse: attnlab.merge((out, lse), (2 * out, lse + 1))[0], out, lse)
    room(lambda x: sum(softmax(x) for softmax in softmaxes), query)
    forms = [partial(linear_attention, form=form, causal=True, chunk_size=2) for form in FORMS]
    room(lambda *x: sum(attend(*x) for attend in forms), query, key, value)


def refusals(_):
    """What cannot be traced says so under fullgraph, and is left alone without it; wrong calls are told as ever."""
    wrong = torch.compile(lambda x: attnlab.tiled_attention(x, x[..., :2], x), backend="eager")
    refused(ValueError, "^key has size 2, query has 8", wrong, torch.randn(2, 4, 3, 8))
    integers = torch.zeros(2, 1, dtype=torch.int32), torch.full((2,), 3)
    words = "cannot be traced" if break_takes_message() else "graph_break"
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=0, world_size=1)
        for call in (
            lambda x: KVCache.empty(x, x, capacity=8).attend(x, x, x)[0],
            lambda x: RollingCache.empty(x, x, window=2).attend(x, x, x)[0],
            lambda x: paged_attention(x, x, x, *integers),
            lambda x: ring_attention(x, x, x, causal=True),
            lambda x: tree_attention(x, x, x),
        ):
            x = torch.randn(2, 4, 3, 8)
            torch.testing.assert_close(torch.compile(call, backend="eager")(x), call(x), rtol=0, atol=0)
            torch.compiler.reset()
            refused(torch._dynamo.exc.Unsupported, words, torch.compile(call, fullgraph=True, backend="eager"), x)
        dist.destroy_process_group()


CHECKS = {"dynamic": (dynamic, "tiled")}  # first: no call may come before it that changes what the compiler has read
CHECKS |= {f"{check.__name__} {name}": (check, name) for check in (fullgraph, exported, autocast) for name in METHODS}
CHECKS |= {check.__name__: (check, "tiled") for check in (exported_strictly, by_hand, operator)}
CHECKS["transformed"] = transformed, "safe"
CHECKS |= {check.__name__: (check, "safe") for check in (rooms, refusals)}


def failures(titles):
    """The traceback of every check that failed. Each begins anew: what was compiled before would be used again."""
    for title in titles:
        check, name = CHECKS[title]
        torch.compiler.reset()
        try:
            check(METHODS[name])
        except Exception:
            yield title, traceback.format_exc()


if __name__ == "__main__":
    if sys.argv[1:] == ["inductor"]:
        fullgraph(METHODS["tiled"], backend="inductor")
    else:
        print(json.dumps(dict(failures(sys.argv[1:]))))
