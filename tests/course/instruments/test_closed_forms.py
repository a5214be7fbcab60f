"""What the machine counts is what the closed forms say, in integers."""

import inspect

import numpy as np
import pytest
from attnlab_course.instruments import machine
from attnlab_course.instruments.machine import Machine
from attnlab_course.ladder import LADDER

from attnlab import costs
from tests.attnlab.costs.test_costs import draws

TILED = ("flash", "flash2", "sparse flash", "sparse flash2")
FORWARD = (*[name for name in LADDER if name != "naive"], *TILED)  # naive is safe without the maximum
BACKWARD = [name for name in FORWARD if LADDER.get(name, LADDER["tiled"]).at_once != "key"]


def counted(name, call, gradient):
    """The machine after the forward of a call, or after its backward alone."""
    n, m, d, dv = call.sizes
    on = Machine(itemsize=call.itemsize)
    shapes = {"Q": (n, d), "K": (m, d), "V": (m, dv), "dO": (n, dv)}
    q, k, v, do = (on.put(x, np.ones(shape)) for x, shape in shapes.items())
    options = call.hidden | (dict(dropout=0.5, seed=1) if call.dropout else {})
    options |= {"mask": on.put("mask", np.ones((n, m), bool))} if call.mask else {}
    program = LADDER[name].program if name in LADDER else name.removeprefix("sparse ")
    sizes = dict(block_q=call.block_q, block_k=call.block_k)
    sizes |= dict(query_chunk_size=call.block_q, key_chunk_size=call.block_k, block_mask=call.tiles)
    taken = set(inspect.signature(getattr(machine, f"{program}_forward")).parameters)
    taken -= set() if name.startswith("sparse") else {"block_mask"}
    options |= {size: sizes[size] for size in sizes if size in taken}
    found = getattr(machine, f"{program}_forward")(on, q, k, v, **options)
    if gradient:
        for count in (on.loads, on.stores, on.fills):
            count.clear()
        on.work.products = on.work.exponentials = on.work.rest = 0
        getattr(machine, f"{program}_backward")(on, q, k, v, *found[name == "safe" :], do, **options)
    return on


def closed_form(name, call, gradient, heads=1):
    """The cost of the same call."""
    method = name.removeprefix("sparse ")
    hidden = call.hidden | (dict(block_mask=call.tiles) if name != method else {})
    return (costs.backward if gradient else costs.forward)(
        method, *call.sizes, heads=heads, itemsize=call.itemsize, block_q=call.block_q, block_k=call.block_k,
        mask=call.mask, dropout=call.dropout, **hidden,
    )  # fmt: skip


def one_if_empty(counts):
    """What was counted at all."""
    return {name: count for name, count in counts.items() if count}


@pytest.mark.parametrize(("name", "gradient"), [(x, False) for x in FORWARD] + [(x, True) for x in BACKWARD])
def test_counted_is_the_closed_form(name, gradient):
    for call in draws(24, name):
        on, cost = counted(name, call, gradient), closed_form(name, call, gradient)
        assert one_if_empty(cost.reads) == one_if_empty(on.loads), call
        assert one_if_empty(cost.writes) == one_if_empty(on.stores), call
        assert one_if_empty(cost.fills) == one_if_empty(on.fills), call
        assert (cost.elements, cost.bytes) == (on.elements, on.bytes)
        work = on.work
        assert (cost.products, cost.exponentials, cost.rest) == (work.products, work.exponentials, work.rest), call
        many = closed_form(name, call, gradient, heads=call.heads)
        assert (many.flops, many.bytes) == (call.heads * cost.flops, call.heads * cost.bytes)

