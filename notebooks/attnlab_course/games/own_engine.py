"""Your own engine: the course's server, with right answers to its exercises in the places that they fit.

    answers = own_engine.checked()                    what you have in work/answers, checked once more
    engine = own_engine.OwnEngine(model.load(), answers, blocks=64, block_size=16, budget=64)
    own_engine.show_places(engine)                    which answer has which place
    own_engine.race(model.load(), answers, prompts)   what each of them costs and saves, beside ours

Where no answer is given, ours steps in; the texts are the same. That proves no answer right: most of the wrong
ones keep the bytes of a greedy text. So only what the checker calls right goes in.
"""

import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import cycle, pairwise, product
from statistics import median
from typing import Any

import attnlab
from attnlab.paged import Appended, BlockManager, OutOfBlocks
from attnlab_course import check, serve
from attnlab_course.checker import kept
from attnlab_course.checker.engine import examine
from attnlab_course.checker.library import library_of, precise, to_library, to_numpy
from attnlab_course.model import FIRST, Model
from attnlab_course.serve.runner import batch
from attnlab_course.plots import table
from attnlab_course.serve.scheduler import append

import numpy as np

Array = np.ndarray
CHUNK = 16


def seen(q: Array, k: Array) -> Array:
    """Which of M keys each of the N newest queries sees: (N, M)."""
    return np.arange(len(k)) <= np.arange(len(q))[:, None] + len(k) - len(q)


def scores(q: Array, k: Array) -> Array:
    """Scaled products, −∞ where a key is hidden."""
    return np.where(seen(q, k), q @ k.T / np.sqrt(q.shape[1]), -np.inf)


def rows(f: Callable) -> Callable:
    """Query by query, each with the keys it sees: f(q (D,), k, v) -> (Dv,)."""
    return lambda q, k, v: np.stack([f(x, k[:n], v[:n]) for n, x in enumerate(q, len(k) - len(q) + 1)])


HEADS: dict[str, Callable] = {  # answer -> what a place calls, f(q (N, D), k (M, D), v (M, Dv)) -> (N, Dv)
    "attention_row": rows,
    "naive_attention": lambda f: lambda q, k, v: f(q[None], k[None], v[None], True)[0],
    "safe_softmax": lambda f: lambda q, k, v: f(scores(q, k)) @ v,
    "log_softmax": lambda f: lambda q, k, v: np.exp(f(scores(q, k))) @ v,
    "lazy_row": lambda f: rows(lambda q, k, v: f(q, zip(k, v))),
    "online_row": lambda f: rows(lambda q, k, v: f(q, zip(k, v))[0]),
    "masked_online": lambda f: lambda q, k, v: f(q, k, v, seen(q, k)),
    "blockwise_attention": lambda f: rows(lambda q, k, v: f(q[None], k, v, CHUNK)[0]),
    "attention_in_chunks": lambda f: rows(lambda q, k, v: f(q[None], k, v, CHUNK, CHUNK)[0]),
    "tree_attention": lambda f: rows(lambda q, k, v: f(q[None], k, v, CHUNK)[0]),
    "causal_tiles": lambda f: lambda q, k, v: f(q, k, v, CHUNK, CHUNK),
    "sparse_rows": lambda f: lambda q, k, v: f(q, k, v, seen(q, k), 1),
    "fold_exp2": lambda f: lambda q, k, v: f(scores(q, k), v, CHUNK)[0],
    "lazy_rescale": lambda f: lambda q, k, v: f(scores(q, k), v, CHUNK, 8)[0],
    "decode_step": lambda f: rows(lambda q, k, v: f(q, k[-1].copy(), v[-1].copy(), k, v, len(k) - 1)[0]),
    "split_attention": lambda f: rows(lambda q, k, v: f(q, k, v, 4)[0]),
    "rolling_attend": lambda f: rows(lambda q, k, v: f(k, v, np.arange(len(k)), q, len(k) - 1, len(k), 0)),
}
PLACES = {
    **dict.fromkeys(HEADS, "head"), "block_manager": "pool", "plan_step": "plan", "next_tokens": "draw",
    "prompt_lookup": "guess", "accept_guesses": "accept",
}  # fmt: skip


