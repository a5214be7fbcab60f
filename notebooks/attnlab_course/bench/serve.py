"""The server beside the model alone (``--serve``), as two tables in Markdown.

The first one: tokens per second of the engine, and of the same texts written in one batch by calls of the model with a
contiguous cache, which need texts of equal lengths that come and go together. The second one: what a step of the
engine costs beside the model, with a runner that computes nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from attnlab_course import model
from attnlab_course.bench.table import describe_machine, describe_versions, grid
from attnlab_course.instruments.timing import interleave, medians
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


def print_tables(rounds: int | None, seconds: float | int) -> None:
    """Measure in NumPy, and print."""
    print(f"{describe_machine('cpu')}; {describe_versions()}. Medians.\n")
    taken = {}
    for batch in BATCHES:
        found, _ = interleave(texts(model.load(), batch), rounds, seconds, settle=False)
        taken |= {(batch, who): seconds for who, seconds in medians(found).items()}
    head = "texts", "engine, tokens/s", "model alone, tokens/s", "engine ÷ model alone"
    print(*grid(head, throughput(taken)), "", sep="\n", flush=True)
    calls = {(count, how): step(count, temperature) for count in REQUESTS
             for how, temperature in (("greedy", 0.0), ("drawn", 1.0))}  # fmt: skip
    found, _ = interleave({f"{count} {how}": call for (count, how), call in calls.items()}, rounds, seconds)
    steps = dict(zip(calls, medians(found).values()))
    print(*grid(("requests", "a step without a model, greedy", "drawn"), overhead(steps)), sep="\n")


def texts(lm: Model, batch: int) -> dict[str, Callable[[], object]]:
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

    return {"engine": engine, "model alone": alone}


def step(count: int, temperature: float) -> Callable[[], object]:
    """A step of an engine without a model in which ``count`` requests get a token each."""
    server = Engine(model.load(), 8 * count, 16, count, runner=Nothing)

    def call() -> object:
        if not server.requests:
            for seed in range(count):
                server.submit([97], 100, seed=seed, temperature=temperature)
        return server.step()

    return call


def throughput(taken: Mapping[tuple[int, str], float]) -> Iterator[list[str]]:
    """Rows of the first table."""
    for batch in sorted({batch for batch, _ in taken}):
        ours, alone = (batch * NEW / taken[batch, who] for who in ("engine", "model alone"))
        yield [f"{batch}", f"{ours:,.0f}", f"{alone:,.0f}", f"{ours / alone:.2f}"]


def overhead(taken: Mapping[tuple[int, str], float]) -> Iterator[list[str]]:
    """Rows of the second table."""
    for count in sorted({count for count, _ in taken}):
        yield [f"{count}", *(f"{1e3 * taken[count, how]:.2f} ms" for how in ("greedy", "drawn"))]
