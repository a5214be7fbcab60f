"""A glyph for each lesson: its one idea in a few strokes, 60 by 40, in the page's ink and one accent."""

from collections.abc import Iterable

Numbers = tuple[float, float, float, float]


def box(*boxes: Numbers, name: str = "pale") -> str:
    """Rectangles: x, y, width, height."""
    return "".join(f'<rect class="{name}" x="{x}" y="{y}" width="{w}" height="{h}"/>' for x, y, w, h in boxes)


def line(*points: str, name: str = "line") -> str:
    """Lines through points."""
    return "".join(f'<polyline class="{name}" points="{p}"/>' for p in points)


def dot(*places: tuple[float, float], r: float = 4, name: str = "accent") -> str:
    """Discs."""
    return "".join(f'<circle class="{name}" cx="{x}" cy="{y}" r="{r}"/>' for x, y in places)


def grid(x: float, y: float, side: float, count: int, chosen: Iterable[tuple[int, int]] = ()) -> str:
    """A square of count by count cells, some of them (row, column) in the accent."""
    cell, marked = side / count, set(chosen)
    where = [(i, j) for i in range(count) for j in range(count)]
    return "".join(
        box((x + j * cell + 0.5, y + i * cell + 0.5, cell - 1, cell - 1), name="accent" if (i, j) in marked else "pale")
        for i, j in where
    )


def bars(heights: Iterable[float], name: str = "pale", x: float = 6, base: float = 34) -> str:
    """Bars on a line."""
    return box(*((x + 7 * i, base - h, 5, h) for i, h in enumerate(heights)), name=name)


GLYPHS = {
    "00": box((2, 4, 16, 16), (22, 4, 12, 12), (38, 4, 9, 9), (2, 24, 7, 7), (22, 24, 5, 5))
    + box((38, 24, 3, 3), name="accent"),
    "01": grid(13, 3, 34, 6, [(i, j) for i in range(6) for j in range(6)]),
    "02": line("2,12 58,12") + bars((6, 3, 10, 7, 8), base=34) + bars((22,), name="accent", x=41, base=34),
    "03": dot((30, 20), r=14, name="pale") + line("30,11 30,29", "21,20 39,20", name="accent-line"),
    "04": box(*((4 + 9 * i, 8, 7, 7) for i in range(6))) + box((22, 8, 7, 7), (22, 24, 16, 9), name="accent")
    + line("26,16 28,23"),
    "05": box((3, 14, 16, 12), (41, 14, 16, 12)) + box((22, 14, 16, 12), name="accent"),
    "06": line("4,12 50,12", "44,7 50,12 44,17") + line("56,28 10,28", "16,23 10,28 16,33", name="accent-line"),
    "07": line("4,36 28,10 58,10") + dot((38, 10)),
    "08": box((12, 3, 34, 34)) + box((26, 14, 9, 9), name="accent"),
    "09": line("3,36 14,36 14,28 25,28 25,20 36,20 36,12 47,12 47,5 58,5", name="accent-line"),
    "10": box((8, 3, 34, 34)) + box((20, 14, 9, 9), name="accent") + line("56,6 56,20 34,20", "39,16 34,20 39,24"),
    "11": grid(13, 3, 34, 5, [(0, 0), (1, 0), (1, 1), (2, 2), (3, 0), (3, 3), (4, 2), (4, 4)]),
    "12": line("6,8 34,8", "12,16 46,16", "12,32 40,32") + line("18,24 54,24", name="accent-line"),
    "13": box((3, 8, 12, 9), (29, 8, 12, 9), (16, 23, 12, 9), (42, 23, 12, 9))
    + box((16, 8, 12, 9), (42, 8, 12, 9), (29, 23, 12, 9), name="accent"),
    "14": box(*((3 + 9 * i, 15, 7, 10) for i in range(5))) + box((48, 15, 7, 10), name="accent"),
    "15": line("30,30 8,10", "30,30 23,10", "30,30 38,10", "30,30 52,10")
    + dot((8, 8), (23, 8), (38, 8), (52, 8), name="ink")
    + dot((30, 31), r=6),
    "16": grid(13, 3, 34, 6, [(i, j) for i in range(6) for j in range(6) if j == 0 or 0 <= i - j < 2]),
    "17": box((4, 4, 6, 32), (14, 4, 30, 6)) + box((22, 18, 18, 18), name="accent"),
    "18": line("4,34 12,33 20,31 28,27 36,20 44,10 50,3")
    + line("4,26 12,31 20,33 28,31 36,25 44,14 50,5", name="accent-line"),
    "19": grid(3, 3, 34, 4, [(0, 1), (1, 3), (3, 0)])
    + box((46, 5, 9, 7), (46, 16, 9, 7), (46, 27, 9, 7), name="accent"),
    "20": box((3, 5, 22, 7), (14, 16, 30, 7), (3, 27, 14, 7), (36, 27, 20, 7))
    + box((27, 5, 28, 7), (19, 27, 15, 7), name="accent"),
    "21": '<circle class="line" cx="30" cy="20" r="14"/>' + dot((30, 6), (16, 20), (30, 34), name="ink")
    + dot((44, 20)),
    "22": line("30,6 15,20 8,34", "15,20 22,34", "30,6 45,20 38,34", "45,20 52,34")
    + dot((8, 34), (22, 34), (38, 34), (52, 34), r=3, name="ink")
    + dot((30, 6)),
    "23": box((2, 12, 14, 16), (23, 15, 12, 10)) + box((42, 17, 8, 6), name="accent")
    + line("17,20 22,20", "36,20 41,20", "51,20 58,20"),
    "24": box((4, 4, 52, 6), (4, 13, 34, 6), (4, 22, 18, 6)) + box((4, 31, 7, 6), name="accent"),
    "25": grid(6, 5, 30, 4, [(1, 2)]) + line("54,8 40,14 34,16", "40,10 34,16 42,18", name="accent-line"),
    "26": box(*((3 + 11 * i, 14, 9, 12) for i in range(3)), name="accent") + box((36, 14, 9, 12), (47, 14, 9, 12))
    + line("37,15 44,25", "44,15 37,25"),
}  # fmt: skip


def glyph(number: str) -> str:
    """The SVG of a lesson's glyph; what it shows, the card's words say."""
    return f'<svg class="glyph" viewBox="0 0 60 40" aria-hidden="true">{GLYPHS[number]}</svg>'