class Failed(RuntimeError):
    """An answer could not do what its place asks; says which, and what it was given."""


def checked(tell: Callable[[str], None] = print) -> dict[str, Callable]:
    """The kept answers that have a place, checked once more, as a file may be edited; ``tell`` hears of the others."""
    found = {}
    for name in sorted(kept.names() & PLACES.keys(), key=[*PLACES].index):
        try:
            answer = kept.load(kept.folder() / f"{name}.py", name)
        except Exception as error:
            tell(f"{name}: its file raises {type(error).__name__}: {error}")
            continue
        verdict = examine(check.find(name), answer)
        if verdict.state == "right":
            found[name] = answer
        else:
            tell(f"{verdict.headline} Ours steps in.")
    return found


def named(name: str, answer: Callable) -> Callable:
    """An answer, whatever its library, on NumPy's arrays; what it raises says whose it is and what it was given."""
    library = library_of(answer, check.find(name).library)

    def call(*args: Any) -> Any:
        try:
            if library == "numpy":
                return answer(*args)
            with precise(library):
                out = answer(*to_library(args, library))
                return tuple(map(to_numpy, out)) if isinstance(out, tuple) else to_numpy(out)
        except OutOfBlocks:
            raise
        except Exception as error:
            given = ", ".join(str(x.shape) if hasattr(x, "shape") else repr(x)[:30] for x in args)
            raise Failed(f"{name}({given}) raises {type(error).__name__}: {error}") from error

    return call


class Pool:
    """A manager of lesson 19 as the engine's. It finds no prefixes; slots that wrong guesses leave are filled again."""

    def __init__(self, answer: Callable, blocks: int, block_size: int) -> None:
        self.blocks, self.block_size = blocks, block_size
        self.manager = answer(blocks, block_size, lambda manager: manager)
        self.slots, self.lengths = dict[Any, list[int]](), dict[Any, int]()

    @property
    def free_blocks(self) -> int:
        """Blocks that no sequence holds."""
        return int(self.manager.free_blocks)

    def __contains__(self, name: Any) -> bool:
        return name in self.lengths

    def table(self, name: Any) -> list[int]:
        """The blocks of a sequence."""
        return [int(block) for block in self.manager.table(name)]

    def length(self, name: Any) -> int:
        """Tokens of a sequence."""
        return self.lengths[name]

    def add(self, name: Any, tokens: Iterable[int] = ()) -> int:
        """Begin a sequence; none of its tokens is there yet."""
        self.manager.add(name)
        self.slots[name], self.lengths[name] = [], 0
        return 0

    def append(self, name: Any, tokens: list[int]) -> Appended:
        """Slots for more tokens, first those that wrong guesses have left."""
        start, slots = self.lengths[name], self.slots[name]
        stop, copies = start + len(tokens), []
        if stop > len(slots):
            more, copies = self.manager.append(name, stop - len(slots))
            slots += map(int, more)
        self.lengths[name] = stop
        return Appended(slots[start:stop], [*copies])

    def truncate(self, name: Any, length: int) -> None:
        """Forget tokens; their slots stay for the next ones."""
        self.lengths[name] = length

    def fork(self, name: Any, child: Any) -> None:
        """Begin a sequence with all that another has."""
        self.manager.fork(name, child)
        self.slots[child], self.lengths[child] = list(self.slots[name]), self.lengths[name]

    def free(self, name: Any) -> None:
        """End a sequence."""
        self.manager.free(name)
        del self.slots[name], self.lengths[name]


