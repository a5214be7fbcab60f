"""Ring attention on the Cluster: any number of ranks, any layout, the numbers of one device; bytes in closed form."""

import itertools
import tracemalloc

import numpy as np
import pytest

import attnlab
from attnlab.costs.ring import ring_bytes, ring_gradient_bytes
from attnlab.ring import Cluster, positions, ring_attention, shard, stripe, unshard, unstripe
from attnlab.ring.call import check_place
from attnlab.ring.numpy import ring_attention_backward
from attnlab.ring.schedule import LAYOUTS
from tests.attnlab.ring.shards import Sequence
from tests.support import refused
from tests.support.libraries import dtype

DEVICES = 1, 2, 3, 4, 5
OPTIONS = [{}, {"causal": True}, {"window": (3, 2)}, {"window": (4, 0), "causal": True}, {"window": (None, 1)},
           {"window": 0, "scale": -0.3}]  # fmt: skip


def forward(rank, query, key, value, **options):
    return (yield from ring_attention(query, key, value, return_lse=True, group=rank, **options))


def both(rank, query, key, value, dout, dlse, **options):
    """(dq, dk, dv) after a forward turn."""
    out, lse = yield from forward(rank, query, key, value, **options)
    return (yield from ring_attention_backward(query, key, value, out, lse, dout, dlse=dlse, group=rank, **options))


def run(case, program=forward, *more, cluster=None):
    """What a program gives for a case, one tuple a rank."""
    options = {"length": case.length, "layout": case.layout, **case.options}
    return (cluster or Cluster(case.devices)).run(program, *case.arrays, *more, **options)


@pytest.mark.thin(2)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("devices", DEVICES)
def test_the_numbers_of_one_device(devices, layout):
    """13 tokens are ragged but on one rank, and 3 leave ranks without any; padding holds NaN."""
    for length, options in itertools.product((3, 13), OPTIONS):
        case = Sequence(length, devices, layout, **options)
        outs, lses = zip(*run(case))
        out, lse = case.expected()
        np.testing.assert_allclose(case.joined(outs), out, atol=1e-13)
        np.testing.assert_allclose(case.joined(lses, -1), lse, atol=1e-13)


@pytest.mark.thin(2)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("devices", DEVICES)
def test_the_gradient_of_one_device(devices, layout):
    """Through out and lse, on a second turn."""
    for length, options in itertools.product((3, 13), OPTIONS[1:4]):
        case = Sequence(length, devices, layout, **options)
        found = zip(*run(case, both, *case.cotangents))
        for shards, expected in zip(found, case.gradients()):
            np.testing.assert_allclose(case.joined(shards), expected, atol=1e-13)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_parts_are_rounded_once(layout):
    """Half precision travels and comes out; all that is summed is float32, so five ranks are as exact as one."""
    for kind in ("float16", "bfloat16"):
        case, wide = Sequence(20, 5, layout, causal=True, kind=kind), Sequence(20, 5, layout, causal=True)
        wide.whole = {name: x.astype(np.float32) for name, x in case.whole.items()}
        wide.dout, wide.dlse = case.dout.astype(np.float32), case.dlse
        for (out, lse), (wide_out, wide_lse) in zip(run(case), run(wide)):
            assert (out.dtype, lse.dtype) == (dtype(kind), np.float32)
            np.testing.assert_array_equal(out, wide_out.astype(dtype(kind)))
            np.testing.assert_array_equal(lse, wide_lse)
        grads = [[dx.dtype for dx in grads] for grads in run(case, both, *case.cotangents)]
        assert grads == [[dtype(kind)] * 3] * 5


def test_gradients_are_rounded_once():
    """dk and dv are summed in float32 on their way: those of the widened arrays, rounded."""
    case = Sequence(20, 5, "striped", causal=True, kind="float16")

    def program(rank, *arrays, dlse, widen):
        query, key, value, dout = (x.astype(np.float32) if widen else x for x in arrays[:4])
        out, lse = arrays[4:]
        options = {"length": 20, "layout": "striped", "causal": True, "dlse": dlse[rank.index], "group": rank}
        out = out.astype(query.dtype)
        return (yield from ring_attention_backward(query, key, value, out, lse, dout, **options))

    dout, dlse = case.cotangents
    arrays = *case.arrays, dout, *map(list, zip(*run(case)))
    found, wide = (Cluster(5).run(program, *arrays, dlse=dlse, widen=widen) for widen in (False, True))
    for grads, wide_grads in zip(found, wide):
        for dx, wide_dx in zip(grads, wide_grads):
            np.testing.assert_array_equal(dx, wide_dx.astype(np.float16))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_bytes(layout):
    """As the closed forms say, 8 bytes a number; a rank alone sends nothing."""
    for devices, options in itertools.product((1, 3, 4), OPTIONS[:4]):
        case = Sequence(13, devices, layout, **options)
        cluster = Cluster(devices)
        run(case, cluster=cluster)
        assert cluster.bytes == ring_bytes(case.schedule, 4, 8, 5, itemsize=8)
        run(case, both, *case.cotangents, cluster=cluster)
        gradient = ring_gradient_bytes(case.schedule, 4, 8, 5, itemsize=8, accumulator=8)
        assert cluster.bytes == 2 * ring_bytes(case.schedule, 4, 8, 5, itemsize=8) + gradient
        assert set(cluster.links) <= {(r, (r + 1) % devices) for r in range(devices)}


