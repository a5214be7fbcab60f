"""The engine on the exact model: what a request gets depends on its prompt, options and seed alone, ``==``."""

import numpy as np
import pytest
from attnlab_course.serve import Engine, blocks_needed, lookup, schedule

from tests.course.serve import exact
from tests.course.serve.exact import MODEL, Exact, alone, check_laws, engine, oracle, random_request


def static(sequences, manager, budget):
    """A batch is served to its end before the next begins."""
    begun = [one for one in sequences if any(other in manager for other in one.request.sequences)]
    return schedule(begun or sequences, manager, budget)


def shuffled(draw):
    """Who comes first, and the budget, are drawn anew at every step."""
    def order(sequences, manager, budget):
        return schedule([sequences[i] for i in draw.permutation(len(sequences))], manager, draw.integers(1, budget + 1))

    return order


def serve(server, draw, count, rate, cancels=0.0):
    """Submit requests between the steps, about ``rate`` a step, until all are done; every law after every step.

    ``cancels``: how likely one is cancelled before a step.
    """
    asked, refused = [], 0
    while len(asked) < count or server.requests:
        for _ in range(min(draw.poisson(rate), count - len(asked))):
            options, size = random_request(draw), server.manager.block_size
            many = options.get("beams") or options.get("samples", 1)
            if blocks_needed(len(options["prompt"]), options["max_tokens"], many, size) <= server.manager.blocks:
                asked.append((server.submit(**options), options))
            else:
                refused += 1
                with pytest.raises(ValueError, match="blocks"):
                    server.submit(**options)
        if server.requests and draw.random() < cancels:
            assert server.cancel(server.requests[draw.integers(len(server.requests))].index)
            check_laws(server)
        check_step(server)
    assert server.manager.free_blocks == server.manager.blocks
    return asked, refused


def expected(request, options):
    """The outputs and scores of a request alone; of a cancelled one, up to where each of them was."""
    lengths = [len(output) for output in request.outputs]
    if not request.cancelled:
        return alone(**options)
    if request.beams:
        return alone(**options | {"max_tokens": lengths[0]}) if lengths[0] else ([[]], [0.0])
    outputs, scores = alone(**options)
    return [output[:length] for output, length in zip(outputs, lengths)], scores[: len(lengths)]


def check_step(server):
    """One step: the oldest request is fed, nobody beyond the budget, and the trace says what happened."""
    oldest = server.requests[:1]
    known = {request: [list(one.moments) for one in request.sequences] for request in server.requests}
    events = server.step()
    check_laws(server)
    record = server.trace[-1]
    assert record.step == server.steps == len(server.trace)
    assert record.tokens <= server.budget
    assert (record.tokens > 0) == bool(oldest)
    assert record.filled <= record.blocks * server.manager.block_size
    for request, sample, token in events:
        assert token in request.outputs[sample]
    for request, moments in known.items():
        if request.beams is None:
            new = sum(len(one.moments) for one in request.sequences) - sum(map(len, moments))
            assert new == sum(request is other for other, *_ in events)


@pytest.mark.daily
@pytest.mark.thin(2)
@pytest.mark.parametrize("seed", range(24))
def test_what_a_request_gets_depends_on_itself_alone(seed):
    draw = np.random.default_rng(seed)
    blocks, size, budget = (int(draw.integers(*ends)) for ends in ((4, 30), (1, 7), (1, 24)))
    policy = {5: shuffled(draw), 6: shuffled(draw), 7: static}.get(seed % 8, schedule)
    server = engine(blocks, size, budget, schedule=policy)
    asked, _ = serve(server, draw, 25, draw.choice([0.2, 1, 30]))
    for request, options in asked:
        assert (request.outputs, request.scores, request.done) == (*alone(**options), True)


@pytest.mark.thin(2)
@pytest.mark.parametrize("draft", [lookup, oracle, exact.half_right, exact.constant])
@pytest.mark.parametrize("seed", range(6))
def test_guesses_change_no_text(seed, draft):
    """Any draft, any number of guesses; small pools, so that who guesses is preempted, too."""
    draw = np.random.default_rng(seed)
    blocks, size, budget = (int(draw.integers(*ends)) for ends in ((4, 16), (1, 7), (1, 24)))
    policy = {4: shuffled(draw), 5: static}.get(seed, schedule)
    server = engine(blocks, size, budget, schedule=policy, draft=draft, guesses=int(draw.integers(1, 9)))
    asked, _ = serve(server, draw, 20, draw.choice([0.2, 1, 30]))
    for request, options in asked:
        assert (request.outputs, request.scores) == alone(**options)


