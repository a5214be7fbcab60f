"""A roofline with two slopes, and a point on each: equation (7.13) for some algorithms, lengths, heads and tiles."""

import math
from typing import NamedTuple

from attnlab import costs
from attnlab_course.instruments.hardware import ACCELERATORS, MULTIPROCESSORS
from attnlab_course.plots.moving.drawn import word
from attnlab_course.plots.moving.figure import Moving

MACHINE, CHIP = ACCELERATORS["A100 40 GB"], MULTIPROCESSORS["A100"]
ITEMSIZE = 2
LENGTHS, HEADS, TILES = [2**e for e in range(8, 16)], [128, 64, 256], [128, 32, 64, 192]
FIRST = 5  # of LENGTHS
METHODS = {
    "tiled, queries stay": ("flash2", ("K", "V")),
    "tiled, keys stay": ("flash", ("Q", "O", "l", "m")),
    "unfused": ("safe", ("S", "P")),
    "decoding, one query": ("flash2", ()),
}
"""Name → method of attnlab.costs, and the arrays that cross more than once."""

WIDE, TALL = 330, 210  # of the axes, in pixels
LEFT, RIGHT, LOW, HIGH = 0.5, 2e4, 5e11, 6e14  # FLOP per byte, FLOP/s


class Place(NamedTuple):
    """What (7.13) says: intensities by the bytes of HBM and of L2, seconds of all three, bytes that a tile holds."""

    hbm: float
    l2: float
    seconds: tuple[float, float, float]  # arithmetic, L2, HBM
    held: int

    @property
    def bound(self) -> int:
        """Which of the three is the longest."""
        return self.seconds.index(max(self.seconds))


def place(name: str, n: int, d: int, rows: int) -> Place:
    """An algorithm of METHODS, one head of n tokens, where ``rows`` queries or keys stay and 64 of the others pass.

    L2 carries all that is counted. So does HBM, unless what crosses more than once fits L2: then each input and the
    output cross once.
    """
    method, again = METHODS[name]
    tile = (64, rows) if method == "flash" else (1 if "decoding" in name else rows, 64)
    options = {} if method == "safe" else dict(zip(("block_q", "block_k"), tile))
    form = costs.forward(method, 1 if "decoding" in name else n, n, d, d, itemsize=ITEMSIZE, **options)
    sizes = dict.fromkeys("QKVO", n * d) | dict.fromkeys("SP", n * n) | dict.fromkeys("lm", n)
    fits = again and ITEMSIZE * sum(sizes[x] for x in again) <= CHIP.l2
    hbm = ITEMSIZE * 4 * n * d if fits else form.bytes
    held = 0 if method == "safe" else ITEMSIZE * costs.on_chip_elements(method, *tile, d, d)
    seconds = (form.products / MACHINE.flops, form.bytes / CHIP.l2_bandwidth, hbm / MACHINE.bandwidth)
    return Place(form.products / hbm, form.intensity, seconds, held)


def roofline() -> Moving:
    """The figure: all places, by algorithm, head size and tile, for each length."""
    trace: dict[str, list] = {
        name: [[d, [tile(name, d, rows) for rows in tiled(name)]] for d in HEADS] for name in METHODS
    }
    first = place(next(iter(METHODS)), LENGTHS[FIRST], HEADS[0], TILES[0])
    text = (
        f"Two rooflines of an {MACHINE.name} with one flat top, both axes logarithmic: the slope of HBM ends at "
        f"{MACHINE.balance:.0f} FLOP per byte, that of L2 at {MACHINE.flops / CHIP.l2_bandwidth:.0f}. A head of "
        f"{LENGTHS[FIRST]:,} tokens, where {TILES[0]} queries stay on chip, has {first.hbm:,.0f} FLOP per byte of HBM "
        f"and {first.l2:.0f} per byte of L2."
    )
    return Moving("roof", {"all": frame(first)}, trace, text)


def tiled(name: str) -> list[int]:
    """The tiles to choose from, 0 where there are none."""
    return TILES if name.startswith("tiled") else [0]


