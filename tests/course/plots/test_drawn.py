"""A figure that Python draws step by step: what's played is what was drawn, and what was drawn is what was counted."""

import re

import numpy as np
import pytest
from attnlab_course import model
from attnlab_course.plots.moving import pages, ring
from attnlab_course.plots.moving.drawn import Film, box, changes, word
from attnlab_course.serve import Engine

from attnlab.ring import Cluster, positions, ring_attention, shard

PROMPTS = ["def f(x):", "import ", "    return ", "class A(", "for i in "]


def test_what_is_played_is_what_was_drawn():
    drawn = [[box(0, 0, wide, 5, fill=fill), word(0, 9, fill)] for wide, fill in ((1, "a"), (2, "a"), (2, "b"))]
    found = changes([[mark.attributes for mark in marks] for marks in drawn])
    assert found == [
        {(0, "width"): 1, (0, "fill"): "a", (1, "text"): "a"}, {(0, "width"): 2}, {(0, "fill"): "b", (1, "text"): "b"},
    ]  # fmt: skip
    film = Film(10, 10, "{}", [([step], marks) for step, marks in enumerate(drawn)])
    names = ["fill", "text", "width"]
    assert film.trace() == ["{}", names, [[0], [2, 1, 0, "a", 4, "a"]], [[1], [2, 2]], [[2], [0, "b", 4, "b"]]]
    assert film.frame().count("<rect") == film.frame().count("<text") == 1


@pytest.mark.parametrize(("samples", "blocks"), [(1, 6), (3, 12)])
def test_the_blocks_of_a_pool_are_those_that_the_engine_counts(samples, blocks):
    lm, options = model.load(), {"samples": samples, "temperature": 1.0}
    served = pages.serve(lm, PROMPTS, 9, blocks=blocks, block_size=4, budget=16, **options)
    engine = Engine(lm, blocks, 4, 16)
    requests = [engine.submit(prompt, 9, **options) for prompt in PROMPTS]
    engine.run()
    assert [step.record._replace(seconds=0) for step in served.steps] == [
        record._replace(seconds=0) for record in engine.trace
    ]
    for step in served.steps:
        held = step.blocks.values()
        assert len(held) == step.record.blocks
        assert sum(block.filled for block in held) == step.record.filled
        assert sum(row.fed for row in step.rows) == step.record.tokens
        assert sum(row.said == "stopped" for row in step.rows) == step.record.preempted
    assert sum(step.record.preempted for step in served.steps) > 0
    assert served.steps[-1].made == sum(len(text) for request in requests for text in request.texts)
    assert any(len(block.texts) > 1 for step in served.steps for block in step.blocks.values()) == (samples > 1)


def rectangles(path):
    """The rectangles of a path: where, and how wide and tall."""
    found = [list(map(int, re.findall(r"-?\d+", part))) for part in path.split("M")[1:]]
    return [(x, y, wide, tall) for x, y, wide, tall, _ in found]


@pytest.mark.parametrize("layout", ["contiguous", "striped", "zigzag"])
def test_the_squares_of_a_ring_show_what_is_visible_and_counted(layout):
    turned = ring.turn(8, layout)
    held = positions(32, 4, layout)
    for step in range(4):
        for device in range(4):
            holder = turned.ring.holder(device, step)
            shown = np.zeros((8, 8), int)
            for x, y, wide, tall in rectangles(ring.visible(turned.ring.parts(device, holder), 0, 0, 1)):
                shown[y : y + tall, x : x + wide] += 1
            assert (shown == (np.array(held[device])[:, None] >= held[holder])).all()
            done = [each.pairs for each in turned.cluster.work if (each.rank, each.step) == (device, step)]
            assert shown.sum() == sum(done)
            assert turned.holders[step][holder] == (device if done else None)


@pytest.mark.parametrize("layout", ["contiguous", "striped", "zigzag"])
def test_a_turn_ends_at_the_counts_of_the_cluster(layout):
    def program(rank, *x):
        return (yield from ring_attention(*x, group=rank, causal=True, layout=layout))

    plain, size = Cluster(4, rate=4.0 * ring.SIZE), ring.SIZE
    plain.run(program, *(shard(x, 4, layout) for x in np.zeros((3, 32, size))))
    pairs = sum(work.pairs for work in plain.work)
    assert ring.numbers(ring.turn(8, layout))[-1] == [4, plain.bytes // 8, pairs, 4 * plain.time - pairs]

