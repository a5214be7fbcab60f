"""Pages and batch: an engine serves requests from a small pool, step by step, and every page shows whose it is."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from attnlab.paged import BlockManager
from attnlab_course.plots.moving.figure import Moving
from attnlab_course.plots.moving.drawn import Film, Mark, box, drawn, outline, word
from attnlab_course.plots.style import SHADES
from attnlab_course.serve import Engine
from attnlab_course.serve.request import Sequence as Text
from attnlab_course.serve.runner import Runner
from attnlab_course.serve.scheduler import Plan
from attnlab_course.serve.trace import StepRecord

WIDTH = 350  # of the picture, in pixels
SLOT, ACROSS, APART = 9, 4, 16  # of a block: a slot; blocks in a row, and between them
FIRST, LAST = 14, 54  # of a row: left of its tokens, right of them
SHARED = "#777777"  # a block that several texts hold
PALE = "59"  # of a color: opaque to a third
OUTLINE, NEW = {"class": "bar"}, {"class": "new"}


class Owned(NamedTuple):
    """A block that somebody holds: the texts, its slots with keys, and how many of these were written in this step."""

    texts: list[int]
    filled: int
    fresh: int


class Progress(NamedTuple):
    """A text: its tokens so far, those with keys in the pool, those fed in this step, and what happens to it."""

    tokens: int
    cached: int
    fed: int
    said: str


class Look(NamedTuple):
    """A step of the engine as its model was run: the engine's own record, the blocks held, the texts, tokens made."""

    record: StepRecord
    blocks: dict[int, Owned]
    rows: list[Progress]
    made: int


class Served(NamedTuple):
    """What an engine did, with so many blocks of so many slots; the tokens of each text's prompt."""

    blocks: int
    size: int
    prompts: list[int]
    steps: list[Look]


class State(NamedTuple):
    """A text while the model runs: its blocks, its tokens in the pool, those just fed, and what happens to it."""

    table: tuple[int, ...]
    cached: int
    fed: int
    said: str


def serve(
    model: Any, prompts: Sequence[str], max_tokens: int, blocks: int, block_size: int, budget: int, **options: Any
) -> Served:
    """Let an engine answer the prompts, and look at its manager whenever it runs the model."""
    states: list[dict[Text, State]] = []
    tokens: list[dict[Text, int]] = []  # of each text after the step

    def watched(model: Any, manager: BlockManager) -> Any:
        run = Runner(model, manager)

        def look_and_run(plan: Plan) -> Any:
            states.append({text: look(text, manager, plan) for request in requests for text in request.sequences})
            return run(plan)

        return look_and_run

    engine = Engine(model, blocks, block_size, budget, runner=watched)
    requests = [engine.submit(prompt, max_tokens, **options) for prompt in prompts]
    while engine.requests:
        engine.step()
        tokens.append({text: len(text.tokens) for request in requests for text in request.sequences})
    asked = {text: len(request.prompt) for request in requests for text in request.sequences}
    steps = []
    for record, seen, after in zip(engine.trace, states, tokens):
        now = [seen.get(text, State((), 0, 0, "")) for text in asked]
        rows = [Progress(after.get(text, 0), *state[1:]) for text, state in zip(asked, now)]
        made = sum(count - asked[text] for text, count in after.items())
        steps.append(Look(record, held_blocks(now, block_size), rows, made))
    return Served(blocks, block_size, [*asked.values()], steps)


def look(text: Text, manager: BlockManager, plan: Plan) -> State:
    """A text in a step."""
    fed = sum(len(chunk.tokens) for chunk in plan.chunks if chunk.sequence is text)
    said = "done" if text.done else "stopped" if text in plan.preempted else f"{fed} fed" if fed else "waits"
    held = text in manager
    return State(manager.table(text) if held else (), manager.length(text) if held else 0, fed, said)


def held_blocks(states: Sequence[State], size: int) -> dict[int, Owned]:
    """Whose each block is, and how full."""
    found: dict[int, Owned] = {}
    for number, (table, end, fed, _) in enumerate(states):
        for place, block in enumerate(table):
            filled = min(size, end - place * size)
            others = found[block].texts if block in found else []
            found[block] = Owned([*others, number], filled, min(filled, max(place * size + filled - (end - fed), 0)))
    return found


