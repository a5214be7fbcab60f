"""``python -m attnlab_course.plots notebooks`` draws README's six pictures into notebooks/figures.

Four of them say what the algorithms cost, which is measured on this machine, in about a minute. The poster shows the
code of lesson 00.
"""

import argparse
from pathlib import Path

from attnlab_course.plots import STYLE, ladder_costs, ladders
from attnlab_course.plots.poster import functions, poster

import matplotlib


def main() -> None:
    """Measure, draw, write."""
    parser = argparse.ArgumentParser(prog="python -m attnlab_course.plots", description="Draw README's pictures.")
    parser.add_argument("notebooks", type=Path, help="the folder that holds lessons and figures")
    folder = parser.parse_args().notebooks
    clock = ladder_costs.measure_times()
    if faults := clock.faults():
        raise SystemExit(f"the times contradict README: {'; '.join(faults)}")
    figures = {
        "memory": ladder_costs.memory(ladder_costs.measure_memory()),
        "traffic": ladder_costs.traffic(ladder_costs.count_traffic()),
        "roofline": ladder_costs.place(8192, ladder_costs.D),
        "time": ladder_costs.times(clock, ladder_costs.one_core()),
    }
    with matplotlib.rc_context(STYLE):
        for name, figure in {"ladders": ladders(), **figures}.items():
            figure.savefig(folder / f"figures/{name}.svg", metadata={"Date": None})
    lesson = (folder / "lessons/00_start_here.md").read_text(encoding="utf-8")
    (folder / "figures/poster.svg").write_text(poster(functions(lesson)), encoding="utf-8")


if __name__ == "__main__":
    main()
