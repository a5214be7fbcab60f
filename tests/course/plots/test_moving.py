"""What a moving figure plays is what the machine counted."""

import numpy as np
import pytest
from attnlab_course import model
from attnlab_course.instruments import hardware, machine
from attnlab_course.ladder import LADDER
from attnlab_course.plots import moving
from attnlab_course.plots.moving import arrivals, mask, pages, ring, roof, scales, timeline, waves
from attnlab_course.plots.moving.walk import SIZE

from attnlab import costs

PROGRAMS = {"keys outside": machine.flash_forward, "queries outside": machine.flash2_forward}
OPTIONS = [{}, {"causal": True}, {"window": 3}, {"block_mask": np.arange(12).reshape(4, 3) % 3 > 0}]


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_walk_ends_at_the_counts_of_the_machine(program, options):
    walked = moving.run(program, 7, 10, block_q=2, block_k=4, **options)
    plain = machine.Machine(itemsize=1)
    random = np.random.default_rng(0)
    arrays = [plain.put(name, random.normal(size=(size, SIZE))) for name, size in zip("QKV", (7, 10, 10))]
    program(plain, *arrays, block_q=2, block_k=4, **options)
    last = walked.visits[-1]
    assert (last.loaded, last.stored, walked.held) == (plain.loads.total(), plain.stores.total(), plain.peak)


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_walk_visits_each_tile_once_and_loads_what_it_marks(program):
    visits = moving.run(program, 7, 10, block_q=2, block_k=4).visits
    tiles = [(visit.row, visit.rows, visit.col, visit.cols) for visit in visits]
    assert len(set(tiles)) == len(tiles) == 12
    assert sum(rows * cols for _, rows, _, cols in tiles) == 70
    outside, inside = ("keys", "queries") if program is machine.flash_forward else ("queries", "keys")
    assert [getattr(visit, outside) for visit in visits] == [
        getattr(visit, "col" if outside == "keys" else "row") != getattr(before, "col" if outside == "keys" else "row")
        for before, visit in zip([visits[-1], *visits], visits)
    ]
    assert all(getattr(visit, inside) for visit in visits)


