"""What the tests of jax.export do, in a process of their own, where no annotation asks symbols to be integers."""

import faulthandler
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

import attnlab
from attnlab.linear import linear_attention

faulthandler.dump_traceback_later(300, exit=True)  # no test waits longer
jax.config.update("jax_disable_most_optimizations", True)  # these programs run once

SIZES = {"chunked": {"query_chunk_size": 4, "key_chunk_size": 8}, "tiled": {"block_q": 4, "block_k": 8}}
SHAPES = "b,2*h,n,6", "b,h,m,6", "b,h,m,5", "b,1,1,m"
SCOPE = export.SymbolicScope()
LENGTHS = (1, 1, 3, 5), (2, 3, 9, 17), (1, 2, 4, 8)


def drawn(b, h, n, m):
    """Query, key, value and a mask that shows eight keys and hides the next eight."""
    draw = np.random.default_rng(m).standard_normal
    arrays = [draw(shape).astype(np.float32) for shape in ((b, 2 * h, n, 6), (b, h, m, 6), (b, h, m, 5))]
    return *arrays, np.broadcast_to(np.arange(m) % 16 < 8, (b, 1, 1, m))


def attend(method, sizes, query, key, value, mask):
    """The call that is exported."""
    options = {"mask": mask, "causal": True, "window": (6, None)}
    return attnlab.attention(query, key, value, method=method, **options, **sizes)


def gradients(function, *x):
    """out and the gradients of query, key and value."""
    *x, mask = x
    out, pull = jax.vjp(lambda *x: function(*x, mask), *x)
    return out, *pull(jnp.cos(out))


def case(method, gradient, default=False):
    """The largest difference to safe attention at any lengths, of out and gradients; also with default block sizes."""
    results = gradients if gradient else lambda function, *x: (function(*x),)
    scope = export.SymbolicScope()
    shapes = [export.symbolic_shape(shape, scope=scope) for shape in SHAPES]
    symbols = [jax.ShapeDtypeStruct(*x) for x in zip(shapes, [jnp.float32] * 3 + [jnp.bool_])]
    function = partial(attend, method, {} if default else SIZES.get(method, {}))
    program = export.export(jax.jit(partial(results, function)))(*symbols)
    right = partial(results, partial(attend, "safe", {}))
    differences = []
    for lengths in LENGTHS:
        x = [jnp.asarray(y) for y in drawn(*lengths)]
        differences += [float(abs(a - b).max()) for a, b in zip(program.call(*x), right(*x))]
    return max(differences)


def alike(method, gradient=False, **options):
    """Queries as long as keys, by one symbol: the largest difference between the program and the plain call."""
    function = partial(*called(method), **options)
    one = partial(gradients, function) if gradient else function
    shapes = [export.symbolic_shape(shape, scope=SCOPE) for shape in ("b,2*h,n,6", "b,h,n,6", "b,h,n,5", "b,n")]
    symbols = [jax.ShapeDtypeStruct(*x) for x in zip(shapes, [jnp.float32] * 3 + [jnp.int32])]
    program = export.export(jax.jit(one))(*symbols)
    differences = []
    for b, h, _, m in LENGTHS:
        x = [jnp.asarray(y) for y in (*drawn(b, h, m, m)[:3], np.arange(b * m).reshape(b, m) // 3)]
        pairs = zip(jax.tree.leaves(program.call(*x)), jax.tree.leaves(one(*x)))
        differences += [float(abs(a - b).max()) for a, b in pairs]
    return max(differences)


def called(method):
    """A method of attention, or a form of linear attention; both take segments, which the latter leaves out."""
    form = method.removesuffix(" form")
    return (attend_segments, method) if form == method else (attend_linearly, form)


def attend_segments(method, query, key, value, segments, **options):
    """With documents of three tokens, in blocks that n does not divide."""
    options = {"segments": segments, **options, **SIZES.get(method, {})}
    return attnlab.attention(query, key, value, method=method, **options)


def attend_linearly(form, query, key, value, segments, **options):
    """In chunks of the default size, which is more than n, and of a smaller one."""
    return linear_attention(query, key, value, form=form, **options)
