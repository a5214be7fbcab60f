"""Plans of a kernel on one clock: what tensor cores and exponential units do while groups of warps take turns."""

from collections.abc import Mapping, Sequence

from attnlab_course.plots.moving.figure import Moving
from attnlab_course.plots.moving.drawn import Film, Mark, box, drawn, word
from attnlab_course.plots.style import GROUPS

UNITS = {"products": "tensor cores", "exp": "exponentials"}

Step = tuple[str, int, str, float, float]
"""What a plan consists of: unit, group of warps, label, start, end."""

WIDTH, LEFT = 560, 96  # of the picture, and of the names of its rows
ROW, PLAN = 24, 78  # heights of a row, and of a plan with its title
PALE = 0.25  # opacity of what hasn't begun


def state(plan: Sequence[Step], now: float) -> tuple[int, int, float]:
    """At some time: the tiles done, all tiles, and the share of the time in which the tensor cores were busy."""
    now = min(now, end(plan))
    done = [step for step in plan if step[4] <= now]
    busy = sum(min(stop, now) - min(start, now) for unit, _, _, start, stop in plan if unit == "products")
    tiles = [sum(name.startswith("O") for _, _, name, *_ in steps) for steps in (done, plan)]
    return tiles[0], tiles[1], busy / now if now else 0.0


def end(plan: Sequence[Step]) -> float:
    """When a plan's last operation ends."""
    return max(step[4] for step in plan)


def timeline(plans: Mapping[str, Sequence[Step]]) -> Moving:
    """Plans under one another; a step is the next time at which an operation of any of them begins or ends."""
    times = sorted({round(time, 6) for plan in plans.values() for step in plan for time in step[3:]})
    unit = (WIDTH - LEFT) / times[-1]
    steps = []
    for now in times:
        marks = []
        for at, (name, plan) in enumerate(plans.items()):
            done, tiles, busy = state(plan, now)
            top = PLAN * at
            marks.append(word(0, top + 13, f"{name}: {done} of {tiles} tiles, tensor cores busy {busy:.0%}"))
            marks += [word(0, top + 20 + ROW * row + 16, said) for row, said in enumerate(UNITS.values())]
            for kind, group, label, start, stop in plan:
                x, y = LEFT + unit * start, top + 20 + ROW * list(UNITS).index(kind)
                begun = start < now
                seen = {"opacity": 1 if begun else PALE}
                marks.append(box(x, y, unit * (stop - start) - 1, ROW - 3, fill=GROUPS[group], **seen))
                middle, style = x + unit * (stop - start) / 2, "fill:#222" if begun else ""
                marks.append(word(middle, y + 15, label, "middle", style=style))
        clock = "".join(f"M{LEFT + unit * now:.0f} {PLAN * at + 18}v{2 * ROW}" for at in range(len(plans)))
        marks.append(Mark("path", {"class": "new", "d": clock}))
        steps.append(((round(now, 2),), marks))
    said = "; ".join(f"{name}: {state(plan, end(plan))[1]} tiles take {end(plan):.3g}" for name, plan in plans.items())
    text = (
        f"Plans over time, two rows each, tensor cores and exponentials; operations light up as a clock passes them. "
        f"In units of the products of a tile, {said}."
    )
    film = Film(WIDTH, PLAN * len(plans), "time {}, in units of the products of one tile", steps)
    return drawn({"plans": film}, text)
