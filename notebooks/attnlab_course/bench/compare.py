"""The question that is asked where no option names another: every algorithm in every library, in each setting."""

import argparse
import dataclasses
import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from attnlab.measure import binary, extra_bytes, in_fresh_process, jax_bytes
from attnlab_course.bench import peers
from attnlab_course.bench.calls import count_flops, make_inputs, make_timed_call, prepare_all
from attnlab_course.bench.contestants import UNIT, Contestant, choose_contestants
from attnlab_course.bench.question import Question, Times, format_ms, format_ratio
from attnlab_course.bench.setting import Setting
from attnlab_course.instruments.timing import tqdm

LONGEST = 4096  # up to here extra memory is measured unasked: it takes two more calls of each contestant


def make_questions(options: argparse.Namespace) -> Iterator[Question]:
    """A table for each setting that was asked for."""
    for setting in list_settings(options):
        found, notes = choose_contestants(setting, options.libraries, options.methods)
        memory = setting.keys <= LONGEST if options.memory is None else options.memory
        if not memory:
            notes["extra memory"] = f"not measured beyond M = {LONGEST} unless --memory asks for it"
        head = "", "ms", "÷ sdpa", "TFLOP/s" if setting.device == "cuda" else "GFLOP/s", "of products", "extra memory"
        yield Question(str(setting), head, [setting], functools.partial(prepare_all, found),
                       functools.partial(make_rows, memory=memory), notes)  # fmt: skip


def list_settings(options: argparse.Namespace) -> Iterator[Setting]:
    """Every combination of what was asked for."""
    causal = {"no": [False], "yes": [True], "both": [False, True]}[options.causal]
    passes = {None: [False, True], "forward": [False], "forward+backward": [True]}[options.only]
    for dtype, d, hide, gradient, n in itertools.product(options.dtype, options.d, causal, passes, options.n or [2048]):
        yield Setting(
            n, options.m, options.batch, options.heads, options.kv_heads or options.heads, d, hide,
            options.window and tuple(options.window), dtype, options.device, gradient,
        )  # fmt: skip


def make_rows(setting: Setting, times: Times, memory: bool) -> Iterator[list[str]]:
    """A row a contestant: its time, its rate beside that of the products and, if asked, its extra memory."""
    found, scale = [Contestant(*name.split()) for name in times], 1e12 if setting.device == "cuda" else 1e9
    rates = {c: count_flops(c, setting) / times[c.name] for c in found}
    measured = [c for c in found if memory and c.method not in ("products", *peers.NEEDS)]  # theirs isn't Python's
    extra = dict(zip(measured, extra_memory([(c, setting) for c in measured]))) if measured else {}
    for c in found:
        products = Contestant(c.library, "products")
        unit, peak = (None, None) if c == products else (times.get(UNIT.name), rates.get(products))
        yield [
            c.name, format_ms(times[c.name]), format_ratio(times[c.name], unit), f"{rates[c] / scale:.1f}",
            format_ratio(rates[c], peak), binary(extra[c]) if c in extra else "–",
        ]  # fmt: skip


def extra_memory(tasks: Sequence[tuple[Contestant, Setting]]) -> list[int]:
    """Peak bytes of each task beyond its inputs and its result.

    In a process of its own: JAX's account needs a flag that times must not have.
    """
    plain = [{"who": dataclasses.asdict(who), "what": dataclasses.asdict(what)} for who, what in tasks]
    found = in_fresh_process("attnlab_course.bench.compare:_measure", plain)
    return list(tqdm(found, "extra memory", total=len(plain), disable=None, leave=False))


def _measure(who: dict[str, Any], what: dict[str, Any]) -> int:
    """The work of :func:`extra_memory` for one task, done in this process. JAX compiles, the others run."""
    contestant, setting = Contestant(**who), Setting(**what)
    if setting.window:
        setting = dataclasses.replace(setting, window=tuple(setting.window))  # JSON has no tuples
    run = make_timed_call(contestant, setting)
    if contestant.library == "jax":
        return jax_bytes(run, *make_inputs(contestant, setting, shapes_only=True))
    if contestant.library == "torch":
        small = dataclasses.replace(setting, n=16, m=None)  # a first call also allocates what is kept for good
        make_timed_call(contestant, small)(*make_inputs(contestant, small))
    return extra_bytes(run, *make_inputs(contestant, setting))