def figure(runs: Mapping[str, Served]) -> Moving:
    """Runs of the engine, to be chosen from by name."""
    first = next(iter(runs.values()))
    *_, made, lost, again = numbers(first)[-1]
    text = (
        f"A pool of {first.blocks} blocks, each in the color of the text that holds it, and below it "
        f"{len(first.prompts)} texts that grow, step by step. After {len(first.steps)} steps {made} tokens are made; "
        f"texts were stopped {lost} times, and {again} tokens were found again in the pool."
    )
    return drawn({name: film(served) for name, served in runs.items()}, text)


def numbers(served: Served) -> list[list[int]]:
    """Of each step: its number, blocks held, their empty slots; so far: tokens fed and made, stops, tokens found."""
    found, fed, lost, again = [], 0, 0, 0
    for step in served.steps:
        record = step.record
        fed, lost, again = fed + record.tokens, lost + record.preempted, again + record.reused
        empty = record.blocks * served.size - record.filled
        found.append([record.step, record.blocks, empty, fed, step.made, lost, again])
    return found


def film(served: Served) -> Film:
    """The pool above, the texts below."""
    words = (
        f"step {{}} of {len(served.steps)} · {{}} of {served.blocks} blocks held, {{}} slots in them empty · "
        "{} tokens fed, {} made · texts stopped: {} · tokens found again: {}"
    )
    last: dict[int, tuple[list[int], int]] = {}  # of each block ever held: whose it was, and how full
    pictures = []
    for step in served.steps:
        last.update({place: (block.texts, block.filled) for place, block in step.blocks.items()})
        below = 46 + 36 * -(-served.blocks // ACROSS)
        pictures.append([*pool(served, step, last), *texts(served, step, below)])
    height = below + 22 * len(served.prompts) + 12
    return Film(WIDTH, height, words, list(zip(numbers(served), pictures)))


def pool(served: Served, step: Look, last: Mapping[int, tuple[list[int], int]]) -> list[Mark]:
    """The blocks: full color for who holds one, pale for what was given back and is still there."""
    wide = served.size * SLOT
    corners = [(place % ACROSS * (wide + APART), 38 + place // ACROSS * 36) for place in range(served.blocks)]
    edges = "".join(outline(x, y, wide, 14) for x, y in corners)
    marks = [
        word(0, 12, f"the pool: {served.blocks} blocks of {served.size} tokens; (0): given back"),
        Mark("path", {**OUTLINE, "d": edges}),
    ]
    for place, (x, y) in enumerate(corners):
        whose, filled = last.get(place, ([], 0))
        held = step.blocks.get(place, Owned([], 0, 0))
        label = ", ".join(map(str, whose))
        marks += [
            box(x, y, filled * SLOT, 14, fill=color(whose) if held.texts or not whose else color(whose) + PALE),
            box(x + (filled - held.fresh) * SLOT, y, held.fresh * SLOT, 14, **NEW),
            word(x, y - 4, label if held.texts or not whose else f"({label})"),
        ]
    return marks


def texts(served: Served, step: Look, top: int) -> list[Mark]:
    """The texts: a bar for the tokens so far, filled as far as their keys are in the pool."""
    unit = (WIDTH - FIRST - LAST) // max(row.tokens for row in served.steps[-1].rows)
    marks = [word(0, top, "the texts: prompt | made; filled: keys in the pool")]
    for number, (row, prompt) in enumerate(zip(step.rows, served.prompts)):
        y = top + 10 + 22 * number
        marks += [
            word(0, y + 12, number),
            box(FIRST, y, row.tokens * unit, 14, **OUTLINE),
            box(FIRST, y, row.cached * unit, 14, fill=color([number])),
            Mark("path", {**NEW, "d": f"M{FIRST + prompt * unit} {y - 2}v18"}),
            word(WIDTH - LAST + 4, y + 12, row.said),
        ]
    return marks


def color(whose: Sequence[int]) -> str:
    """Of a text, or gray for what several share."""
    return SHARED if len(whose) > 1 else SHADES[whose[0] % len(SHADES)] if whose else "none"
