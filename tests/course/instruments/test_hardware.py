"""Named machines, and the reader's own."""

from dataclasses import FrozenInstanceError

import pytest
from attnlab_course.instruments import hardware
from attnlab_course.instruments.clock import Clock
from attnlab_course.instruments.hardware import ACCELERATORS, Accelerator
from attnlab_course.plots import ladder_costs

from attnlab import METHODS, costs

TOY = Accelerator("toy", 100.0, 10.0, 1000, 10, "made up")


def test_balance_roof_and_time():
    assert TOY.balance == 10
    assert [TOY.attainable(x) for x in (0, 1, 10, 11, 1000)] == [0, 10, 100, 100, 100]
    assert TOY.time(100, 10) == 1
    assert TOY.time(100, 20) == 2  # not 3: the two overlap
    assert TOY.time(300, 20) == 3


def test_time_is_work_over_the_roof():
    for flops, moved in ((1.0, 1.0), (50.0, 3.0), (7.0, 0.1)):
        assert TOY.time(flops, moved) == pytest.approx(flops / TOY.attainable(flops / moved))


def test_a_step_of_decoding_reads_weights_once_and_every_cache():
    assert TOY.decoding(60, 20) == (8.0, 2 * (60 + 20) / 2 / 100)
    assert TOY.decoding(60, 20, batch=3) == (12.0, 3 * 2 * (60 + 20) / 2 / 100)
    assert TOY.decoding(60, 20, group=4, itemsize=1) == (8.0, 2 * (60 + 4 * 20) / 100)


def test_multi_query_attention_of_gpt_3():
    """96 layers of 96 heads, 350 GB of weights, 4,096 tokens: one key head is no 96 times faster, but for many."""
    cache = 96 * 2 * 96 * 128 * 4096 * 2
    assert cache == 18 * 2**30
    machine = ACCELERATORS["A100 80 GB"]
    ratios = [
        machine.decoding(350e9, cache, batch)[0] / machine.decoding(350e9, cache // 96, batch, group=96)[0]
        for batch in (1, 8, 64, 512)
    ]
    assert ratios == pytest.approx([1.055, 1.44, 4.37, 22.6], rel=5e-3)


def test_decoding_is_bound_by_memory_up_to_a_batch():
    """Weights alone in half precision: arithmetic takes over where the batch is the machine's balance, 240 on TPU v5e.

    With caches it never does: the intensity of a cache does not grow with the batch.
    """
    v5e = Accelerator("TPU v5e", 197e12, 820e9, 16 * 2**30, None, "How to scale your model, Google DeepMind 2025")
    assert v5e.balance == pytest.approx(240, rel=2e-3)
    memory, arithmetic = v5e.decoding(26e9, 0, batch=240)
    assert memory == pytest.approx(arithmetic, rel=2e-3)
    for batch in (1, 240, 10_000):
        memory, arithmetic = v5e.decoding(26e9, 6.7e9, batch)
        assert memory > arithmetic


def test_balances_of_named_accelerators():
    balances = {name: round(x.balance) for name, x in ACCELERATORS.items()}
    assert balances == {
        "T4": 217, "TPU v3": 137, "A100 40 GB": 201, "A100 80 GB": 153, "H100": 295, "H200": 206, "MI300X": 247,
        "B200": 281,
    }  # fmt: skip


@pytest.mark.parametrize("name", ACCELERATORS)
def test_every_accelerator_has_a_source(name):
    machine = ACCELERATORS[name]
    assert machine.name == name
    assert machine.source
    assert machine.memory > 10**9 > (machine.on_chip or 0)


@pytest.mark.parametrize(
    ("chip", "machine", "products"), [("A100", "A100 40 GB", 2048), ("H100", "H100", 4096), ("B200", "B200", 8192)]
)
def test_multiprocessors_add_up_to_the_chip(chip, machine, products):
    parts = hardware.MULTIPROCESSORS[chip]  # FLOP of half precision products in each, per cycle: the white papers
    assert parts.count * products * parts.clock == pytest.approx(ACCELERATORS[machine].flops, rel=1e-3)
    assert parts.exponentials == parts.count * 16 * parts.clock
    assert parts.vector < ACCELERATORS[machine].flops / 10
    assert parts.count * parts.shared < parts.l2 < ACCELERATORS[machine].memory
    if parts.l2_cycle is None:
        assert parts.l2_bandwidth is None
    else:
        assert 2 < parts.l2_bandwidth / ACCELERATORS[machine].bandwidth < 5
    assert parts.source


def test_frozen():
    with pytest.raises(FrozenInstanceError):
        TOY.flops = 1.0


@pytest.mark.parametrize("library", ["numpy", "jax", "torch"])
def test_this_machine(library):
    machine = hardware.this_machine(library, seconds=0.01)
    assert library in machine.name
    assert 1e8 < machine.flops < 1e15
    assert 1e8 < machine.bandwidth < 1e14


@pytest.mark.parametrize(("library", "dtype"), [("torch", "bfloat16"), ("jax", "float64"), ("numpy", "float16")])
def test_other_precisions(library, dtype):
    assert hardware.product_rate(hardware.operations(library, dtype)[0], 0.01) > 1e6


def test_what_is_unknown_is_refused():
    with pytest.raises(ValueError, match="library is 'cupy'; it must be one of numpy, jax, torch"):
        hardware.this_machine("cupy")
    with pytest.raises(ValueError, match="dtype is 'bfloat16'; numpy has float16, float32, float64"):
        hardware.this_machine("numpy", "bfloat16")
    with pytest.raises(ValueError, match="dtype is 'int8'"):
        hardware.this_machine("torch", "int8")


def test_table_has_a_line_for_each():
    lines = list(hardware.table([*ACCELERATORS.values(), TOY]))
    assert len(lines) == len(ACCELERATORS) + 2
    assert "–" in next(line for line in lines if line.startswith("B200"))


def test_traffic_of_the_ladder_is_counted_on_its_closed_forms():
    counted = ladder_costs.count_traffic((48,))
    assert list(counted) == list(METHODS)
    for name, found in counted.items():
        assert found == {48: costs.forward(name, 48, 48, 64, 64, itemsize=4).bytes}
    assert len(ladder_costs.traffic(counted).axes) == 1


def test_ladder_figures_draw():
    points = {name: {256: 1e-3, 512: 2e-3} for name in METHODS}
    clock = Clock({name: {n: (t, t, t) for n, t in row.items()} for name, row in points.items()})
    for figure in (ladder_costs.memory(points), ladder_costs.place(256, 64), ladder_costs.times(clock, TOY)):
        assert figure.axes[0].get_xlabel()
