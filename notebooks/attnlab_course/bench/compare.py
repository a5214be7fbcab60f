"""The question that is asked where no option names another: every algorithm in every library, in each setting."""

import argparse
import itertools
from collections.abc import Iterator, Sequence

from attnlab.measure import binary
from attnlab_course.bench.calls import count_flops, prepare
from attnlab_course.bench.contestants import UNIT, Contestant, choose_contestants
from attnlab_course.bench.extra_memory import extra_memory
from attnlab_course.bench.question import Question, Times, format_ms, format_ratio
from attnlab_course.bench.setting import Setting

LONGEST = 4096  # up to here extra memory is measured unasked: it takes two more calls of each contestant


def make_questions(options: argparse.Namespace) -> Iterator[Question]:
    """A table for each setting that was asked for."""
    return (_question(setting, options) for setting in list_settings(options))


def list_settings(options: argparse.Namespace) -> Iterator[Setting]:
    """Every combination of what was asked for."""
    causal = {"no": [False], "yes": [True], "both": [False, True]}[options.causal]
    passes = {None: [False, True], "forward": [False], "forward+backward": [True]}[options.only]
    for dtype, d, hide, gradient, n in itertools.product(
        options.dtype, options.d, causal, passes, options.n or [2048]
    ):
        yield Setting(
            n, options.m, options.batch, options.heads, options.kv_heads or options.heads, d, hide,
            options.window and tuple(options.window), options.padding, dtype, options.device, gradient,
            options.block_q, options.block_k,
        )  # fmt: skip


def _question(setting: Setting, options: argparse.Namespace) -> Question:
    found, notes = choose_contestants(setting, options.libraries, options.methods)
    memory = setting.keys <= LONGEST if options.memory is None else options.memory
    if not memory:
        notes["extra memory"] = f"not measured beyond M = {LONGEST} unless --memory asks for it"
    unit = "TFLOP/s" if setting.device == "cuda" else "GFLOP/s"
    return Question(
        str(setting), ("", "ms", "÷ sdpa", unit, "of products", "extra memory"), [setting],
        lambda setting: {c.name: prepare(c, setting) for c in found},
        lambda setting, times: make_rows(setting, [c for c in found if c.name in times], times, memory), notes,
    )  # fmt: skip


def make_rows(setting: Setting, found: Sequence[Contestant], times: Times, memory: bool) -> Iterator[list[str]]:
    """A row a contestant: its time, its rate beside that of the products and, if asked, its extra memory."""
    scale = 1e12 if setting.device == "cuda" else 1e9
    rates = {c: count_flops(c, setting) / times[c.name] for c in found}
    measured = [c for c in found if memory and c.method != "products"]
    extra = dict(zip(measured, extra_memory([(c, setting) for c in measured]))) if measured else {}
    for c in found:
        products = Contestant(c.library, "products")
        unit, peak = (None, None) if c == products else (times.get(UNIT.name), rates.get(products))
        yield [
            c.name, format_ms(times[c.name]), format_ratio(times[c.name], unit), f"{rates[c] / scale:.1f}",
            format_ratio(rates[c], peak), binary(extra[c]) if c in extra else "–",
        ]  # fmt: skip