def guessing(draft, guesses=3, blocks=20, budget=16, **options):
    """An engine that has served one request with guesses, and the request."""
    server = engine(blocks, 4, budget, draft=draft, guesses=guesses)
    request = server.submit([1, 2, 3], **options)
    server.run()
    assert request.outputs == alone([1, 2, 3], **options)[0]
    assert server.manager.free_blocks == blocks
    return server, request


def test_right_guesses_save_steps_and_wrong_ones_cost_none():
    """13 tokens: the first comes with the prompt, then 4 a step with the oracle; the last needs no fourth guess."""
    server, request = guessing(oracle, max_tokens=13)
    assert [one.tokens for one in server.trace] == [3, 4, 4, 4]
    assert [(one.guessed, one.accepted) for one in server.trace] == [(0, 0), (3, 3), (3, 3), (3, 3)]
    assert [moment.step for moment in request.sequences[0].moments] == [1, *[2] * 4, *[3] * 4, *[4] * 4]
    server, _ = guessing(lambda sequence, k: [(x + 1) % 5 for x in oracle(sequence, k)], max_tokens=13)
    assert [one.accepted for one in server.trace] == [0] * 13
    assert [one.decoded for one in server.trace] == [1] * 13


def test_a_stop_among_accepted_guesses_ends_the_text_there():
    text = alone([1, 2, 3], 13)[0][0]
    stop = next(token for token in text[2:] if token not in text[:2])
    server, request = guessing(oracle, guesses=8, max_tokens=13, stop=stop)
    assert (request.outputs[0][-1], len(request.outputs[0])) == (stop, text.index(stop) + 1)
    assert server.steps == 2


def test_guesses_stay_below_max_tokens_and_the_budget():
    for max_tokens, guessed in ((1, []), (2, [0]), (3, [1]), (4, [2])):
        server, _ = guessing(oracle, guesses=9, max_tokens=max_tokens)
        assert [one.guessed for one in server.trace[1:]] == guessed
    server, _ = guessing(oracle, guesses=9, budget=3, max_tokens=7)
    assert [one.tokens for one in server.trace] == [3, 3, 3]


def test_guesses_take_nobodys_block():
    """Two that decode, one free block: the first one's guesses get it, the second goes on by single tokens."""
    server = engine(5, 4, 16, draft=oracle, guesses=4)
    requests = [server.submit([token] * 7, 4) for token in (1, 2)]
    server.run()
    assert [request.preemptions for request in requests] == [0, 0]
    assert [request.outputs for request in requests] == [alone([token] * 7, 4)[0] for token in (1, 2)]
    assert sum(one.guessed for one in server.trace) > 0


def test_a_draft_that_fails_loses_nothing_but_time():
    def failing(sequence, k):
        if len(sequence.tokens) == 6 and not failed:
            failed.append(True)
            raise KeyboardInterrupt
        return oracle(sequence, k)

    failed = []
    server = engine(20, 4, 16, draft=failing, guesses=2)
    request = server.submit([1, 2], 9, temperature=1.0, samples=2)
    with pytest.raises(KeyboardInterrupt):
        server.run()
    server.run()
    assert request.outputs == alone([1, 2], 9, temperature=1.0, samples=2)[0]


def state(request, manager):
    """What has become of a request so far, in a word."""
    if any(one in manager for one in request.sequences):
        return "decoding" if request.first_token else "prefilled"
    return "preempted" if request.preemptions else "waiting"


@pytest.mark.parametrize("draft", [None, oracle])
@pytest.mark.parametrize(("blocks", "options"), [(10, {}), (13, dict(samples=3, temperature=1.0)), (10, dict(beams=2))])
def test_a_cancelled_request_gives_its_blocks_back_and_keeps_its_text(blocks, options, draft):
    """Cancelled before each of its steps; who comes after it begins with the same blocks."""
    asked, seen = dict(prompt=[3, 2, 1] * 3, max_tokens=6, **options), set()
    for steps in range(100):
        server = engine(blocks, block_size=2, budget=4, draft=draft)
        first = server.submit([1, 2, 3] * 3, 12)
        request, last = server.submit(**asked), server.submit(**asked, seed=1)
        for _ in range(steps):
            server.step()
        if request.done:
            assert (server.cancel(request.index), request.cancelled) == (False, False)
            break
        seen.add(state(request, server.manager))
        held = request.outputs
        assert server.cancel(request.index)
        assert request.outputs == held == expected(request, asked)[0]
        check_laws(server)
        server.run()
        assert (request.outputs, request.done) == (held, True)
        assert (first.outputs, last.outputs) == (alone(first.prompt, 12)[0], alone(**asked, seed=1)[0])
        assert server.manager.free_blocks == blocks
    assert seen == {"waiting", "prefilled", "decoding", "preempted"}


