"""One turn of the ring: whose keys are at which device, what they show its queries, and what each waits for."""

from collections.abc import Mapping
from itertools import groupby
from typing import Any, NamedTuple

from attnlab.ring import Cluster, Schedule, Work, ring_attention, shard
from attnlab.ring.programs import Steps
from attnlab.ring.schedule import Part
from attnlab_course.plots.moving.figure import Moving
from attnlab_course.plots.moving.drawn import Film, Mark, drawn, outline, word
from attnlab_course.plots.style import DEVICES

import numpy as np

SIZE = 8  # of a query, a key, a value, in numbers
WIDTH, MIDDLE = 350, 176  # of the picture; where the ring's center is, from above
SIDE, FAR, NEAR = 64, 108, 52  # a square of scores; from the center to a square, and to a block of keys
PLACES = ((0, -1), (1, 0), (0, 1), (-1, 0))  # of four devices
BARS = 350  # where the bars begin, from above
ARROWS = "M32-36l8 2l-2-8M36 32l-2 8l8-2M-32 36l-8-2l2 8M-36-32l2-8l-8 2"  # on the ring, between devices
INKS = ("#222", "#222", "#222", "#fff")  # on the colors of the devices


class Turn(NamedTuple):
    """A causal turn of a cluster: its layout, the tokens on each device, what was sent and computed.

    ``holders``: at each step, the device of each block, None where nobody needs it any more.
    """

    ring: Schedule
    tokens: int
    cluster: Cluster
    holders: list[list[int | None]]


def turn(tokens: int, layout: str) -> Turn:
    """Run the package's causal ring over four devices with so many tokens each.

    On the cluster's clock a score takes a second, and links take no time.
    """

    def program(rank: Any, *x: np.ndarray) -> Steps:
        return (yield from ring_attention(*x, group=rank, causal=True, layout=layout))

    devices = len(PLACES)
    cluster = Cluster(devices, rate=4 * SIZE)
    x = np.random.default_rng(0).normal(size=(3, devices * tokens, SIZE))
    cluster.run(program, *(shard(each, devices, layout) for each in x))
    to = {(message.step, message.source): message.to for message in cluster.messages}
    holders: list[list[int | None]] = [list(range(devices))]
    for step in range(devices - 1):
        holders.append([to.get((step, holder)) if holder is not None else None for holder in holders[-1]])
    return Turn(Schedule(devices * tokens, devices, layout, right=0), tokens, cluster, holders)


def numbers(turned: Turn) -> list[list[int]]:
    """Of each step, so far: its number, numbers sent, scores computed, scores that fit into the time spent idle."""
    found = []
    for step in range(turned.ring.devices):
        done = work(turned, step)
        pairs, time = sum(each.pairs for each in done), max(each.end for each in done)
        sent = sum(message.bytes for message in turned.cluster.messages if message.step < step) // 8
        found.append([step + 1, sent, pairs, round(turned.ring.devices * time) - pairs])
    return found


def work(turned: Turn, step: int) -> list[Work]:
    """What was computed until the end of a step."""
    return [each for each in turned.cluster.work if each.step <= step]


def turns(runs: Mapping[str, Turn]) -> Moving:
    """Turns of the ring, to be chosen from by name."""
    said = []
    for name, turned in runs.items():
        _, sent, pairs, idle = numbers(turned)[-1]
        said.append(f"{name}: {sent:,} numbers sent, {pairs} scores computed, idle for as long as {idle} more take")
    text = (
        f"{len(PLACES)} devices in a ring, each with a square that shows what its queries see of the keys at hand. In "
        f"each step the blocks of keys move on to the next device; bars show when each device computes. After the last "
        f"step, {'; '.join(said)}."
    )
    return drawn({name: film(turned) for name, turned in runs.items()}, text)


def film(turned: Turn) -> Film:
    """The ring above, the time of each device below."""
    devices = turned.ring.devices
    words = f"step {{}} of {devices} · {{}} numbers sent · {{}} scores computed · idle: time enough for {{}} more"
    pictures = [[*squares(turned, step), *blocks(turned, step), *bars(turned, step)] for step in range(devices)]
    return Film(WIDTH, BARS + 18 * devices + 8, words, list(zip(numbers(turned), pictures)))


