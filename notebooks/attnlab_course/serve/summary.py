"""Summary of a run: throughput, latencies and memory, in words. Array-free."""

import math
from itertools import pairwise

from attnlab_course.serve.engine import Engine
from attnlab_course.serve.request import Moment, Request
from attnlab_course.serve.trace import Record


def summary(engine: Engine, requests: list[Request]) -> str:
    """What to say of ``requests`` of an engine, at least one, done or not, and of their steps."""
    sequences = [sequence for request in requests for sequence in request.sequences if sequence.moments]
    if not sequences:
        return "no token was made"
    start, end = min(one.arrival for one in requests), max(one.moments[-1] for one in sequences)
    trace, seconds = engine.trace[start.step : end.step], end.seconds - start.seconds
    sums, slots = Record(*map(sum, zip(*trace))), sum(one.blocks for one in trace) * engine.manager.block_size
    new, blocks, most = sum(len(one.moments) for one in sequences), engine.manager.blocks, max(x.blocks for x in trace)
    block = engine.runner.nbytes / blocks / 2**20
    first = _times([(one.arrival, one.first_token) for one in requests if one.first_token])
    later = _times([pair for one in sequences for pair in pairwise(one.moments)])
    guesses = (
        f"{sums.accepted:,} of {sums.guessed:,} accepted ({sums.accepted / sums.guessed:.0%}): "
        f"{1 + sums.accepted / sums.decoded:.2f} tokens per call of a sequence"
    ) if sums.guessed else "none"
    return f"""\
throughput           {new / seconds:,.0f} tokens/s: {new:,} new tokens in {seconds:.2f} s, {len(trace):,} steps
                     {sums.tokens:,} tokens fed, {sums.reused:,} found in the cache, {sums.preempted:,} preemptions
time to first token  {first}
time between tokens  {later}
guesses              {guesses}
memory               at most {most:,} of {blocks:,} blocks held, {most * block:.1f} of {blocks * block:.1f} MiB
                     of the slots held {sums.filled / slots:.0%} in use; to reserve the longest texts would take
                     {sums.reserved / slots:.1f} times as many"""


def _times(pairs: list[tuple[Moment, Moment]]) -> str:
    """The median and the 95th percentile of times from moment to moment, in milliseconds and steps."""
    if not pairs:
        return "none"
    steps, seconds = (sorted(late[i] - early[i] for early, late in pairs) for i in (0, 1))
    (a, b), (c, d) = ([x[math.ceil(share * len(x)) - 1] for share in (0.5, 0.95)] for x in (seconds, steps))
    return f"median {1000 * a:,.1f} ms (steps: {c}), 95% within {1000 * b:,.1f} ms (steps: {d})"
