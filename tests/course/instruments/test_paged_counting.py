"""Paged attention on the machine: right, and every load counted, the table's too."""

import numpy as np
import pytest
from attnlab_course.instruments.machine import Machine, paged_forward

from attnlab import costs
from tests.attnlab.paged.pages import Paged

CASES = [
    dict(lengths=[11], n=1, size=4),
    dict(lengths=[12], n=5, size=4, dv=3),
    dict(lengths=[3], n=7, size=2),
    dict(lengths=[20], n=6, size=3, window=(5, 0)),
    dict(lengths=[0], n=2, size=4),
    dict(lengths=[6], n=2, size=4, scale=2),
]


@pytest.mark.parametrize("block_q", [1, 3, 8])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_counted_is_the_closed_form(case, block_q):
    paged = Paged(hq=1, hk=1, kind="float64", **case)
    query, keys, values, (table,), (length,) = paged.arrays
    on = Machine(itemsize=4)
    arrays = {"Q": query[0, 0], "K": keys[:, 0], "V": values[:, 0], "table": table}
    refs = [on.put(name, x) for name, x in arrays.items()]
    out, lse = paged_forward(on, *refs, int(length), block_q=block_q, **paged.options)
    expected = paged.expected()
    np.testing.assert_allclose(on.fetch(out), expected[0][0, 0], atol=1e-13)
    np.testing.assert_allclose(on.fetch(lse), expected[1][0, 0], atol=1e-13)
    sizes = query.shape[-2], int(length), query.shape[-1], values.shape[-1]
    blocks = dict(block_q=block_q, block_k=case["size"], window=case.get("window"), itemsize=4)
    cost = costs.forward("paged", *sizes, **blocks)
    assert on.loads == {name: count for name, count in cost.reads.items() if count}
    assert on.stores == cost.writes
    assert on.bytes == cost.bytes
    assert (on.work.products, on.work.exponentials, on.work.rest) == (cost.products, cost.exponentials, cost.rest)
    pages = -(-int(length) // case["size"])
    assert on.loads["table"] <= pages * -(-sizes[0] // block_q)
    if sizes[0] == 1:
        assert on.loads["table"] == pages

