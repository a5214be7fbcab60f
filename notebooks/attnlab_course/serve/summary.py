"""Summary of a run: throughput, latencies and memory, in one line. Array-free."""

from itertools import pairwise
from statistics import median

from attnlab_course.serve.engine import Engine
from attnlab_course.serve.request import Request
from attnlab_course.serve.trace import StepRecord


def summary(engine: Engine, requests: list[Request]) -> str:
    """What to say of ``requests`` of an engine, at least one, done or not, and of their steps."""
    sequences = [sequence for request in requests for sequence in request.sequences if sequence.moments]
    if not sequences:
        return "no token was made"
    start, end = min(one.arrival for one in requests), max(one.moments[-1] for one in sequences)
    trace, seconds = engine.trace[start.step : end.step], end.seconds - start.seconds
    sums, new = StepRecord(*map(sum, zip(*trace))), sum(len(one.moments) for one in sequences)
    first = median(one.first_token.seconds - one.arrival.seconds for one in requests if one.first_token)
    said = [
        f"throughput {new / seconds:,.0f} tokens/s: {new:,} new tokens in {seconds:.2f} s, {len(trace):,} steps",
        f"the first token after {1000 * first:,.1f} ms",
        f"at most {max(one.blocks for one in trace):,} of {engine.manager.blocks:,} blocks held",
        f"{sums.preempted:,} preemptions",
    ]
    if later := [b.seconds - a.seconds for one in sequences for a, b in pairwise(one.moments)]:
        said[1] += f", then one every {1000 * median(later):,.1f} ms (medians)"
    if sums.guessed:
        said += [f"{sums.accepted:,} of {sums.guessed:,} guesses accepted ({sums.accepted / sums.guessed:.0%})",
                 f"{1 + sums.accepted / sums.decoded:.2f} tokens per call of a sequence"]  # fmt: skip
    return "; ".join(said)
