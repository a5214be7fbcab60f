"""Ring and tree attention in JAX: five CPU devices give the numbers of one; collectives counted in the program."""

import jax.numpy as jnp
import pytest

from attnlab.measure import in_fresh_process
from attnlab.ring import ring_attention
from tests.conftest import quick_xla
from tests.support import needs, refused, selected

needs("jax")

EQUAL = [
    {"devices": 1, "length": 20, "layout": "striped", "causal": True},
    {"devices": 2, "length": 23, "layout": "zigzag"},
    {"devices": 3, "length": 23, "layout": "contiguous", "causal": True},
    {"devices": 3, "length": 23, "layout": "striped", "causal": True, "window": (2, 0), "dtype": "bfloat16"},
    {"devices": 4, "length": 20, "layout": "contiguous", "window": (5, 3)},
    {"devices": 4, "length": 23, "layout": "striped", "causal": True, "window": (5, 0), "scale": -0.3},
    {"devices": 5, "length": 20, "layout": "zigzag", "causal": True},
    {"devices": 5, "length": 3, "layout": "contiguous"},  # devices without tokens
]
PROGRAMS = [{"devices": 1, "slots": 16}, {"devices": 4}, {"devices": 5}, {"devices": 4, "slots": 1024}]
TREES = [
    {"devices": 4, "form": "allreduce"}, {"devices": 5, "form": "doubling"},
    {"devices": 3, "form": "allreduce", "dtype": "bfloat16"},
]  # fmt: skip
HEADS = {"name": "heads", "devices": 3}
ALGORITHMS = ["lazy", "online", "chunked", "tiled"]


@pytest.fixture(scope="module")
def found(request):
    """Results of the tasks that are tested, by the words of a task."""
    cases, every = selected(request, "case"), not request.config.option.markexpr
    tasks = [{"name": "equal", **x} for x in EQUAL if x in cases] + [{"name": "tree", **x} for x in TREES if x in cases]
    tasks += [HEADS, *({"name": "algorithm", "method": x} for x in selected(request, "method"))]
    tasks += [*({"name": "program", **x} for x in PROGRAMS), {"name": "cores"}] if every else []
    with pytest.MonkeyPatch.context() as here:
        here.setenv("XLA_FLAGS", quick_xla())
        results = list(in_fresh_process("tests.attnlab.ring.jax_devices:case", tasks))
    return {str(task): result for task, result in zip(tasks, results)}


def of(found, name, **options):
    """The result of a task."""
    return found[str({"name": name, **options})]


@pytest.mark.thin(8)
@pytest.mark.parametrize("case", EQUAL, ids=str)
def test_devices_give_the_numbers_of_one(found, case):
    """Forward and gradient, also through lse; masks, GQA, ragged lengths, NaN in the padding of all that comes in."""
    half = "dtype" in case
    for name, difference in of(found, "equal", **case).items():
        assert difference < ((2e-6 if name == "lse" else 0.02) if half else 1e-12), name


@pytest.mark.full
def test_permutes_stand_in_a_loop(found):
    """2 in the program, 8 with the gradient, however many the devices; one sends nothing."""
    for options in PROGRAMS:
        permutes = [count for count, _ in of(found, "program", **options)]
        assert permutes == ([0, 0] if options["devices"] == 1 else [2, 8])


@pytest.mark.full
def test_memory_of_a_device_depends_on_its_shard_alone(found):
    """O(N / P): the same on 4 and 5 devices with equal shards, and at most double for double shards."""
    some, many, large = ([size for _, size in of(found, "program", **options)] for options in PROGRAMS[1:])
    for i in range(2):  # forward, and with the gradient
        assert many[i] <= 1.02 * some[i]
        assert large[i] <= 2 * some[i]


@pytest.mark.thin(3)
@pytest.mark.parametrize("case", TREES, ids=str)
def test_tree_attention_is_one_call_over_all_keys(found, case):
    """In two all-reduces, or by doubling, where all devices agree to the last bit."""
    result = of(found, "tree", **case)
    assert result["difference"] < (0.01 if "dtype" in case else 1e-12)
    assert result["disagreement"] == 0
    if case["form"] == "allreduce":
        assert (result["all-reduce"], result["collective-permute"]) == (2, 0)
    else:  # to the partner of rank 4, at distances 1 and 2, and back: out and lse
        assert (result["all-reduce"], result["collective-permute"]) == (0, 8)


@pytest.mark.full
def test_which_core_runs_in_half_precision(found):
    """The loops, also where a call on one device goes to cuDNN: that hands out no lse that could be merged.

    They get keys and values in half precision, and a wide query, because they write what they read. Likewise what
    travels: blocks in half precision, and on the way back sums in float32.
    """
    asked, travels = of(found, "cores")
    *parts, alone = asked
    assert alone == [["bfloat16"] * 3, True]
    assert len(parts) > 1
    assert all(part == [["float32", "bfloat16", "bfloat16"], False] for part in parts)
    assert sorted(travels) == ["bf16"] * 4 + ["f32"] * 4


@pytest.mark.thin(4)
@pytest.mark.parametrize("method", ALGORITHMS)
def test_algorithms_work_inside_shard_map(found, method):
    """With its default checks; the gradient of a replicated query is summed over the devices."""
    assert of(found, "algorithm", method=method) < 1e-12


def test_heads_for_tokens(found):
    """Forward and gradient, causal, in shard_map."""
    errors = of(found, **HEADS)
    assert len(errors) == 4
    assert max(errors) < 1e-12


def test_errors():
    """Without an axis, or outside shard_map."""
    x = jnp.ones((2, 4, 6))
    refused(ValueError, "axis_name is None", ring_attention, x, x, x)
    refused(ValueError, "inside jax", ring_attention, x, x, x, axis_name="ranks")
    refused(TypeError, "group is 3", ring_attention, x, x, x, axis_name="ranks", group=3)
