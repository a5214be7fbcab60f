"""What was measured, as rows: printed as a table, written as CSV. All commands print by ``grid``."""

import csv
import datetime
import importlib.metadata
import os
import platform
import statistics
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from attnlab.core.arguments import LIBRARIES
from attnlab.measure import binary
from attnlab_course.bench.calls import flops
from attnlab_course.bench.contestants import UNIT, Contestant
from attnlab_course.bench.setting import Setting
from attnlab_course.instruments import hardware
from attnlab_course.instruments.timing import spread


@dataclass(frozen=True)
class Row:
    """One contestant in one setting. rate: FLOP/s. fraction: of its library's matrix products. extra: bytes."""

    contestant: Contestant
    setting: Setting
    seconds: float
    spread: float
    rounds: int
    rate: float
    ratio: float | None
    fraction: float | None
    extra: int | None


def make_rows(
    setting: Setting, found: Sequence[Contestant], taken: Mapping[str, Sequence[float]],
    extra: Mapping[str, int],
) -> list[Row]:
    """Rows of the contestants that were timed, by their medians."""
    times = {c: statistics.median(taken[c.name]) for c in found if c.name in taken}
    rates = {c: flops(c, setting) / time for c, time in times.items()}
    result = []
    for c, time in times.items():
        unit, product = times.get(UNIT), rates.get(Contestant(c.library, "products"))
        if c.method == "products":
            unit = product = None
        result.append(Row(
            c, setting, time, spread(taken[c.name]), len(taken[c.name]), rates[c], unit and time / unit,
            product and rates[c] / product, extra.get(c.name),
        ))  # fmt: skip
    return result


def grid(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Lines of a table in Markdown, its columns aligned; the first one is text."""
    lines = [head, *rows]
    first, *widths = [max(3, *map(len, column)) for column in zip(*lines)]
    lines.insert(1, ["-" * first, *("-" * (width - 1) + ":" for width in widths)])
    for text, *numbers in lines:
        yield f"| {' | '.join([text.ljust(first), *(x.rjust(width) for x, width in zip(numbers, widths))])} |"


def format_rows(found: Sequence[Row]) -> Iterator[str]:
    """Lines to print for one setting."""
    unit, scale = ("TFLOP/s", 1e12) if found[0].setting.device == "cuda" else ("GFLOP/s", 1e9)
    yield str(found[0].setting)
    head = "", "time", "spread", "÷ sdpa", unit, "of products", "extra memory"
    yield from grid(head, (
        (
            row.contestant.name, f"{row.seconds * 1e3:.2f} ms", "" if row.rounds == 1 else f"{row.spread:.0%}",
            "" if row.ratio is None else f"{row.ratio:.2f}", f"{row.rate / scale:.1f}",
            "" if row.fraction is None else f"{row.fraction:.0%}", "" if row.extra is None else binary(row.extra),
        ) for row in found
    ))  # fmt: skip


def remarks(notes: Mapping[str, str]) -> Iterator[str]:
    """Lines below a table: who did not take part, those with the same reason together."""
    for reason in dict.fromkeys(notes.values()):
        yield from textwrap.wrap(f"{', '.join(x for x in notes if notes[x] == reason)}: {reason}", 100)


def write_csv(found: Sequence[Row], path: Path) -> None:
    """One row a contestant and setting, below comments that say when and on what it was measured."""
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(f"# python -m attnlab_course.bench, {datetime.date.today().isoformat()}\n")
        file.write(f"# {describe_machine(found[0].setting.device)}\n")
        file.write(f"# {describe_versions()}\n")
        writer = csv.DictWriter(file, list(csv_record(found[0])))
        writer.writeheader()
        writer.writerows(csv_record(row) for row in found)


def csv_record(row: Row) -> dict[str, object]:
    """A row of the CSV: what ran, the setting, the numbers; nothing where there is none."""
    setting = {**asdict(row.setting), "pass": row.setting.work}
    del setting["gradient"]
    setting["m"] = row.setting.keys
    setting["window"] = "" if row.setting.window is None else "{} {}".format(*row.setting.window)
    numbers = {
        "seconds": f"{row.seconds:.6g}", "spread": f"{row.spread:.3f}", "rounds": row.rounds,
        "flop_per_second": f"{row.rate:.4g}", "ratio_to_sdpa": "" if row.ratio is None else f"{row.ratio:.4f}",
        "fraction_of_products": "" if row.fraction is None else f"{row.fraction:.4f}", "extra_bytes": row.extra,
    }  # fmt: skip
    return {"library": row.contestant.library, "method": row.contestant.method, **setting, **numbers}


def describe_machine(device: str) -> str:
    """Processor, cores that this process may use, memory, system and GPU, as one line."""
    model = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        lines = information.read_text(encoding="utf-8").splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), model)
    text = f"{model}, {_usable_cores()} cores, {hardware.memory_size() / 2**30:.0f} GiB, {platform.system()}"
    if device == "cuda":
        import torch

        return f"{torch.cuda.get_device_name()}; {text}"
    return text


def _usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def describe_versions() -> str:
    """Versions of Python and the libraries, as one line."""
    found = [f"Python {platform.python_version()}"]
    for name in LIBRARIES:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(found)
