"""The engine on real models: the same tokens in three libraries, whatever the load, the pool and the batch."""

from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from attnlab_course import model, serve
from attnlab_course.serve import Engine, ModelDraft, Request, Runner, Sequence, Timestamp, num_unfed_tokens, schedule
from attnlab_course.serve import jax as compiled

from attnlab.paged import BlockManager
from tests.course.model.small import CONFIG, definition, small
from tests.course.serve.exact import check_laws
from tests.support.libraries import LIBRARIES, back, dtype, precision, to

PROMPTS = ["abc", "abcdefghij" * 2, "abcdefghxyz", ""]
OPTIONS = [dict(), dict(temperature=1.0, samples=3, seed=5), dict(beams=3)]
ASKED = [dict(prompt=prompt, max_tokens=7, **options) for prompt, options in product(PROMPTS, OPTIONS)]


def outputs(lm, blocks, block_size, budget, asked=ASKED, batch=True):
    """What each request gets, all of them together or one after the other; and how many preemptions it took."""
    engine = Engine(lm, blocks, block_size, budget)
    requests = []
    for options in asked:
        requests.append(engine.submit(**options))
        while engine.requests and not batch:
            engine.step()
    while engine.requests:
        engine.step()
        check_laws(engine)
    return [request.outputs for request in requests], sum(record.preempted for record in engine.trace)


@pytest.mark.daily
@pytest.mark.parametrize("library", LIBRARIES)
def test_tokens_do_not_depend_on_library_batch_or_pool(library):
    expected, preempted = outputs(small("numpy"), 400, 4, 400, batch=False)
    assert preempted == 0
    greedy = [small("numpy").generate(options["prompt"], 7) for options in ASKED[::3]]
    assert [bytes(found) for (found,) in expected[::3]] == greedy
    with precision(library, np.zeros(0)):
        lm = small(library)
        for sizes in [(16, 4, 8), (400, 4, 40), (4, 28, 3)][: 3 if library == "numpy" else 1]:
            found, preempted = outputs(lm, *sizes)
            assert found == expected, sizes
            assert (preempted > 0) == (sizes != (400, 4, 40))


DRAFTS = {"lookup": lambda lm: serve.lookup, "int4": lambda lm: ModelDraft(serve.in_bits(lm)), "itself": ModelDraft}


@pytest.mark.thin(4)
@pytest.mark.parametrize(("library", "draft"), [
    pytest.param(*row, marks=pytest.mark.full if row == ("jax", "int4") else ())
    for row in product(LIBRARIES, DRAFTS) if row != ("jax", "itself")
])  # fmt: skip
def test_guesses_change_no_text(library, draft):
    """Under preemption, in batches, in three libraries; a model that guesses for itself is always right."""
    asked = ASKED[:2] if (library, draft != "lookup") == ("jax", True) else ASKED  # where each new length is compiled
    expected, _ = outputs(small("numpy"), 400, 4, 400, asked, batch=False)
    with precision(library, np.zeros(0)):
        lm = small(library)
        for sizes in [(16, 4, 8), (400, 4, 40)][: 2 if library == "numpy" else 1]:
            engine = Engine(lm, *sizes, draft=DRAFTS[draft](lm), guesses=3)
            requests = [engine.submit(**options) for options in asked]
            engine.run()
            assert [request.outputs for request in requests] == expected
            guessed, accepted = (sum(getattr(one, name) for one in engine.trace) for name in ("guessed", "accepted"))
            assert guessed >= accepted >= 0
            assert (guessed == accepted > 0) == (draft == "itself")


def test_a_drafts_cache_is_cut_back_to_what_was_kept():
    """Tokens stay right without it, and acceptance falls: here a model meets its own text, changed at one place."""
    lm = small("numpy")
    draft, request = ModelDraft(lm), Request(0, model.tokens("abcd").tolist(), 20, Timestamp(0, 0.0))
    sequence = request.sequences[0]
    draft(sequence, 4)
    sequence.tokens += [7, 8]
    assert draft(sequence, 4) == ModelDraft(lm)(sequence, 4)
    (_, cached) = draft._fed[sequence]
    assert cached.caches[0].length == len(sequence.tokens) + 3
    sequence.done = True
    draft(Request(1, [1], 9, Timestamp(0, 0.0)).sequences[0], 1)
    assert sequence not in draft._fed