def test_what_was_never_submitted_cannot_be_cancelled():
    server = engine(9, 4, 8)
    server.submit([1], 2)
    with pytest.raises(KeyError, match="there is no request 1; 1 were submitted"):
        server.cancel(1)
    with pytest.raises(TypeError, match="index"):
        server.cancel("0")


def test_equal_prompts_with_one_seed_draw_the_same():
    server = engine(20, 4, 8)
    first, same, other = (server.submit([1, 2], 9, temperature=1.0, seed=seed) for seed in (3, 3, 4))
    server.run()
    assert first.outputs == same.outputs != other.outputs
    assert "equal prompts with one seed and equal options draw the same" in " ".join(Engine.submit.__doc__.split())


@pytest.mark.parametrize("count", [250, pytest.param(2000, marks=pytest.mark.full)])
def test_soak(count):
    """Many requests in a small pool; all are compared with what they get alone."""
    draw = np.random.default_rng(count)
    server = engine(blocks=12, block_size=4, budget=16)
    asked, refused = serve(server, draw, count, 0.35, cancels=0.02)
    assert sum(request.cancelled for request, _ in asked) > count / 50
    assert [one.index for one, options in asked if (one.outputs, one.scores) != expected(one, options)] == []
    assert [request.index for request, _ in asked] == list(range(count))
    found = [sum(getattr(record, name) for record in server.trace) for name in ("preempted", "reused", "copies")]
    assert min(refused, *found) > count / 25


def test_the_first_in_a_pool_too_small_for_two_is_never_preempted():
    server = engine(blocks=5, block_size=2, budget=8)
    first, second = (server.submit([0, token], 8, seed=token) for token in (1, 2))
    while not first.done:
        server.step()
    assert (first.preemptions, second.done) == (0, False)
    assert second.preemptions > 0
    assert first.sequences[0].moments[-1].step == first.first_token.step + 7
    server.run()
    assert second.outputs == alone([0, 2], 8, seed=2)[0]


def test_a_known_prompt_is_reused_down_to_its_last_block():
    """Two full blocks: the second is computed again, as a token must be fed; a third request finds no more."""
    server = engine(blocks=20, block_size=4, budget=100)
    for reused in (0, 4, 4):
        server.submit([1, 2, 3, 4] * 2, 3)
        server.run()
        assert [record.reused for record in server.trace[-3:]] == [reused, 0, 0]
    server.submit([1, 2, 3, 4] * 2 + [1], 3)
    server.submit([1, 2, 3, 4] * 3 + [0], 3)
    server.step()
    assert server.trace[-1].reused == 8 + 8


@pytest.mark.parametrize(("length", "copies"), [(15, 3), (16, 0), (17, 3)])
def test_samples_share_their_prompt(length, copies):
    server = engine(blocks=9, block_size=16, budget=32)
    request = server.submit([1] * length, 4, temperature=1.0, samples=4)
    server.run()
    assert sum(record.copies for record in server.trace) == copies
    assert max(record.blocks for record in server.trace) == (8 if length == 15 else 5)
    assert request.outputs == alone([1] * length, 4, temperature=1.0, samples=4)[0]


def test_beams_share_their_prompt_and_what_they_have_in_common():
    """Each beam is fed one token a step, and a block is copied only where two write into it."""
    server = engine(blocks=30, block_size=4, budget=32)
    request = server.submit([1] * 10, 6, beams=3)
    server.run()
    assert [record.tokens for record in server.trace] == [10, 3, 3, 3, 3, 3]
    assert all(record.blocks < 3 * 4 - 2 * 2 for record in server.trace)  # of 4 blocks a beam 2 are the prompt's
    assert server.trace[1].copies == 2
    assert request.outputs == alone([1] * 10, 6, beams=3)[0]