def planned(answer: Callable, sequences: list[serve.Sequence], manager: BlockManager, budget: int) -> serve.Plan:
    """A step as ``plan_step`` wants it. It knows no shared blocks: where they cost one, the youngest loses its own.

    If nobody is fed that way, our schedule plans the step.
    """
    wanting = [one for one in sequences if serve.missing(one, manager) > 0]
    held = [manager.length(one) if one in manager else 0 for one in wanting]
    state = [(serve.missing(one, manager), n) for one, n in zip(wanting, held)]
    counts = [int(x) for x in answer(state, budget, manager.free_blocks, manager.block_size)]
    plan = serve.Plan([], [], [one for one, x in zip(wanting, counts) if x < 0])
    for one in plan.preempted:
        manager.free(one)
    for one, n, x in zip(wanting, held, counts):
        if x <= 0 or one in plan.preempted:
            continue
        if one not in manager:
            manager.add(one, one.tokens)
        start = manager.length(one)  # of a newcomer, tokens that are shared
        tokens = one.tokens[start : max(n + x, start + 1)]
        step = append(one, tokens, sequences, manager, plan)
        if step:
            plan.chunks.append(serve.Chunk(one, start, tokens, step.slots))
            plan.copies.extend(step.copies)
        elif not n:
            manager.free(one)
    if plan.chunks:
        return plan
    ours = serve.schedule(sequences, manager, budget)
    return ours._replace(preempted=plan.preempted + ours.preempted)