def tile(name: str, d: int, rows: int) -> list:
    """A tile's size, what it holds, and the places of all lengths."""
    places = [place(name, n, d, rows) for n in LENGTHS]
    held = f"{places[0].held / 2**10:.0f} KiB"
    if places[0].held > CHIP.shared:
        held += f", more than the {CHIP.shared // 2**10} that a program can have"
    return [rows, held if rows else "", [[n, *shown(found)] for n, found in zip(LENGTHS, places)]]


def shown(found: Place) -> list[float]:
    """What the script shows of a place: two points in pixels, two intensities, three times in µs, the longest."""
    numbers = (found.hbm, found.l2, *(1e6 * x for x in found.seconds))
    return [*points(found), *map(short, numbers), found.bound]


def short(x: float) -> float:
    """Three digits, or all of a whole number's."""
    return round(x) if x >= 100 else float(f"{x:.3g}")


def points(found: Place) -> tuple[int, int, int, int]:
    """The pixels of both points, each below the roof of its level."""
    rates = (min(MACHINE.flops, MACHINE.bandwidth * found.hbm), min(MACHINE.flops, CHIP.l2_bandwidth * found.l2))
    return across(found.hbm), down(rates[0]), across(found.l2), down(rates[1])


def across(intensity: float) -> int:
    """Pixels from the left."""
    return round(WIDE * math.log(intensity / LEFT) / math.log(RIGHT / LEFT))


def down(rate: float) -> int:
    """Pixels from the top."""
    return round(TALL * math.log(HIGH / rate) / math.log(HIGH / LOW))


def frame(first: Place) -> str:
    """The axes, the roofs and the first place; the script moves the two points and the ring."""
    x, y, x2, y2 = points(first)
    top = down(MACHINE.flops)
    parts = [f'<path class="axes" d="M0 0V{TALL}H{WIDE}"/>']
    for power in range(5):
        at = across(10**power)
        parts += [f'<path class="axes" d="M{at} {TALL}v4"/>', word(at, TALL + 18, f"{10**power:,}", "middle").svg()]
    for rate in (1, 10, 100):
        at = down(1e12 * rate)
        parts += [f'<path class="axes" d="M0 {at}h-4"/>', word(-8, at + 4, str(rate), "end").svg()]
    for level, rate in (("hbm", MACHINE.bandwidth), ("l2", CHIP.l2_bandwidth)):
        ridge, start = across(MACHINE.flops / rate), max(across(LOW / rate), 0)
        low = down(rate * LEFT) if start == 0 else TALL
        parts += [
            f'<path class="roof {level}" d="M{start} {low}L{ridge} {top}"/>',
            f'<path class="ridge {level}" d="M{ridge} {top}V{TALL}"/>',
            word(ridge + 3, TALL - 6, f"{MACHINE.flops / rate:.0f}").svg(),
        ]
    slope = -math.degrees(math.atan2(down(LOW) - down(10 * LOW), across(10) - across(1)))
    for name, rate, side in (("HBM", MACHINE.bandwidth, 16), ("L2", CHIP.l2_bandwidth, -7)):
        at = f"translate({across(4)} {down(4 * rate)}) rotate({slope:.1f})"
        parts.append(f'<g transform="{at}">{word(0, side, f"{name}, {rate / 1e12:.4g} TB/s", "middle").svg()}</g>')
    parts += [
        f'<path class="roof" d="M{across(MACHINE.flops / CHIP.l2_bandwidth)} {top}H{WIDE}"/>',
        word(WIDE, top - 8, f"{MACHINE.flops / 1e12:.0f} TFLOP/s", "end").svg(),
        word(WIDE, TALL + 36, "FLOP per byte of that level", "end").svg(), word(-36, -12, "TFLOP/s").svg(),
        '<circle class="ring" r="0"/>',
        f'<circle class="point hbm" cx="{x}" cy="{y}" r="5.5"/>',
        f'<rect class="point l2" x="{x2 - 5}" y="{y2 - 5}" width="10" height="10"/>',
    ]  # fmt: skip
    width, height = WIDE + 62, TALL + 68
    size = f'viewBox="-40 -26 {width} {height}" width="{width}"'
    return f'<svg {size} role="img" data-first="{FIRST}">{"".join(parts)}</svg>'
