"""Named machines, and the reader's own."""


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


def test_a_step_of_decoding_reads_weights_once_and_every_cache():
    """So the intensity of a cache doesn't grow with the batch."""
    assert TOY.decoding(60, 20) == (8.0, 2 * (60 + 20) / 2 / 100)
    assert TOY.decoding(60, 20, batch=3) == (12.0, 3 * 2 * (60 + 20) / 2 / 100)
    assert TOY.decoding(60, 20, group=4, itemsize=1) == (8.0, 2 * (60 + 4 * 20) / 100)


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
    assert ACCELERATORS[machine].source


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
    with pytest.raises(ValueError, match="dtype is 'bfloat16'; it must be one of float16, float32, float64"):
        hardware.this_machine("numpy", "bfloat16")
    with pytest.raises(ValueError, match="dtype is 'int8'"):
        hardware.this_machine("torch", "int8")


def test_traffic_of_the_ladder_is_counted_on_its_closed_forms():
    counted = ladder_costs.count_traffic((48,))
    assert list(counted) == list(METHODS)
    for name, found in counted.items():
        assert found == {48: costs.forward(name, 48, 48, 64, 64, itemsize=4).bytes}
    assert len(ladder_costs.traffic(counted).axes) == 1
    points = {name: {256: 1e-3, 512: 2e-3} for name in METHODS}
    clock = Clock({name: {n: (t, t, t) for n, t in row.items()} for name, row in points.items()})
    for figure in (ladder_costs.memory(points), ladder_costs.place(256, 64), ladder_costs.times(clock, TOY)):
        assert figure.axes[0].get_xlabel()

