"""The engine: requests in, tokens out, step by step. Array-free but for the rows of logits that a step brings."""

import time
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Many
from contextlib import nullcontext
from itertools import islice
from typing import Any

from attnlab.core.arguments import integer
from attnlab.paged import BlockManager
from attnlab_course.model import tokens as tokens_of
from attnlab_course.serve.beam import branch
from attnlab_course.serve.drafts import Draft, with_guesses
from attnlab_course.serve.request import Request, Sequence, Timestamp, blocks_needed
from attnlab_course.serve.runner import Runner
from attnlab_course.serve.sampling import choose, log_softmax, uniform
from attnlab_course.serve.scheduler import Chunk, num_unfed_tokens, schedule
from attnlab_course.serve.trace import StepRecord, record_step

Event = tuple[Request, int, int]


class Engine:
    """Serves ``model`` from ``blocks`` blocks of ``block_size`` tokens, feeding at most ``budget`` tokens a step.

        engine = Engine(model.load(), blocks=64, block_size=16, budget=64)
        request = engine.submit("def ", max_tokens=40, seed=1, temperature=0.8, samples=2)
        engine.run()
        request.texts

    ``requests``: those not done, in order of arrival. ``steps``: taken so far. ``trace``: a StepRecord of each.
    ``schedule``: who is fed, see attnlab_course.serve.schedule. ``runner``: made as runner(model, manager), called as
    runner(plan), gives the logits after each chunk as a NumPy array (chunks, V), and with guesses those after each of
    them, too. ``draft``: who guesses up to ``guesses`` next tokens of a sequence that decodes, see
    attnlab_course.serve.drafts; they count in the budget, and the text is the same as without. ``manager``: made as
    manager(blocks, block_size); layers with windows take one that gives blocks back, see attnlab.paged.GroupedManager.
    """

    def __init__(
        self, model: Any, blocks: int, block_size: int, budget: int, *, schedule: Callable = schedule,
        runner: Callable = Runner, manager: Callable = BlockManager, draft: Draft | None = None, guesses: int = 4,
    ) -> None:
        self.model, self.budget, self.schedule = model, integer("budget", budget, 1), schedule
        self.draft, self.guesses = draft, integer("guesses", guesses, 1)
        self._make_runner, self._make_manager = runner, manager
        self._start, self._submitted = time.perf_counter(), 0
        self.requests, self.trace, self.steps = list[Request](), list[StepRecord](), 0
        self._clear(blocks, block_size)

    def _clear(self, blocks: int, block_size: int) -> None:
        """Forget all keys; what the requests have so far is in their tokens."""
        self.manager = self._make_manager(blocks, block_size)
        self.runner = self._make_runner(self.model, self.manager)

    def submit(self, prompt: str | bytes | Iterable[int], max_tokens: int, **options: Any) -> Request:
        """Take a request for ``max_tokens`` tokens after ``prompt``: a text, or token ids, which are taken as they are.

        ``options``: seed (0), temperature (0: greedy), top_k, top_p, samples (1), stop, or beams; see Request. Draws
        are keyed by seed, sample and position alone, so equal prompts with one seed and equal options draw the same
        text: give each its own seed where they should differ. Raises TypeError or ValueError, naming the argument, also
        where the request would not fit if it were alone.
        """
        ids = self._ids(prompt)
        request = Request(self._submitted, ids, max_tokens, self._now(), **options)
        count, size = request.beams or request.samples, self.manager.block_size
        if (needed := blocks_needed(len(ids), max_tokens, count, size)) > self.manager.blocks:
            raise ValueError(
                f"a prompt of {len(ids)} tokens and {count} times {max_tokens} more can come to need {needed} blocks "
                f"of {size} tokens; the engine has {self.manager.blocks}"
            )
        self._submitted += 1
        self.requests.append(request)
        return request

    def cancel(self, index: int) -> bool:
        """End the request with this ``index`` between two steps: its blocks are free, its text so far stays.

        Returns whether there was anything to end: False for a request that is done. KeyError if there is none.
        """
        if integer("index", index, 0) >= self._submitted:
            raise KeyError(f"there is no request {index}; {self._submitted} were submitted")
        found = next((request for request in self.requests if request.index == index), None)
        if found is None:
            return False
        for sequence in found.sequences:
            self._end(sequence)
        self.requests.remove(found)
        found.cancelled = True
        return True

    def step(self) -> list[Event]:
        """Feed one batch; returns what it brought, (request, sample, token) in order, of a beam search at its end.

        A step that fails, or is interrupted, costs the keys of all requests: they are computed again.
        """
        live = [sequence for request in self.requests for sequence in request.sequences if not sequence.done]
        held = {sequence for sequence in live if sequence in self.manager}
        try:
            plan = self.schedule(live, self.manager, self.budget)
            if live and not plan.chunks:
                raise RuntimeError(f"the schedule feeds none of {len(live)} sequences")
            if self.draft:
                plan = with_guesses(plan, self.draft, self.guesses, self.manager, self.budget)
            rows = iter(self.runner(plan) if live else [])
        except BaseException:  # slots that count as written may not be
            self._clear(self.manager.blocks, self.manager.block_size)
            raise
        self.steps += 1
        for sequence in plan.preempted:
            sequence.request.preemptions += 1
        made = record_step(self._now(), plan, live, held, self.manager)
        events = self._advance([(chunk, [*islice(rows, len(chunk.guess) + 1)]) for chunk in plan.chunks])
        fed = [(c, c.start + len(c.tokens) - len(c.guess)) for c in plan.chunks if c.guess]
        self.trace.append(made._replace(accepted=sum(len(c.sequence.tokens) - end - 1 for c, end in fed)))
        self.requests = [request for request in self.requests if not request.done]
        return events

    def run(self, progress: bool = False) -> list[Request]:
        """Step until every request is done; returns them in order of arrival. ``progress``: with a bar (tqdm)."""
        requests, bar = list(self.requests), nullcontext()
        if progress:
            from tqdm.auto import tqdm

            bar = tqdm(total=len(requests), unit="request")
        with bar:
            while self.requests:
                self.step()
                if progress:
                    bar.update(len(requests) - len(self.requests) - bar.n)
        return requests

    def _advance(self, fed: list[tuple[Chunk, list[Any]]]) -> list[Event]:
        """Go on with sequences that were fed and miss no token, given logits after their last token and each guess."""
        ready = [(chunk, rows) for chunk, rows in fed if num_unfed_tokens(chunk.sequence, self.manager) <= 0]
        searches = [(chunk.sequence, rows[0]) for chunk, rows in ready if chunk.sequence.request.beams]
        grown = [
            (one, chunk.guess, rows)
            for chunk, rows in ready if not chunk.sequence.request.beams for one in self._part(chunk.sequence)
        ]
        events = self._sample(grown) + [event for pair in searches for event in self._search(*pair)]
        return sorted(events, key=lambda event: event[0].index)

    def _part(self, sequence: Sequence) -> list[Sequence]:
        """The samples that go on from a sequence: where a prompt has just been fed all of its request, else itself."""
        request = sequence.request
        if len(request.sequences) < request.samples:
            children = [Sequence(request, sample, list(sequence.tokens)) for sample in range(1, request.samples)]
            request.sequences = [sequence, *children]
            for child in children:
                self.manager.fork(sequence, child)
            return request.sequences
        return [sequence]

    def _sample(self, grown: list[tuple[Sequence, Many[int], list[Any]]]) -> list[Event]:
        """The next tokens of each sequence, by its logits; those that share their options draw in one call."""
        alike: dict[tuple[Any, ...], list[tuple[Sequence, int, Any]]] = {}
        for one, _, rows in grown:
            request = one.request
            asked = alike.setdefault((request.temperature, request.top_k, request.top_p), [])
            asked += [(one, position, row) for position, row in enumerate(rows, len(one.tokens))]
        drawn: dict[Sequence, list[int]] = {}
        for (temperature, *rest), asked in alike.items():
            keys = [(one.request.seed, one.sample, position) for one, position, _ in asked]
            for (one, *_), token in zip(asked, self._draw([row for *_, row in asked], keys, temperature, *rest)):
                drawn.setdefault(one, []).append(int(token))
        return [event for one, guess, _ in grown for event in self._keep(one, guess, drawn[one])]

    def _draw(self, rows: list[Any], keys: list[tuple[int, int, int]], temperature: float, *rest: Any) -> Iterable[int]:
        """A token for each row of logits, by its key (seed, sample, position)."""
        return choose(rows, uniform(*zip(*keys)) if temperature else None, temperature, *rest)

    def _accept(self, guess: Many[int], drawn: list[int]) -> list[int]:
        """The tokens up to the first that differs from its guess."""
        accepted = next((j for j, token in enumerate(guess) if token != drawn[j]), len(guess))
        return drawn[: accepted + 1]

    def _keep(self, sequence: Sequence, guess: Many[int], drawn: list[int]) -> list[Event]:
        """Go on with the tokens that are accepted, or up to the end; keys of the other guesses go."""
        old, tokens = len(sequence.tokens), self._accept(guess, drawn)
        self.manager.truncate(sequence, old + len(tokens) - 1)
        for token in tokens:
            if not sequence.done:
                self._extend(sequence, token)
        return [(sequence.request, sequence.sample, token) for token in sequence.tokens[old:]]

    def _search(self, sequence: Sequence, row: Any) -> list[Event]:
        """Note what a beam's next token may be; the last one to be noted makes the search go on."""
        request, sequence.row = sequence.request, log_softmax(row)
        if any(beam.row is None for beam in request.sequences):
            return []
        tokens = branch(request, self.manager)
        for beam, token in zip(request.sequences, tokens):
            self._extend(beam, token)
        first = request.sequences[0]
        return [(request, 0, token) for token in first.tokens[len(request.prompt) :]] if request.done else []

    def _extend(self, sequence: Sequence, token: int) -> None:
        """One more token; the last one ends the sequence."""
        sequence.tokens.append(token)
        sequence.moments.append(self._now())
        if len(sequence.moments) == sequence.request.max_tokens or token == sequence.request.stop:
            self._end(sequence)

    def _end(self, sequence: Sequence) -> None:
        """No more tokens for a sequence; its blocks are free."""
        sequence.done = True
        if sequence in self.manager:
            self.manager.free(sequence)

    def _now(self) -> Timestamp:
        return Timestamp(self.steps, time.perf_counter() - self._start)

    def _ids(self, prompt: str | bytes | Iterable[int]) -> list[int]:
        """The token ids of a prompt, all of which the model knows."""
        config = self.model.config
        if isinstance(prompt, str | bytes):
            return tokens_of(prompt, first=config.first).tolist()
        ids = [integer("a token of prompt", token, 0) for token in prompt]
        if ids and max(ids) >= config.vocabulary:
            raise ValueError(f"prompt has a token {max(ids)}; tokens must be less than {config.vocabulary}")
        return ids