@pytest.mark.parametrize("size", [2, 4, 8])
@pytest.mark.parametrize("name", mask.masks())
def test_the_visits_to_a_mask_are_the_tiles_that_see_something(name, size):
    seen, visits, block = mask.masks()[name], mask.visits(mask.masks()[name], size), range(mask.N // size)
    cut = seen.reshape(len(block), size, len(block), size)
    tiles = {(row, col): cut[row, :, col] for row in block for col in block}
    kinds = {at: mask.WHOLE if tile.all() else mask.PARTIAL for at, tile in tiles.items() if tile.any()}
    assert {(visit.row, visit.col): visit.kind for visit in visits} == kinds
    table = np.array([[(row, col) in kinds for col in block] for row in block])
    lengths = (mask.N, mask.N, mask.SIZE, mask.SIZE)
    form = costs.forward("flash", *lengths, block_q=size, block_k=size, block_mask=table)
    assert (visits[-1].products, visits[-1].bytes) == (form.products, form.bytes)


@pytest.mark.parametrize("n", roof.LENGTHS[:3])
def test_a_place_on_the_roofline_is_what_the_machine_counts(n):
    counted = machine.Machine(itemsize=2)
    arrays = [counted.put(name, np.ones((n, 64))) for name in "QKV"]
    machine.flash2_forward(counted, *arrays, block_q=128, block_k=64)
    place = roof.place("tiled, queries stay", n, 64, 128)
    assert place.l2 == counted.work.products / counted.bytes
    assert place.hbm == counted.work.products / (2 * 4 * n * 64)


def test_the_roofline_names_the_longest_of_three_times():
    places = {name: roof.place(name, 8192, 128, 128) for name in roof.METHODS}
    assert {name: place.bound for name, place in places.items()} == {
        "tiled, queries stay": 0, "tiled, keys stay": 0, "unfused": 2, "decoding, one query": 2,
    }
    small, large = (roof.place("unfused", n, 128, 0) for n in (2048, 4096))
    assert small.hbm > small.l2
    assert large.hbm == large.l2
    for place in places.values():
        x, y, x2, y2 = roof.points(place)
        assert 0 <= min(x, x2) <= max(x, x2) <= roof.WIDE
        assert 0 < min(y, y2) <= max(y, y2) <= roof.TALL


@pytest.mark.parametrize(("name", "times"), [("head by head", 1), ("heads in turn", 10)])
def test_l2_serves_the_programs_of_an_a100(name, times):
    order, keys = waves.orders(16, 64)[name], 8192 // 64
    last = waves.play(order, keys, 108, hardware.MULTIPROCESSORS["A100"].l2 // (2 * 2 * 64 * 128))[-1]
    assert last.asked == len(order) * keys
    assert sum(last.crossed.values()) == times * 16 * keys


PLAN = [("products", 0, "S0", 0.0, 0.5), ("exp", 0, "P0", 0.5, 1.0), ("products", 0, "O0", 1.0, 1.5)]


@pytest.mark.parametrize(("now", "shown"), [(0, (0, 1, 0)), (0.5, (0, 1, 1)), (1.25, (0, 1, 0.6)), (9, (1, 1, 2 / 3))])
def test_a_plan_at_a_time(now, shown):
    assert timeline.state(PLAN, now) == pytest.approx(shown)


def test_the_timeline_stops_at_every_beginning_and_end():
    (film,) = timeline.timeline({"one": PLAN}).trace.values()
    assert [step[0] for step in film[2:]] == [[0.0], [0.5], [1.0], [1.5]]


def test_the_scales_weigh_what_the_row_does():
    row = np.array(scales.ROW)
    for count, (part,) in enumerate(scales.fold(), 1):
        seen = row[:count]
        assert (part.m, part.total) == pytest.approx((seen.max(), np.exp(seen - seen.max()).sum()))
    for parts in scales.tree():
        assert sum(part.total * np.exp(part.m) for part in parts) == pytest.approx(np.exp(row).sum())
    for prefix, (folded,) in zip(scales.scan()[-1], scales.fold(), strict=True):
        assert (prefix.first, prefix.last, prefix.m) == (folded.first, folded.last, folded.m)
        assert np.isclose(prefix.total, folded.total)
    assert scales.fold(forget=True)[-1][0].total > 1.5 * scales.fold()[-1][0].total


@pytest.fixture(scope="module")
def figures():
    """All of them, made once."""
    prompts = ["def f(x):", "import ", "    return "]
    return [
        moving.walk({"one": moving.run(machine.flash_forward, 7, 10, block_q=2, block_k=4)}), moving.mask_in_blocks(),
        moving.roofline(), waves.programs(), scales.scales(), arrivals.arrivals(), timeline.timeline({"one": PLAN}),
        pages.figure({"one": pages.serve(model.load(), prompts, 9, blocks=6, block_size=4, budget=16)}),
        ring.turns({layout: ring.turn(8, layout) for layout in ("contiguous", "striped", "zigzag")}),
    ]  # fmt: skip


def test_figures_are_small_and_need_nothing(figures):
    for figure in figures:
        page = figure.page()
        assert len(page) < 30_000
        assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    assert 'aria-label="A small tile walks over the square of 7 by 10 scores in 12 visits.' in figures[0].page()


@pytest.mark.parametrize(("program", "moved"), [
    (machine.flash_backward, 4 * 10 * 8 + 3 * (5 * 7 * 8 + 2 * 7)),  # (10.6), in 3 passes
    (machine.flash_forward, 2 * 10 * 8 + 3 * (3 * 7 * 8 + 4 * 7)),  # (9.4)
])  # fmt: skip
def test_the_walks_of_lesson_10_move_what_the_equations_say(program, moved):
    backward = program is machine.flash_backward
    last = moving.run(program, 7, 10, gradient=backward, block_q=2, block_k=4).visits[-1]
    assert last.loaded + last.stored == moved


@pytest.mark.parametrize("name", LADDER)
def test_what_is_held_is_worth_every_score_that_arrived(name):
    for count in range(1, len(scales.ROW) + 1):
        now = arrivals.held(name, count)
        worth = sum(l * np.exp(m or 0) for m, l in now.sums) + np.exp(now.scores).sum()
        assert worth == pytest.approx(np.exp(scales.ROW[:count]).sum())
    assert len(now.scores) == (8 if LADDER[name].at_once == "matrix" else 0)
    assert len(now.sums) == {"matrix": 0, "chunk": 3}.get(LADDER[name].at_once, 1)
