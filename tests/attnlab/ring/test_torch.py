"""Ring and tree attention in PyTorch: five processes of gloo give the numbers of one device."""

import functools

import pytest
import torch
from torch.testing import assert_close

import attnlab
from attnlab.costs.ring import ring_bytes, ring_gradient_bytes
from attnlab.ring import Schedule, ring_attention, unshard
from tests.attnlab.ring.processes import Ranks
from tests.attnlab.ring.torch_ranks import whole, with_gradients
from tests.support import refused

LAYOUTS = ("contiguous", "striped", "zigzag")
OPTIONS = ({}, {"causal": True}, {"window": (5, 3)}, {"causal": True, "window": (2, 0)})
CASES = [{"length": n, "layout": layout, **options} for n in (23, 20) for layout in LAYOUTS for options in OPTIONS]
CASES += [{"length": 3, "layout": layout, "causal": True, "scale": -0.3} for layout in LAYOUTS]  # ranks without tokens
NAMES = ("out", "lse", "dq", "dk", "dv")


@pytest.fixture(scope="module")
def ranks():
    """Five processes for all tests of the file but those that lose one."""
    with Ranks(5, timeout=60) as ranks:
        yield ranks


def good(results):
    """The results, if every rank has one."""
    assert not [(rank, result) for rank, result in enumerate(results) if isinstance(result, Exception)]
    return results


def joined(shards, length, layout):
    """out, lse, dq, dk, dv of the whole sequence, of those of the ranks."""
    return [unshard(list(parts), length, layout, axis=-2 + (name == "lse")) for name, parts in zip(NAMES, zip(*shards))]


@functools.cache
def one_device(length, dtype="float64", causal=False, window=None, scale=None):
    """The same of one call over the whole sequence."""

    def attend(*x):
        return attnlab.safe_attention(*x, causal=causal, window=window, scale=scale, return_lse=True)

    return with_gradients(attend, *whole(length, dtype=dtype))


def split(case):
    """The case without its layout, and the layout."""
    return {name: x for name, x in case.items() if name != "layout"}, case["layout"]


@pytest.mark.thin(2)
@pytest.mark.parametrize("devices", [1, 2, 3, 4, 5])
def test_ranks_give_the_numbers_of_one_device(ranks, devices):
    """Forward and gradient, also through lse; masks, GQA, ragged lengths, NaN in the padding of all that comes in."""
    for case, shards in zip(CASES, zip(*good(ranks.call("rings", devices, CASES)))):
        whole_case, layout = split(case)
        found = joined(shards, case["length"], layout)
        for name, x, right in zip(NAMES, found, one_device(**whole_case)):
            assert (x - right).abs().max() < 1e-12, (name, case)


