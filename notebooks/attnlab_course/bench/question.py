"""A question to the stopwatch: calls to time in turns, a table of the answer, and the one printer of all of them."""

import importlib.metadata
import os
import platform
import statistics
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnlab.core.arguments import LIBRARIES
from attnlab_course.bench.calls import make_arrays
from attnlab_course.instruments import hardware
from attnlab_course.instruments.timing import SETTLE, WITHIN, Call, has_settled, interleave

Times = Mapping[str, float]  # median seconds of each call; one that failed is not there


@dataclass(frozen=True)
class Question:
    """A table. For each of ``settings``, the calls that ``prepare`` returns are timed in turns.

    Their medians become one row or several by ``make_rows``. The first word of a call's name is its library. notes:
    what to say below the table, name → reason.
    """

    title: str
    head: Sequence[str]
    settings: Sequence[Any]
    prepare: Callable[[Any], Mapping[str, Call]]
    make_rows: Callable[[Any, Times], Iterable[Sequence[str]]]
    notes: Mapping[str, str] = field(default_factory=dict)


def print_answer(question: Question, rounds: int | None, seconds: float | int) -> None:
    """Measure and print; below the table stands who took no part, what failed and which times are not to be trusted."""
    rows, notes = [], dict(question.notes)
    for setting in question.settings:
        failed: dict[str, str] = {}
        taken = interleave(question.prepare(setting), rounds, seconds, settle=SETTLE, failed=failed)
        make_arrays.cache_clear()  # they are large, and a call may have given those of JAX away
        rows += question.make_rows(setting, {name: statistics.median(values) for name, values in taken.items()})
        notes |= {name: f"failed: {why}" for name, why in failed.items()}
        restless = [name for name, values in taken.items() if not has_settled(values)]
        notes |= dict.fromkeys(restless, f"scattered by more than {WITHIN:.0%}; repeat on an idle machine")
    print(question.title, *format_table(question.head, rows), *group_notes(notes), "", sep="\n", flush=True)


def format_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Lines of a table in Markdown, its columns aligned; the first one is text."""
    lines = [head, *rows]
    first, *widths = [max(3, *map(len, column)) for column in zip(*lines)]
    lines.insert(1, ["-" * first, *("-" * (width - 1) + ":" for width in widths)])
    yield ""
    for text, *numbers in lines:
        yield f"| {' | '.join([text.ljust(first), *(x.rjust(width) for x, width in zip(numbers, widths))])} |"


def group_notes(notes: Mapping[str, str]) -> Iterator[str]:
    """Lines below a table, those with the same reason together."""
    for reason in dict.fromkeys(notes.values()):
        yield ""
        yield from textwrap.wrap(f"{', '.join(x for x in notes if notes[x] == reason)}: {reason}", 100)


def format_ms(seconds: float | None) -> str:
    """A time in milliseconds, or – where there is none."""
    return "–" if seconds is None else f"{1e3 * seconds:,.0f}" if seconds >= 0.1 else f"{1e3 * seconds:.3g}"


def format_ratio(a: float | None, b: float | None) -> str:
    """A ratio, or – where one of the two is missing."""
    return "–" if a is None or b is None else f"{a / b:.2f}"


def describe_machine(device: str) -> str:
    """Processor, cores that this process may use, memory, system, GPU and versions, as one line."""
    model = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        lines = information.read_text(encoding="utf-8").splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), model)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    text = f"{model}, {cores} cores, {hardware.memory_size() / 2**30:.0f} GiB, {platform.system()}"
    if device == "cuda":
        import torch

        text = f"{torch.cuda.get_device_name()}; {text}"
    return f"{text}; {', '.join(_versions())}"


def _versions() -> Iterator[str]:
    """Versions of Python and the libraries."""
    yield f"Python {platform.python_version()}"
    for name in LIBRARIES:
        try:
            yield f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            continue
