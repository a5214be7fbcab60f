"""The server beside the model alone (``--serve``), in NumPy.

The first table: tokens per second of the engine, and of the same texts written in one batch by calls of the model with
a contiguous cache, which need texts of equal lengths that come and go together. The second one: what a step of the
engine costs beside the model, with a runner that computes nothing.
"""

import argparse
from collections.abc import Iterator
from typing import Any

from attnlab_course import model
from attnlab_course.bench.question import Question, Times, format_ms, format_ratio
from attnlab_course.instruments.timing import Call
from attnlab_course.model import FIRST, Cached, Model
from attnlab_course.serve import Engine

import numpy as np

BATCHES = (1, 4, 16)
REQUESTS = (50, 200, 800)
PROMPT, NEW = 64, 16  # bytes of each prompt, and bytes that follow


class Nothing:
    """A runner that computes nothing: every next token is 0."""

    nbytes = 0

    def __init__(self, model: Any, manager: Any) -> None:
        self.rows = np.zeros((max(REQUESTS), FIRST), np.float32)

    def __call__(self, plan: Any) -> np.ndarray:
        """As many rows as the plan has chunks."""
        return self.rows[: len(plan.chunks)]


def make_questions(options: argparse.Namespace) -> Iterator[Question]:
    """Tokens per second, and the step without a model."""
    lm = model.load()
    yield Question("Tokens per second of the server, and of the model alone in one batch",
                   ("texts", "engine", "model alone", "ratio"), BATCHES,
                   lambda batch: prepare_texts(lm, batch), make_rates)  # fmt: skip
    yield Question("A step of the server without a model, ms",
                   ("requests", "greedy", "drawn"), REQUESTS, prepare_steps,
                   lambda count, times: [[f"{count}", *map(format_ms, times.values())]])  # fmt: skip


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


def prepare_steps(count: int) -> dict[str, Call]:
    """Steps of an engine without a model in which ``count`` requests get a token each, the likeliest or a drawn one."""
    return {"numpy greedy": _prepare_step(count, 0.0), "numpy drawn": _prepare_step(count, 1.0)}


def _prepare_step(count: int, temperature: float) -> Call:
    server = Engine(model.load(), 8 * count, 16, count, runner=Nothing)

    def call() -> object:
        if not server.requests:
            for seed in range(count):
                server.submit([97], 100, seed=seed, temperature=temperature)
        return server.step()

    return call