def test_times_are_those_of_steps():
    server = engine(blocks=20, block_size=4, budget=5)
    server.step()
    request = server.submit([1] * 12, 3)
    late = server.submit([2], 2)
    server.run()
    assert request.arrival.step == 1
    assert [moment.step for moment in request.sequences[0].moments] == [4, 5, 6]  # 12 tokens in chunks of 5
    assert [moment.step for moment in late.sequences[0].moments] == [4, 5]  # the chunk of 2 leaves room
    times = [request.arrival.seconds, *(moment.seconds for moment in request.sequences[0].moments)]
    assert times == sorted(times)
    assert [record.tokens for record in server.trace] == [0, 5, 5, 3, 2, 1]


@pytest.mark.parametrize(("prompt", "count", "needed"), [(8, 1, 2), (8, 2, 3), (7, 2, 2), (7, 3, 3), (1, 9, 3)])
def test_what_can_never_fit_is_refused_and_changes_nothing(prompt, count, needed):
    """Block size 4: the last token is never fed."""
    assert blocks_needed(prompt, count, 1, 4) == needed
    for options, n in ((dict(), 1), (dict(samples=3, temperature=1.0), 3), (dict(beams=3), 3)):
        blocks = prompt // 4 + n * (needed - prompt // 4)
        server = engine(max(blocks - 1, 1), 4, 8)
        if blocks > 1:
            message = rf"prompt of {prompt} tokens and {n} times {count} .* {blocks} blocks .* engine has {blocks - 1}$"
            with pytest.raises(ValueError, match=message):
                server.submit([1] * prompt, count, **options)
            assert (server.requests, server.manager.free_blocks) == ([], blocks - 1)
        server = engine(blocks, 4, 8)
        request = server.submit([1] * prompt, count, **options)
        assert request.index == 0
        server.run()
        assert request.outputs == alone([1] * prompt, count, **options)[0]


@pytest.mark.parametrize(("options", "error", "match"), [
    (dict(prompt=[]), ValueError, "prompt is empty"),
    (dict(prompt=[1, 5]), ValueError, "token 5; tokens must be less than 5"),
    (dict(prompt=[1.5]), TypeError, "a token of prompt"),
    (dict(max_tokens=0), ValueError, "max_tokens"),
    (dict(seed=2**32), ValueError, "seed is 4294967296; it must be less than 2³²"),
    (dict(seed=None), TypeError, "seed"),
    (dict(temperature=-1), ValueError, "temperature is -1; it must be 0 or more"),
    (dict(top_k=0), ValueError, "top_k"),
    (dict(top_p=0), ValueError, r"top_p is 0; it must be in \(0, 1\]"),
    (dict(samples=0), ValueError, "samples"),
    (dict(beams=0), ValueError, "beams"),
    (dict(beams=2, temperature=1), ValueError, "beams is 2; a beam search goes without"),
    (dict(beams=2, stop=1), ValueError, "beams is 2"),
    (dict(stop=-1), ValueError, "stop"),
    (dict(temprature=1), TypeError, "temprature"),
])  # fmt: skip
def test_errors(options, error, match):
    with pytest.raises(error, match=match):
        engine(9, 4, 8).submit(**{"prompt": [1, 2], "max_tokens": 3, **options})


def test_a_schedule_that_feeds_nobody_is_an_error():
    server = engine(9, 4, 8, schedule=lambda sequences, manager, budget: schedule([], manager, budget))
    server.step()
    server.submit([1], 2)
    with pytest.raises(RuntimeError, match="feeds none of 1 sequences"):
        server.run()


class Failing(Exact):
    """Fails at every fifth plan, when half of its slots are written."""

    calls = 0

    def __call__(self, plan):
        Failing.calls += 1
        if Failing.calls % 5 == 0:
            super().__call__(plan._replace(chunks=plan.chunks[::2]))
            raise KeyboardInterrupt
        return super().__call__(plan)


def test_a_step_that_fails_loses_nothing_but_time():
    draw = np.random.default_rng(5)
    server = Engine(MODEL, 30, 3, 12, runner=Failing)
    asked = [random_request(draw) for _ in range(12)]
    requests = [server.submit(**options) for options in asked]
    failures = 0
    while server.requests:
        try:
            server.run()
        except KeyboardInterrupt:
            failures += 1
        check_laws(server)
    assert failures > 5
    assert [(request.outputs, request.scores) for request in requests] == [alone(**options) for options in asked]


def test_a_run_returns_the_requests_in_order_of_arrival():
    server = engine(20, 4, 8)
    for token in range(3):
        server.submit([token], 4 - token)
    assert [len(request.outputs[0]) for request in server.run()] == [4, 3, 2]