def squares(turned: Turn, step: int) -> list[Mark]:
    """What each device's queries see of the keys that are there."""
    center, unit = WIDTH // 2, SIDE // turned.tokens
    corners = [(center + FAR * x - SIDE // 2, MIDDLE + FAR * y - SIDE // 2) for x, y in PLACES]
    marks = [
        word(0, 12, "queries of each device down, keys at hand across"),
        Mark("circle", {"class": "bar", "cx": center, "cy": MIDDLE, "r": NEAR}),
        Mark("path", {"class": "new", "transform": f"translate({center} {MIDDLE})", "d": ARROWS}),
        Mark("path", {"class": "bar", "d": "".join(outline(*corner, SIDE, SIDE) for corner in corners)}),
    ]
    for device, (left, top) in enumerate(corners):
        holder = turned.ring.holder(device, step)
        parts = turned.ring.parts(device, holder)
        label = (left, top - 8) if device % 2 else (left + SIDE + 8, top + SIDE // 2 + 4)
        marks += [
            Mark("path", {"fill": DEVICES[holder], "d": visible(parts, left, top, unit)}),
            word(*label, f"device {device}"),
            word(left + 20, top + SIDE // 2 + 4, "" if parts else "idle"),
        ]
    return marks


def visible(parts: list[Part], left: int, top: int, unit: int) -> str:
    """The visible scores as a path: equal rows that follow each other are one rectangle."""
    path = ""
    for part in parts:
        low, high = part.band.low, part.band.high
        runs = []
        for i in range(part.band.n):
            first = 0 if low is None else max(i + low, 0)
            runs.append((first, part.band.m if high is None else min(i + high + 1, part.band.m)))
        row = part.rows.start
        for (first, end), equal in groupby(runs):
            count = len(list(equal))
            if first < end:
                x, y = left + unit * (part.cols.start + first), top + unit * row
                path += outline(x, y, unit * (end - first), unit * count)
            row += count
    return path


def blocks(turned: Turn, step: int) -> list[Mark]:
    """The blocks of keys and values, each at its device; gone when nobody needs it any more."""
    marks = []
    for owner in range(turned.ring.devices):
        stops = [holders[owner] for holders in turned.holders[: step + 1]]
        at = next(stop for stop in reversed(stops) if stop is not None)
        x, y = (NEAR * z for z in PLACES[at])
        inside = f'<rect x="-19" y="-11" width="38" height="22" rx="4" fill="{DEVICES[owner]}"/>'
        inside += f'<text y="4" text-anchor="middle" style="fill:{INKS[owner]}">KV {owner}</text>'
        place, seen = f"translate({WIDTH // 2 + x} {MIDDLE + y})", int(stops[-1] is not None)
        marks.append(Mark("g", {"class": "hop", "transform": place, "opacity": seen, "text": inside}))
    return marks


def bars(turned: Turn, step: int) -> list[Mark]:
    """When each device computed, in the color of the keys; the outline is the time so far."""
    devices, left = turned.ring.devices, 14
    unit = (WIDTH - left) / (devices * turned.tokens**2)
    time = round(unit * max(each.end for each in work(turned, step)))
    tops = [BARS + 18 * device for device in range(devices)]
    marks = [word(0, BARS - 8, "time: filled where a device computes")]
    for device, top in enumerate(tops):
        marks.append(word(0, top + 11, device))
        for at in range(devices):
            done = [each for each in work(turned, step) if (each.rank, each.step) == (device, at)]
            start, end = (round(unit * x) for x in ((done[0].start, done[-1].end) if done else (0, 0)))
            fill = DEVICES[turned.ring.holder(device, at)]
            marks.append(Mark("path", {"fill": fill, "d": outline(left + start, top, end - start, 12) if done else ""}))
    return [*marks, Mark("path", {"class": "bar", "d": "".join(outline(left, top, time, 12) for top in tops)})]