class HeadRunner:
    """One forward pass of a plan, each head of each layer by the answer that has its place: (layer, head, decoding)."""

    def __init__(self, heads: dict[tuple[int, int, bool], Callable], model: Model, manager: Any) -> None:
        c = model.config
        self.heads, self.model, self.manager = heads, model, manager
        shape = c.layers, c.kv_heads, manager.blocks * manager.block_size, c.d
        self.keys, self.values = np.zeros(shape, np.float32), np.zeros(shape, np.float32)

    def __call__(self, plan: serve.Plan) -> Array:
        """Logits after each chunk and each of its guesses, as serve.Runner gives them."""
        fed, size = batch(plan), self.manager.block_size

        def attend(layer: int, query: Array, key: Array, value: Array) -> Array:
            query, key = (attnlab.rotary(x, fed.positions) for x in (query, key))
            for pages, new in ((self.keys[layer], key), (self.values[layer], value)):
                for source, to in fed.copies:
                    pages[:, to * size : (to + 1) * size] = pages[:, source * size : (source + 1) * size]
                pages[:, fed.slots] = new
            out, group = np.empty_like(query), len(query) // len(key)
            for chunk, slots in self.chunks(fed):
                for h, q in enumerate(query):
                    head = self.heads[layer, h, chunk.stop - chunk.start == 1]
                    out[h, chunk] = head(q[chunk], *(x[layer, h // group][slots] for x in (self.keys, self.values)))
            return out

        return self.model.logits(fed.tokens, attend)[fed.last, :FIRST]

    def chunks(self, fed: Any) -> Iterator[tuple[slice, Array]]:
        """The rows of each sequence in the batch, and the slots of all its tokens."""
        size = self.manager.block_size
        for names, each, rows in fed.groups:
            for start, name in zip(range(rows.start, rows.stop, each), names):
                table = np.array(self.manager.table(name))
                slots = (table[:, None] * size + np.arange(size)).ravel()
                yield slice(start, start + each), slots[: self.manager.length(name)]


class OwnEngine(serve.Engine):
    """attnlab_course.serve.Engine with ``answers`` in their places: {"decode_step": f, "plan_step": g, …}.

    Answers that attend share out the places (layer, head, prompt or decoding), around and around: ``heads`` says which
    has which. ``options``: those of Engine.
    """

    def __init__(
        self, model: Model, answers: dict[str, Callable], blocks: int = 64, block_size: int = 16, budget: int = 64,
        **options: Any,
    ) -> None:
        if unknown := answers.keys() - PLACES.keys():
            raise ValueError(f"there is no place for {', '.join(sorted(unknown))}; there are {', '.join(PLACES)}")
        own = self.own = {name: named(name, answer) for name, answer in answers.items()}
        self.heads = dict[tuple[int, int, bool], str]()
        if attending := {name: HEADS[name](own[name]) for name in own if name in HEADS}:
            c = model.config
            places = product(range(c.layers), range(c.heads), (False, True))
            self.heads = dict(zip(sorted(places, key=lambda place: place[2]), cycle(attending)))
            heads = {place: attending[name] for place, name in self.heads.items()}
            options["runner"] = partial(HeadRunner, heads)
        if "block_manager" in own:
            options["manager"] = partial(Pool, own["block_manager"])
        if "plan_step" in own:
            options["schedule"] = partial(planned, own["plan_step"])
        if "prompt_lookup" in own and "draft" not in options:
            options["draft"] = lambda sequence, k: list(own["prompt_lookup"](list(sequence.tokens), k, 8, 2))
        super().__init__(model, blocks, block_size, budget, **options)

    def _draw(self, rows: list[Any], keys: list[tuple[int, int, int]], temperature: float, *rest: Any) -> Iterable[int]:
        """By ``next_tokens``, which knows no samples but the first."""
        if "next_tokens" not in self.own or any(sample for _, sample, _ in keys):
            return super()._draw(rows, keys, temperature, *rest)
        seeds, _, positions = map(list, zip(*keys))
        return self.own["next_tokens"](serve.probabilities(rows, temperature, *rest), seeds, positions)

    def _accept(self, guess: Any, drawn: list[int]) -> list[int]:
        """By ``accept_guesses``, with chances of 1 for what was guessed and for what the model draws."""
        if "accept_guesses" not in self.own or not guess:
            return super()._accept(guess, drawn)
        certain = np.eye(FIRST, dtype=int).tolist()
        return self.own["accept_guesses"](
            list(guess), [certain[x] for x in guess], [certain[x] for x in drawn], [0.5] * (2 * len(guess) + 1)
        )


def solutions(every: int = 1) -> dict[str, Callable]:
    """The course's own answers for every so many places."""
    return {name: check.find(name).reference for name in [*PLACES][::every]}


def show_places(engine: OwnEngine) -> None:
    """Show which answer has which place; ours has the others."""
    table(("place", "exercise"), [
        (place, name if name in engine.own else f"{name}: ours steps in")
        for name, place in PLACES.items() if place != "head" or name in engine.own
    ])  # fmt: skip
    c = engine.model.config
    table(("heads of", *(f"head {h}" for h in range(c.heads))), [
        (f"layer {layer}, {'decoding' if decoding else 'prompts'}",
         *(engine.heads.get((layer, h, decoding), "ours") for h in range(c.heads)))
        for decoding in (False, True) for layer in range(c.layers)
    ])  # fmt: skip


def race(model: Model, answers: dict[str, Callable], prompts: list[str], max_tokens: int = 40, **options: Any) -> bool:
    """Show what an engine of ``answers`` costs beside ours, and each place alone; returns whether all texts are ours.

    Times are those of a second run; the peak of memory, pages included, is of a third, as tracing costs time.
    """
    sets = {"ours": {}}
    for place in dict.fromkeys(PLACES[name] for name in answers):
        sets[f"your {place}"] = {name: f for name, f in answers.items() if PLACES[name] == place}
    sets["all of yours"] = answers
    found = {said: served(model, some, prompts, max_tokens, **options) for said, some in sets.items()}
    wanted = found["ours"][0]
    table(("engine", "texts", "tokens/s", "ms between tokens", "steps", "MB at most"), [
        (said, "the same" if texts == wanted else "others", f"{rate:,.0f}", f"{gap:.1f}", str(steps), f"{peak:.1f}")
        for said, (texts, rate, gap, steps, peak) in found.items()
    ])  # fmt: skip
    return all(texts == wanted for texts, *_ in found.values())


def served(
    model: Model, answers: dict[str, Callable], prompts: list[str], max_tokens: int, **options: Any
) -> tuple[list[bytes], float, float, int, float]:
    """The texts of an engine, tokens a second, milliseconds between tokens (median), steps, megabytes at the peak."""
    def run(count: int) -> tuple[OwnEngine, list[serve.Request], float]:
        engine, start = OwnEngine(model, answers, **options), time.perf_counter()
        requests = [engine.submit(prompt, count) for prompt in prompts]
        engine.run()
        return engine, requests, time.perf_counter() - start

    run(2)
    engine, requests, seconds = run(max_tokens)
    tracemalloc.start()
    run(6)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    moments = [[moment.seconds for moment in one.sequences[0].moments] for one in requests]
    gaps = [b - a for times in moments for a, b in pairwise(times)]
    texts = [one.texts[0] for one in requests]
    return texts, sum(map(len, moments)) / seconds, 1e3 * median(gaps), engine.steps, peak / 1e6
