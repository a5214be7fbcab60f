"""What is asked, and what has come of it. Array-free."""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from attnlab.core.arguments import integer, number


class Timestamp(NamedTuple):
    """When something happened: after how many steps of the engine, and how many seconds after it was made."""

    step: int
    seconds: float


@dataclass(eq=False)
class Request:
    """A prompt (token ids), how to go on from it, and its ``sequences``: samples in order, or beams, the best first.

    ``index``: order of submission. ``temperature`` 0 is greedy. ``stop``: a token that ends a sample, itself included.
    ``preemptions``: how often one of its sequences lost its blocks. ``cancelled``: whether it was ended by
    Engine.cancel; then its outputs are what there was. Raises TypeError or ValueError, naming the option.
    """

    index: int
    prompt: list[int]
    max_tokens: int
    arrival: Timestamp
    seed: int = 0
    temperature: float = 0.0
    top_k: int | None = None
    top_p: float = 1.0
    samples: int = 1
    beams: int | None = None
    stop: int | None = None
    preemptions: int = field(default=0, init=False)
    cancelled: bool = field(default=False, init=False)
    sequences: list["Sequence"] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name, least in (("max_tokens", 1), ("samples", 1), ("seed", 0)):
            integer(name, getattr(self, name), least)
        for name, least in (("top_k", 1), ("beams", 1), ("stop", 0)):
            if getattr(self, name) is not None:
                integer(name, getattr(self, name), least)
        for name, x, rule, good in (
            ("seed", self.seed, "less than 2³²", self.seed < 2**32),
            ("temperature", self.temperature, "0 or more", number("temperature", self.temperature) >= 0),
            ("top_p", self.top_p, "in (0, 1]", 0 < number("top_p", self.top_p) <= 1),
        ):
            if not good:
                raise ValueError(f"{name} is {x}; it must be {rule}")
        if not self.prompt:
            raise ValueError("prompt is empty; there must be a token to go on from")
        if self.beams and (self.samples > 1 or self.temperature or self.stop is not None):
            raise ValueError(f"beams is {self.beams}; a beam search goes without temperature, samples and stop")
        self.sequences = [Sequence(self, 0, list(self.prompt))]

    @property
    def done(self) -> bool:
        """Whether all its sequences have ended."""
        return all(sequence.done for sequence in self.sequences)

    @property
    def outputs(self) -> list[list[int]]:
        """The tokens generated so far, of each sequence."""
        return [sequence.tokens[len(self.prompt) :] for sequence in self.sequences]

    @property
    def texts(self) -> list[bytes]:
        """The outputs as bytes."""
        return [bytes(output) for output in self.outputs]

    @property
    def scores(self) -> list[float]:
        """Of each beam, the logarithm of its probability given the prompt; 0 for samples."""
        return [sequence.score for sequence in self.sequences]

    @property
    def first_token(self) -> Timestamp | None:
        """When its first token came, None before."""
        return next(iter(self.sequences[0].moments), None)


@dataclass(eq=False)
class Sequence:
    """A sample or a beam of a request: prompt and generated ``tokens``, with the moment of each generated one.

    Its name in the block manager is the object itself. ``row``: log-probabilities of a beam's next token, once they are
    known, while others of the search are still to be computed; they outlive its blocks.
    """

    request: Request = field(repr=False)
    sample: int
    tokens: list[int] = field(repr=False)
    moments: list[Timestamp] = field(default_factory=list, repr=False)
    score: float = 0.0
    done: bool = False
    row: object = field(default=None, repr=False)

    def __repr__(self) -> str:
        return f"<sequence {self.sample} of request {self.request.index}, {len(self.tokens)} tokens>"


def blocks_needed(length: int, max_tokens: int, samples: int, block_size: int) -> int:
    """Blocks for a prompt of ``length`` tokens and ``samples`` continuations, which share the prompt's full blocks.

    f + n · (⌈(L + max_tokens − 1) / S⌉ − f) with f = ⌊L / S⌋: the last token is never fed.
    """
    shared = length // block_size
    return shared + samples * (math.ceil((length + max_tokens - 1) / block_size) - shared)