def test_a_model_in_few_bits_keeps_its_vectors_and_dtype():
    lm = small("numpy")
    rounded = serve.in_bits(lm, 4)
    for name, x in lm.parameters.items():
        y = rounded.parameters[name]
        assert (y.shape, y.dtype) == (x.shape, x.dtype)
        assert np.array_equal(x, y) == (x.ndim == 1)


def test_a_learned_sink_is_served_too():
    lm = small("numpy", replace(CONFIG, sink=True))
    found, _ = outputs(lm, 16, 4, 8)
    assert [bytes(one) for (one,) in found[::3]] == [lm.generate(options["prompt"], 7) for options in ASKED[::3]]


@pytest.mark.parametrize("library", LIBRARIES)
def test_logits_are_those_of_the_definition(library):
    """A ragged batch of float64: three sequences in chunks of several lengths; two begin alike."""
    tokens = np.random.default_rng(2).integers(0, 256, (3, 11))
    tokens[2, :5] = tokens[0, :5]
    expected = [definition(CONFIG, small("numpy").parameters, row)[:, :256] for row in tokens]
    many = [Sequence(SimpleNamespace(sequences=[], index=i), 0, row.tolist()) for i, row in enumerate(tokens)]
    with precision(library, np.zeros(0)):
        manager = BlockManager(12, 4)
        runner = Runner(small(library), manager)
        for budget in (7, 6, 4, 99):
            plan = schedule(many, manager, budget)
            for chunk, row in zip(plan.chunks, runner(plan), strict=True):
                end = chunk.start + len(chunk.tokens)
                np.testing.assert_allclose(row, expected[chunk.sequence.request.index][end - 1], atol=1e-11)
    assert manager.free_blocks == 12 - 3 * 3 + 1
    assert [num_unfed_tokens(one, manager) for one in many] == [0, 0, 0]


@pytest.mark.full
def test_jax_compiles_a_program_for_each_power_of_two():
    """Batches of 4, 4, 2 and 1 tokens; another engine of the same sizes compiles nothing."""
    asked = [dict(prompt="ab", max_tokens=3), dict(prompt="cde", max_tokens=4)]
    with precision("jax", np.zeros(0)):
        lm, before = small("jax"), compiled.step._cache_size()
        for _ in range(2):
            outputs(lm, 17, 3, 4, asked)
            assert compiled.step._cache_size() - before == 3


def test_the_stored_model_in_float32_parts_only_where_two_bytes_are_as_likely():
    """Up to the first byte whose two best logits are closer than 1e-4 of the largest."""
    lm, text = model.load(), model.excerpt()
    asked = [dict(prompt=text[i : i + 8 + i % 40], max_tokens=24) for i in range(1000, 6000, 1250)]
    large, small = (outputs(lm, *sizes, asked)[0] for sizes in ((400, 4, 100), (8, 16, 20)))
    for options, (one,), (other,) in zip(asked, large, small):
        for i in [i for i in range(24) if one[i] != other[i]][:1]:
            row = lm.logits(np.append(model.tokens(options["prompt"]), one[:i]))[-1, :256]
            assert np.diff(np.sort(row)[-2:]) < 1e-4 * np.abs(row).max()


@pytest.mark.parametrize("library", ["torch", pytest.param("jax", marks=pytest.mark.full)])  # which compiles 5 steps
def test_a_model_in_bfloat16_is_served(library):
    """Its first bytes are the model's own; later ones may part, as pages round otherwise than one call does."""
    lm = model.load(library=library)
    halves = {name: to(library, back(x).astype(dtype("bfloat16"))) for name, x in lm.parameters.items()}
    lm = model.Model(lm.config, halves)
    engine = Engine(lm, 20, 16, 16)
    one, many = engine.submit("import ", 3), engine.submit("x", 2, temperature=1.0, samples=2)
    engine.run()
    row = back(lm.logits(model.tokens("import ")))[-1, :256]
    assert one.outputs[0][0] == row.argmax()
    assert [len(output) for output in many.outputs] == [2, 2]