def test_the_gradient_travels_behind_the_work():
    """With links that carry a block of k, v, dk and dv in less than a step, only the way home is waited for."""
    case = Sequence(20, 4)
    work, block = Cluster(4, rate=1.0), 2 * 4 * 5 * 13 * 8
    for cluster in (work, Cluster(4, rate=1.0, bandwidth=block)):
        run(case, both, *case.cotangents, cluster=cluster)
    assert cluster.time == work.time + 0.5


def test_work_of_each_round():
    """Causal: zigzag does the same on every rank in every round; in contiguous shards some wait for others."""
    rounds = {}
    for layout in LAYOUTS:
        cluster = Cluster(4)
        run(Sequence(64, 4, layout, causal=True), cluster=cluster)
        rounds[layout] = np.zeros((4, 4), int)
        for work in cluster.work:
            rounds[layout][work.step, work.rank] += work.pairs
    assert {int(table.sum()) for table in rounds.values()} == {64 * 65 // 2}
    own, whole, half = 16 * 17 // 2, 16 * 16, 16 * 16 // 2
    assert rounds["contiguous"].tolist() == [[own] * 4, [0, *[whole] * 3], [0, 0, whole, whole], [0, 0, 0, whole]]
    assert rounds["zigzag"].tolist() == [[own] * 4, *[[half] * 4] * 3]
    assert rounds["striped"].tolist() == [
        [own if step <= rank else own - 16 for rank in range(4)] for step in range(4)
    ]


def test_memory_of_a_rank():
    """Blocks that are here and on their way, out in the accumulation dtype: so many shards of q, however many ranks."""

    def peak(length, devices):
        shards = [[np.ones((1, length // devices, 64), np.float32)] * devices] * 3
        cluster = Cluster(devices)
        tracemalloc.start()
        cluster.run(lambda rank, *x: ring_attention(*x, causal=True, layout="zigzag", group=rank), *shards)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found / (4 * 64 * length)  # all ranks', in units of all queries: a rank's in shards of q

    assert peak(1024, 4) < 8
    assert peak(1024, 8) < 8
    assert peak(2048, 4) < 8


def test_one_head_and_no_token():
    x = np.random.default_rng(0).normal(size=(10, 4))
    outs = Cluster(3).run(lambda rank, x: ring_attention(x, x, x, length=10, group=rank), shard(x, 3))
    np.testing.assert_allclose(unshard(outs, 10), attnlab.tiled_attention(x, x, x), atol=1e-14)
    outs = Cluster(2).run(lambda rank, x: ring_attention(x, x, x, causal=True, group=rank), shard(x, 2))  # no padding
    np.testing.assert_allclose(unshard(outs, 10), attnlab.tiled_attention(x, x, x, causal=True), atol=1e-14)
    outs = Cluster(3).run(lambda rank, x: ring_attention(x, x, x, return_lse=True, group=rank), [x[:0]] * 3)
    assert [(out.shape, lse.shape) for out, lse in outs] == [((0, 4), (0,))] * 3


@pytest.mark.parametrize("layout", LAYOUTS)
def test_shards(layout):
    for length, devices, axis in itertools.product((0, 1, 10, 12), DEVICES, (-2, -1, 0)):
        x = np.moveaxis(1.0 + np.arange(6 * length).reshape(2, length, 3), 1, axis)
        shards = shard(x, devices, layout, axis=axis)
        for one, slots in zip(shards, positions(length, devices, layout)):
            for slot, position in enumerate(slots):
                expected = 0 if position == -1 else x.take(position, axis)
                np.testing.assert_array_equal(one.take(slot, axis), expected)
        np.testing.assert_array_equal(unshard(shards, length, layout, axis=axis), x)


def test_stripes():
    x = np.arange(1, 11.0)[:, None]
    found = stripe(x, 3)
    assert found[:, 0].tolist() == [1, 4, 7, 10, 2, 5, 8, 0, 3, 6, 9, 0]
    np.testing.assert_array_equal(unstripe(found, 3, length=10), x)
    np.testing.assert_array_equal(unstripe(stripe(x, 5, axis=0), 5, axis=0), x)


def test_errors_of_shards():
    with pytest.raises(ValueError, match=r"shards\[1\] has length 3; 10 tokens, contiguous, make 5"):
        unshard([np.ones((5, 1)), np.ones((3, 1))], 10)
    refused(ValueError, "x has length 12; 9 tokens in 3 stripes fill 9", unstripe, np.ones((12, 1)), 3, length=9)
    refused(TypeError, "x is of type list", shard, [1.0], 2)


def call(changed, devices=3, program=ring_attention):
    """A call of every rank; ``changed`` (its argument: what comes instead) on rank 1 alone if ``one`` is given."""
    x, changed = np.ones((1, 4, 8), np.float32), dict(changed)
    one = changed.pop("one", {})

    def run(rank):
        arguments = {"query": x, "key": x, "value": x, "group": rank, **changed, **(one if rank.index == 1 else {})}
        return program(**arguments)

    return Cluster(devices).run(run)


@pytest.mark.parametrize(("error", "changed", "message"), [
    (TypeError, {"group": None}, "group is None; NumPy arrays travel on a Cluster"),
    (TypeError, {"axis_name": "x"}, "axis_name is 'x'; with NumPy arrays the ranks are named by group"),
    (ValueError, {"key": np.ones((1, 5, 8), np.float32), "value": np.ones((1, 5, 8), np.float32)},
     "key has length 5, query has 4; in a ring both are equal"),
    (ValueError, {"length": 13}, "query has length 4; 13 tokens on 3 devices, contiguous, make shards of 5"),
    (ValueError, {"length": 8, "layout": "zigzag"}, None),
    (ValueError, {"length": 12, "layout": "rings"}, "layout is 'rings'; it must be one of contiguous, striped, zigzag"),
    (ValueError, {"length": -1}, "length is -1; it must be at least 0"),
    (TypeError, {"causal": 1}, "causal is 1; it must be True or False"),
    (TypeError, {"return_lse": None}, "return_lse is None; it must be True or False"),
    (ValueError, {"window": (1, 2, 3)}, "window has 3 sides"),
    (ValueError, {"scale": np.inf}, "scale is inf; it must be finite"),
    (TypeError, {"window": (np.ones(1), 0)}, "window is an array; options are Python values"),
    (TypeError, {"key": np.ones((1, 4, 8))}, "key has dtype float64, query has float32"),
    (TypeError, {"query": [1.0]}, "query is of type list"),
    (ValueError, {"one": {"scale": 0.5}}, "the ranks disagree: rank 0 has .*; rank 1 has .*scale 0.5"),
    (ValueError, {"one": {"causal": True}}, "the ranks disagree: rank 0 has .*right=None.*; rank 1 has .*right=0"),
    (ValueError, {"one": dict.fromkeys(("query", "key", "value"), np.ones((1, 5, 8), np.float32))}, "ranks disagree"),
])  # fmt: skip
def test_errors(error, changed, message):
    if message is None:
        call(changed)  # 8 tokens on 3 devices are 4 slots each
        return
    refused(error, message, call, changed)


def test_ranks_have_a_name_of_their_library():
    with pytest.raises(TypeError, match="group is 'here'; with JAX arrays the ranks are named by axis_name"):
        check_place("jax", "here", None)
    assert check_place("jax", None, "x") == "x"
    assert check_place("torch", None, None) is None


def test_errors_of_the_gradient():
    x, lse = np.ones((1, 4, 8), np.float32), np.ones((1, 4), np.float32)
    rank = Cluster(1).ranks[0]
    with pytest.raises(ValueError, match=r"lse has shape \(4,\); with this query and value it must be \(1, 4\)"):
        ring_attention_backward(x, x, x, x, lse[0], x, group=rank)
    refused(TypeError, "dout is of type list", ring_attention_backward, x, x, x, x, lse, [1.0], group=rank)


def test_ranks_that_disagree_in_the_gradient():
    x, lse = np.ones((1, 4, 8), np.float32), np.ones((1, 4), np.float32)

    def program(rank):
        return ring_attention_backward(x, x, x, x, lse, x, causal=rank.index == 2, group=rank)

    with pytest.raises(ValueError, match=r"the ranks disagree: rank 0 has the gradient of .*; rank 2 has .*right=0"):
        Cluster(3).run(program)
