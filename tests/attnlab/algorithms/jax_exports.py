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

SHAPES = "b,2*h,n,6", "b,h,m,6", "b,h,m,5", "b,1,1,m", "b,n", "b,m"
KINDS = [jnp.float32] * 3 + [jnp.bool_] + [jnp.int32] * 2
LENGTHS = (1, 1, 3, 5), (2, 3, 9, 17), (1, 2, 4, 8)


def drawn(b, h, n, m):
    """Query, key, value, a mask that shows eight keys and hides the next eight, and documents of three tokens."""
    draw = np.random.default_rng(m).standard_normal
    arrays = [draw(shape).astype(np.float32) for shape in ((b, 2 * h, n, 6), (b, h, m, 6), (b, h, m, 5))]
    mask = np.broadcast_to(np.arange(m) % 16 < 8, (b, 1, 1, m))
    return [jnp.asarray(x) for x in (*arrays, mask, *(np.arange(b * k).reshape(b, k) // 3 for k in (n, m)))]


def attend(method, query, key, value, mask, queries, keys, **options):
    """A method of attention, or a form of linear attention, which knows no documents."""
    if method.endswith(" form"):
        return linear_attention(query, key, value, mask=mask, form=method.removesuffix(" form"), **options)
    return attnlab.attention(query, key, value, method=method, mask=mask, segments=(queries, keys), **options)


def gradients(function, *x):
    """out and the gradients of query, key and value."""
    out, pull = jax.vjp(lambda *y: function(*y, *x[3:]), *x[:3])
    return out, *pull(jnp.cos(out))


def case(method, gradient=False, one_symbol=False, **options):
    """The largest difference between one program for all lengths and the plain call; also where N and M are one."""
    function = partial(attend, method, **options)
    call, scope = partial(gradients, function) if gradient else function, export.SymbolicScope()
    shapes = [export.symbolic_shape(x.replace("m", "n") if one_symbol else x, scope=scope) for x in SHAPES]
    program = export.export(jax.jit(call))(*(jax.ShapeDtypeStruct(*x) for x in zip(shapes, KINDS)))
    differences = []
    for b, h, n, m in LENGTHS:
        x = drawn(b, h, m if one_symbol else n, m)
        pairs = zip(jax.tree.leaves(program.call(*x)), jax.tree.leaves(call(*x)))
        differences += [float(abs(a - b).max()) for a, b in pairs]
    return max(differences)
