"""The server beside the model alone (``--serve``), in NumPy.

Tokens per second of the engine, and of the same texts written in one batch by calls of the model with a contiguous
cache, which need texts of equal lengths that come and go together.
"""

import argparse
from collections.abc import Iterator

from attnlab_course import model
from attnlab_course.bench.question import Question, Times, format_ratio
from attnlab_course.instruments.timing import Call
from attnlab_course.model import FIRST, Cached, Model
from attnlab_course.serve import Engine

import numpy as np

BATCHES = (1, 4, 16)
PROMPT, NEW = 64, 16  # bytes of each prompt, and bytes that follow


def make_questions(options: argparse.Namespace) -> Iterator[Question]:
    """Tokens per second of both, a row for each number of texts."""
    lm = model.load()
    yield Question("Tokens per second of the server, and of the model alone in one batch",
                   ("texts", "engine", "model alone", "ratio"), BATCHES,
                   lambda batch: prepare_texts(lm, batch), make_rates)  # fmt: skip


def prepare_texts(lm: Model, batch: int) -> dict[str, Call]:
    """Two ways to continue ``batch`` different prompts by NEW bytes, greedily; both return the texts."""
    excerpt = model.excerpt()
    prompts = [excerpt[97 * i : 97 * i + PROMPT] for i in range(batch)]
    tokens = np.stack([model.tokens(prompt, first=lm.config.first) for prompt in prompts])

    def engine() -> list[bytes]:
        size = 16
        server = Engine(lm, batch * -(-(tokens.shape[1] + NEW) // size), size, budget=256)
        requests = [server.submit(prompt, NEW) for prompt in prompts]
        server.run()
        return [request.texts[0] for request in requests]

    def alone() -> list[bytes]:
        attend, new, found = Cached(capacity=tokens.shape[1] + NEW), tokens, []
        for _ in range(NEW):
            new = lm.logits(new, attend)[:, -1:, :FIRST].argmax(-1)
            found.append(new)
        return [bytes(row.tolist()) for row in np.concatenate(found, 1)]

    return {"numpy engine": engine, "numpy alone": alone}


def make_rates(batch: int, times: Times) -> Iterator[list[str]]:
    """Rates of both, and their ratio."""
    engine, alone = times.values()
    yield [f"{batch}", f"{batch * NEW / engine:,.0f}", f"{batch * NEW / alone:,.0f}", format_ratio(alone, engine)]
