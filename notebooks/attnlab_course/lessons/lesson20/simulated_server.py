"""A server under load, without a model: the package's own scheduler, a pool that only counts, a clock by formula."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from attnlab.paged import Appended, OutOfBlocks
from attnlab_course.serve import Plan


@dataclass(eq=False)
class Text:
    """A request as the scheduler sees it: ``tokens`` so far, and its ``row``, which only beams have.

    ``length``: tokens that it will come to, which no scheduler knows. ``times``: when each of them came, in seconds.
    """

    index: int
    prompt: int
    length: int
    arrival: float
    tokens: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    preempted: int = 0
    row: None = None

    @property
    def sequences(self) -> list["Text"]:
        """A request with one sample is its own only sequence."""
        return [self]

    @property
    def request(self) -> "Text":
        """The request of a sequence."""
        return self


class Counter:
    """A block manager that only counts, each text's blocks for itself: no prefixes, no tables."""

    def __init__(self, blocks: int, block_size: int) -> None:
        self.blocks = self.free_blocks = blocks
        self.block_size, self._lengths = block_size, dict[Text, int]()

    def __contains__(self, text: Text) -> bool:
        return text in self._lengths

    def add(self, text: Text, tokens: Sequence[int]) -> None:
        """Begin a text with nothing."""
        self._lengths[text] = 0

    def length(self, text: Text) -> int:
        """Tokens of a text that are held."""
        return self._lengths[text]

    def table(self, text: Text) -> range:
        """Its blocks."""
        return range(-(-self._lengths[text] // self.block_size))

    def append(self, text: Text, tokens: Sequence[int]) -> Appended:
        """Hold more tokens; raises OutOfBlocks."""
        length = self._lengths[text] + len(tokens)
        more = -(-length // self.block_size) - len(self.table(text))
        if more > self.free_blocks:
            raise OutOfBlocks(f"{more} more blocks are needed; {self.free_blocks} are free")
        self.free_blocks -= more
        self._lengths[text] = length
        return Appended([], [])

    def free(self, text: Text) -> None:
        """Give its blocks back."""
        self.free_blocks += len(self.table(text))
        del self._lengths[text]


def simulate(
    policy: Callable[[list[Text], Counter, int], Plan], texts: list[Text], seconds: Callable[[int, int], float],
    *, blocks: int, block_size: int = 16, budget: int = 128,
) -> list[tuple[int, set[int]]]:
    """Serve ``texts``, which come in order of arrival; fills in their ``times``.

    ``policy``: plans a step, as serve.schedule does. ``seconds``: of a step, given the tokens that are fed and
    all tokens whose keys are read. Returns each step's tokens, and the indices of the texts among them.
    """
    pool, live, steps, clock = Counter(blocks, block_size), list[Text](), [], 0.0
    coming = texts[::-1]
    while coming or live:
        clock = clock if live else max(clock, coming[-1].arrival)
        while coming and coming[-1].arrival <= clock:
            text = coming.pop()
            text.tokens = [0] * text.prompt
            live.append(text)
        plan = policy(live, pool, budget)
        if not plan.chunks:
            raise RuntimeError(f"the policy feeds none of {len(live)} texts")
        fed = sum(len(chunk.tokens) for chunk in plan.chunks)
        clock += seconds(fed, sum(chunk.start + len(chunk.tokens) for chunk in plan.chunks))
        steps.append((fed, {chunk.sequence.index for chunk in plan.chunks}))
        for text in plan.preempted:
            text.preempted += 1
        for text in [chunk.sequence for chunk in plan.chunks]:
            if pool.length(text) == len(text.tokens):
                text.tokens.append(0)
                text.times.append(clock)
                if len(text.times) == text.length:
                    pool.free(text)
                    live.remove(text)
    return steps
