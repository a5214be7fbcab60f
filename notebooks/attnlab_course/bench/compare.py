"""The run: a table for each setting, then on request a CSV of all."""

import argparse
from collections.abc import Sequence

from attnlab_course.bench import table
from attnlab_course.bench.calls import prepare
from attnlab_course.bench.contestants import UNIT, Contestant, contestants
from attnlab_course.bench.extra_memory import extra_memory
from attnlab_course.bench.setting import Setting
from attnlab_course.instruments.timing import interleave, noise

LONGEST = 4096  # up to here extra memory is measured unasked: it takes two more calls of each contestant


def print_tables(settings: Sequence[Setting], options: argparse.Namespace) -> None:
    """Measure and print every setting; then write the numbers if asked."""
    print(f"{table.describe_machine(options.device)}\n{table.describe_versions()}\n")
    found = [row for setting in settings for row in _measure_setting(setting, options)]
    if options.csv:
        table.write_csv(found, options.csv)


def _measure_setting(setting: Setting, options: argparse.Namespace) -> list[table.Row]:
    """Measure one setting and print its table, notes below it."""
    found, notes = contestants(setting, options.libraries, options.methods)
    calls = {c.name: prepare(c, setting) for c in found}
    taken, failed = interleave(calls, options.rounds, options.seconds)
    notes |= {name: f"failed: {why}" for name, why in failed.items()}
    found = [c for c in found if c.name in taken]
    wanted = setting.keys <= LONGEST if options.memory is None else options.memory
    notes |= {} if wanted else {"extra memory": f"not measured beyond M = {LONGEST} unless --memory asks for it"}
    rows = table.make_rows(setting, found, taken, _measure_memory(setting, found) if wanted else {})
    loud = noise(taken, _yardsticks(found))
    print("\n".join([*table.format_rows(rows), *table.remarks(notes), *([loud] if loud else []), ""]), flush=True)
    return rows


def _measure_memory(setting: Setting, found: Sequence[Contestant]) -> dict[str, int]:
    """Extra bytes of each contestant by its name; the products need none."""
    measured = [c for c in found if c.method != "products"]
    return dict(zip([c.name for c in measured], extra_memory([(c, setting) for c in measured])))


def _yardsticks(found: Sequence[Contestant]) -> list[str]:
    """Names of the contestants with which the others are compared."""
    return [c.name for c in found if c == UNIT or c.method == "products"]