def test_autocast_casts_as_in_the_six(ranks):
    """Mixed inputs are cast, the gradients come back in their dtypes, float64 stays; nothing inside is rounded more."""
    for found, expected, double in good(ranks.call("autocast", 2)):
        assert double == torch.float64
        dtypes = dict(zip(("out", "lse", "dq", "dk", "dv", "tree", "its lse"), (x.dtype for x in found)))
        assert [name for name, dtype in dtypes.items() if dtype == torch.bfloat16] == ["out", "dv", "tree"]
        for x, right in zip(found, expected):
            assert_close(x, right.to(x.dtype), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_merged_in_float32(ranks, dtype):
    """Five merges and the travels of dk and dv round no more often than one device does."""
    case = {"length": 23, "layout": "striped", "causal": True, "dtype": dtype}
    shards = [one for (one,) in good(ranks.call("rings", 5, [case]))]
    right = with_gradients(
        lambda *x: attnlab.tiled_attention(*x, causal=True, return_lse=True), *whole(23, dtype=dtype)
    )
    exact = with_gradients(
        lambda *x: attnlab.safe_attention(*x, causal=True, return_lse=True),
        *(x.double() for x in whole(23, dtype=dtype)),
    )
    for name, x, alone, best in zip(NAMES, joined(shards, 23, "striped"), right, exact):
        assert x.dtype == alone.dtype
        error, error_alone = ((y.double() - best).abs().max() for y in (x, alone))
        assert error <= (2e-6 if name == "lse" else 1.1 * error_alone), name


@pytest.mark.parametrize("devices", [1, 2, 3])
@pytest.mark.parametrize("causal", [False, True])
def test_heads_for_tokens_give_the_numbers_of_one_device(ranks, devices, causal):
    """Forward and gradient; five ranks cannot share twelve heads."""
    *arrays, dout, _ = whole(24, heads=(12, 6))
    leaves = [x.clone().requires_grad_() for x in arrays]
    out = attnlab.safe_attention(*leaves, causal=causal)
    right = [out.detach(), *torch.autograd.grad(out, leaves, dout)]
    for x, parts in zip(right, zip(*good(ranks.call("heads", devices, 24, causal)))):
        assert_close(torch.cat(parts, -2), x, rtol=0, atol=1e-12)
    for result in ranks.call("heads", 5, 25, causal) if devices == 1 else ():
        assert isinstance(result, ValueError)
        assert str(result) == "there are 12 heads, which 5 ranks cannot share equally; ring_attention can"


@pytest.mark.parametrize("form", ["allreduce", "doubling"])
def test_tree_attention_is_one_call_over_all_keys(ranks, form):
    """Shards of any length, empty ones too, a mask on one rank; all ranks agree to the last bit."""
    counts = [5, 0, 9, 1, 4]
    for devices in range(1, 6):
        some, none = counts[:devices], [1] + [0] * (devices - 1)
        cases = [(some, "float64"), (none, "float64"), (some, "float16")]
        for (keys, dtype), *results in zip(cases, *good(ranks.call("trees", devices, cases, form))):
            q, k, v, *_ = whole(sum(keys), dtype=dtype)
            mask = torch.arange(sum(keys)) > 0
            right = attnlab.safe_attention(q[..., :3, :].double(), k.double(), v.double(), mask=mask, return_lse=True)
            for x, y in zip(results[0], right):
                assert_close(x.double(), y, rtol=0, atol=1e-12 if dtype == "float64" else 1e-3)
            for found in results[1:]:
                assert_close(found, results[0], rtol=0, atol=0)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("devices", [1, 2, 4, 5])
@pytest.mark.parametrize("options", OPTIONS[:3], ids=str)
def test_messages_are_those_of_the_closed_forms(ranks, devices, layout, options):
    """To the next rank alone: k and v in both turns, dk and dv once round."""
    results = good(ranks.call("messages", devices, {"length": 20, "layout": layout, "dtype": "float32", **options}))
    left, right = options.get("window", (None, 0 if "causal" in options else None))
    ring, sizes = Schedule(20, devices, layout, left, right), {"itemsize": 4}
    forward, gradient = (f(ring, 2 * 2, 6, 5, **sizes) for f in (ring_bytes, ring_gradient_bytes))
    assert sum(size for sent in results for _, size in sent) == forward + gradient
    for rank, sent in enumerate(results):
        assert {to for to, _ in sent} <= {(rank + 1) % devices}
        home = 2 * devices if devices > 1 else 0
        assert len(sent) == 2 * 2 * sum(ring.sends(rank, step) for step in range(devices - 1)) + home


def test_memory_of_a_rank_depends_on_its_shard_alone(ranks):
    """O(N / P): the same on 3 and 5 ranks with equal shards, and at most double for double shards.

    But for one block of keys and values: gloo lets go of what it has sent a moment after it has said so.
    """
    block = 2 * 512 * 64 * 4  # bytes; to keep what passes would take two more of them on 5 ranks than on 3
    some, many = (max(good(ranks.call("peaks", devices, 512))) for devices in (3, 5))
    large = max(good(ranks.call("peaks", 3, 1024)))
    for i in range(2):  # forward, and with the gradient
        assert many[i] <= 1.02 * some[i] + block
        assert large[i] <= 2.04 * some[i] + 2 * block


@pytest.mark.parametrize("what", ["length", "shape", "dtype", "causal", "window", "layout", "scale"])
def test_a_mismatch_is_an_error_on_every_rank(ranks, what):
    """And not a hang, and the next call goes through."""
    results = ranks.call("disagree", 3, what)
    assert all(isinstance(result, ValueError) and "disagree" in str(result) for result in results), results
    assert "rank 1" in str(results[0])


def test_a_step_of_decoding_compares_nothing_that_was_agreed_on(ranks):
    """Two all-reduces, or log₂ P exchanges of out and lse; only the first step asks what the others are about to do."""
    for form, moved in (("allreduce", {"all_reduce": 2}), ("doubling", {"batch_isend_irecv": 2 * 2})):
        for first, *steps in good(ranks.call("decoding", 4, form, 4)):
            assert first == {"all_gather_object": 1, **moved}
            assert steps == [moved] * 3


@pytest.mark.parametrize("what", ["refused", "kind"])
def test_arguments_that_one_rank_refuses(ranks, what):
    """That rank has its own error, the others are told."""
    zero, one, two = ranks.call("disagree", 3, what)
    assert isinstance(one, ValueError if what == "refused" else TypeError)
    for other in (zero, two):
        assert isinstance(other, ValueError)
        assert str(other) == f"the arguments of rank 1 were refused: {one}"


@pytest.mark.full
@pytest.mark.parametrize("gradient", [False, True])
def test_a_process_that_dies_or_falls_silent(gradient):
    """Those that wait for it stop, at once or after the group's timeout, and say whom they lost."""
    for how in ("dies", "falls silent"):
        with Ranks(3, timeout=2) as ranks:
            for result in ranks.call("lost", 3, how, gradient, heard=2):
                assert isinstance(result, RuntimeError), result
                assert "lost" in str(result)
        assert not any(process.is_alive() for process in ranks.processes)


@pytest.mark.full
def test_a_rank_that_differs_after_all_have_agreed():
    """Nothing is compared any more; the call still ends, and with an error on every rank."""
    with Ranks(3, timeout=2) as ranks:
        results = ranks.call("later", 3, 1)
    assert all(isinstance(result, RuntimeError) and "called something else" in str(result) for result in results)


def test_errors(ranks):
    """No group, and a second derivative."""
    q = torch.ones(2, 4, 6)
    refused(ValueError, "no process group", ring_attention, q, q, q)
    assert all(isinstance(x, NotImplementedError) and "twice" in str(x) for x in ranks.call("twice", 2))
