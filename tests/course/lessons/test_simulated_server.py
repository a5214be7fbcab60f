"""The simulation of lesson 20 plans the steps that the engine takes."""

from types import SimpleNamespace

import numpy as np
import pytest
from attnlab_course.lessons.lesson20.simulated_server import Counter, Text, simulate
from attnlab_course.serve import Engine, schedule

from attnlab.paged import OutOfBlocks

PROMPTS, LENGTHS = [30, 1, 200, 17, 64, 90], [5, 40, 3, 20, 1, 12]


class Ends:
    """A runner without a model: each text ends at its length."""

    def __init__(self, model, manager):
        pass

    def __call__(self, plan):
        rows = np.zeros((len(plan.chunks), 256))
        for row, chunk in zip(rows, plan.chunks):
            request = chunk.sequence.request
            row[int(len(chunk.sequence.tokens) - len(request.prompt) + 1 < LENGTHS[request.index])] = 1
        return rows


@pytest.mark.parametrize("blocks", [100, 20])
def test_the_simulation_takes_the_steps_of_the_engine(blocks):
    engine = Engine(SimpleNamespace(config=SimpleNamespace(first=False, vocabulary=256)), blocks, 16, 32, runner=Ends)
    rng = np.random.default_rng(0)
    for prompt in PROMPTS:
        engine.submit(rng.integers(0, 256, prompt), 60, stop=0)
    engine.run()
    texts = [Text(at, *each, arrival=0.0) for at, each in enumerate(zip(PROMPTS, LENGTHS))]
    steps = simulate(schedule, texts, lambda tokens, read: 1.0, blocks=blocks, budget=32)
    assert [len(text.times) for text in texts] == LENGTHS
    assert [fed for fed, _ in steps] == [record.tokens for record in engine.trace]


def test_what_is_full_and_who_feeds_nobody():
    pool, text = Counter(2, 4), Text(0, 9, 1, 0.0)
    pool.add(text, [])
    with pytest.raises(OutOfBlocks, match="3 more blocks are needed; 2 are free"):
        pool.append(text, [0] * 9)
    with pytest.raises(RuntimeError, match="feeds none of 1 texts"):
        simulate(lambda *_: schedule([], pool, 1), [text], lambda *_: 1.0, blocks=2)
