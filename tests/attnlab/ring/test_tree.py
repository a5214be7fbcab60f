"""Tree attention on the Cluster, and what else decoding could move: numbers of one device, bytes in closed form."""

import numpy as np
import pytest

from attnlab.costs.ring import doubling_bytes, keys_bytes, query_bytes, tree_bytes
from attnlab.ring import Cluster, tree_attention
from attnlab.ring.programs import move_keys, move_query
from tests.support import oracle, refused
from tests.support.libraries import dtype

DEVICES = 1, 2, 3, 4, 5, 6, 7, 8
FORMS = "allreduce", "doubling"


class Decoding:
    """Queries that all ranks have, and keys in shards of unequal lengths, two of them empty from three ranks on."""

    def __init__(self, devices, n=1, *, kind="float64", magnitude=1.0, mask=False):
        random = np.random.default_rng(devices)
        self.counts = [3 + rank if rank not in (0, devices - 2) or devices < 3 else 0 for rank in range(devices)]
        length, self.devices = sum(self.counts), devices
        shapes = (2, 4, n, 8), (2, 2, length, 8), (2, 2, length, 5)
        self.query, self.key, self.value = (random.normal(size=shape).astype(dtype(kind)) for shape in shapes)
        self.query *= magnitude
        self.options = {}
        if mask:
            self.options["mask"] = random.random((2, 1, 1, length)) < 0.6
            self.options["mask"][1] = False
            hidden = ~self.options["mask"][:, 0, 0]
            self.key.swapaxes(1, 2)[hidden] = np.nan

    def cut(self, x, axis):
        return np.split(x, np.cumsum(self.counts)[:-1], axis)

    def run(self, form, *, cluster=None):
        """(out, lse) of each rank."""
        masks = self.cut(self.options["mask"], -1) if self.options else [None] * self.devices

        def program(rank, key, value, mask):
            return tree_attention(self.query, key, value, mask=mask, form=form, return_lse=True, group=rank)

        cluster = cluster or Cluster(self.devices)
        return cluster.run(program, self.cut(self.key, -2), self.cut(self.value, -2), masks)

    def baseline(self, program, *, cluster=None, **options):
        """(out, lse) of each rank where the query or the keys move."""
        cluster = cluster or Cluster(self.devices)
        shards = [self.query] * self.devices, self.cut(self.key, -2), self.cut(self.value, -2)
        return cluster.run(program, *shards, **options)

    def expected(self):
        return oracle.attention(self.query, self.key, self.value, **self.options)[:2]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("devices", DEVICES)
def test_the_numbers_of_one_device(devices, form):
    """Also with scores in the thousands, where a sum before the maximum would overflow."""
    for case in (Decoding(devices), Decoding(devices, 3), Decoding(devices, 2, magnitude=1000.0)):
        outs = case.run(form)
        for results, expected in zip(zip(*outs), case.expected()):
            assert all((found == results[0]).all() for found in results)  # to the last bit
            np.testing.assert_allclose(results[0], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_a_mask_of_each_rank(form):
    """A row that sees nothing anywhere; hidden keys hold NaN."""
    case = Decoding(4, 2, mask=True)
    out, lse = case.run(form)[3]
    with np.errstate(all="ignore"):
        expected = case.expected()
    assert not out[1].any()
    np.testing.assert_allclose(out, expected[0], atol=1e-13)
    np.testing.assert_allclose(lse, expected[1], atol=1e-13)


@pytest.mark.parametrize("form", FORMS)
def test_no_key_anywhere(form):
    query, none = np.ones((2, 4, 1, 8)), np.ones((2, 2, 0, 8))
    outs = Cluster(3).run(lambda rank: tree_attention(query, none, none, form=form, return_lse=True, group=rank))
    assert all(not out.any() and (lse == -np.inf).all() for out, lse in outs)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_parts_are_rounded_once(form, kind):
    case = Decoding(5, 2, kind=kind)
    out, lse = case.run(form)[0]
    assert (out.dtype, lse.dtype) == (dtype(kind), np.float32)
    case.query, case.key, case.value = (x.astype(np.float32) for x in (case.query, case.key, case.value))
    wide, wide_lse = case.run(form)[0]
    np.testing.assert_array_equal(out, wide.astype(dtype(kind)))
    np.testing.assert_array_equal(lse, wide_lse)


@pytest.mark.parametrize("devices", DEVICES)
def test_the_query_or_the_keys_move(devices):
    case = Decoding(devices, 2)
    home = devices - 1
    outs = case.baseline(move_query, home=home)
    assert outs[:home] + outs[home + 1 :] == [None] * home
    for results in (outs[home], *case.baseline(move_keys)):
        for found, expected in zip(results, case.expected()):
            np.testing.assert_allclose(found, expected, atol=1e-13)


@pytest.mark.parametrize("devices", DEVICES)
def test_bytes(devices):
    """R = 2 · 4 · 3 rows; float16 travels as 2 bytes, what is summed as 4."""
    case, rows = Decoding(devices, 3, kind="float16"), 24
    clusters = [Cluster(devices) for _ in range(4)]
    case.run("allreduce", cluster=clusters[0])
    case.run("doubling", cluster=clusters[1])
    case.baseline(move_query, cluster=clusters[2])
    case.baseline(move_keys, cluster=clusters[3])
    assert [cluster.bytes for cluster in clusters] == [
        tree_bytes(devices, rows, 5),
        doubling_bytes(devices, rows, 5),
        query_bytes(devices, rows, 8, 5),
        keys_bytes(devices, sum(case.counts), 4, 8, 5),
    ]
    assert len(clusters[0].steps) == 4 * (devices - 1)  # two all-reduces
    power = 2 ** (devices.bit_length() - 1)
    assert len(clusters[1].steps) == power.bit_length() - 1 + (2 if devices > power else 0)


@pytest.mark.parametrize(("error", "changed", "message"), [
    (ValueError, {"form": "ring"}, "form is 'ring'; it must be one of allreduce, doubling"),
    (TypeError, {"group": None}, "group is None; NumPy arrays travel on a Cluster"),
    (TypeError, {"mask": np.ones(5)}, "mask has dtype float64"),
    (ValueError, {"mask": np.ones(4, bool)}, "mask has shape"),
    (ValueError, {"value": np.ones((1, 4, 8))}, "value has length 4, key has 5"),
    (ValueError, {"one": {"query": np.ones((1, 2, 8))}}, "the ranks disagree: rank 0 has .*; rank 1 has"),
    (ValueError, {"one": {"form": "doubling"}}, "the ranks disagree: rank 0 has .*allreduce; rank 1 has .*doubling"),
])  # fmt: skip
def test_errors(error, changed, message):
    changed = dict(changed)
    one, x = changed.pop("one", {}), np.ones((1, 5, 8))

    def program(rank):
        arguments = {"query": x, "key": x, "value": x, "group": rank, **changed, **(one if rank.index == 1 else {})}
        return tree_attention(**arguments)

    refused(error, message, Cluster(3).run, program)
