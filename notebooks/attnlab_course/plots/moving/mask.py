"""A mask in blocks: which tiles Algorithm 5 skips, and what it moves, for some masks and sizes of tiles."""

from typing import Any, NamedTuple

from attnlab_course.instruments.machine import Machine, flash_forward
from attnlab_course.plots.moving.drawn import box, word
from attnlab_course.plots.moving.figure import Moving
from attnlab_course.plots.moving.walk import UNIT

import numpy as np

N = 32  # tokens
SIZE = 16  # of one token's query, key or value, in elements
PARTIAL, WHOLE = 1, 2


class MaskVisit(NamedTuple):
    """The tile of a visit by its numbers, partial or whole, and all products and bytes until its end."""

    row: int
    col: int
    kind: int
    products: int
    bytes: int


def masks() -> dict[str, np.ndarray]:
    """Masks of N by N positions by name, True where a query sees a key."""
    i, j = np.arange(N)[:, None], np.arange(N)
    causal, document = j <= i, np.repeat(np.arange(5), (5, 9, 3, 8, 7))
    apart = i // 4 ^ j // 4
    return {
        "causal": causal,
        "a window of 6": causal & (i - j < 6),
        "the window and 2 keys for all": causal & ((i - j < 6) | (j < 2)),
        "every fourth key": causal & ((i - j) % 4 == 0),
        "packed documents": causal & (document[:, None] == document),
        "butterfly of blocks of 4": apart & (apart - 1) == 0,
    }


def visits(mask: np.ndarray, size: int) -> list[MaskVisit]:
    """Algorithm 5 on the counting machine, numbers of two bytes: its visits to the tiles that see something."""
    n, m = mask.shape
    tiles = mask.reshape(n // size, size, m // size, size)
    kinds = tiles.any((1, 3)) * PARTIAL + tiles.all((1, 3))
    found: dict[tuple[int, int], MaskVisit] = {}
    at = {"Q": slice(0, 0), "K": slice(0, 0)}

    def watch(kind: str, name: str, index: Any, elements: int) -> None:
        if kind == "load" and name in at:
            at[name] = index
        if kind == "store":
            row, col = at["Q"].start // size, at["K"].start // size
            found[row, col] = MaskVisit(row, col, int(kinds[row, col]), machine.work.products, machine.bytes)

    machine = Machine(itemsize=2, watch=watch)
    random = np.random.default_rng(0)
    arrays = [machine.put(name, random.normal(size=(length, SIZE))) for name, length in zip("QKV", (n, m, m))]
    flash_forward(machine, *arrays, block_q=size, block_k=size, block_mask=kinds > 0)
    return list(found.values())


def mask_in_blocks(sizes: tuple[int, ...] = (4, 2, 8)) -> Moving:
    """The figure: all masks, in tiles of each of ``sizes``."""
    trace: dict[str, list] = {}
    for name, mask in masks().items():
        rows = []
        for size in sizes:
            dense, seen = visits(np.ones_like(mask), size)[-1], visits(mask, size)
            rows.append([size, summary(mask, size, seen, dense), *columns(seen)])
        trace[name] = [positions(mask), rows]
    name, mask = next(iter(masks().items()))
    path, ((size, (skipped, tiles, *_, products, moved, _), *_), *_) = trace[name]
    text = (
        f"A tile of {size} by {size} walks over a mask of {N} by {N} positions, {name}. It skips {skipped} of {tiles} "
        f"tiles, and does {products} of dense attention's products for {moved} of its bytes."
    )
    return Moving("mask", {name: frame(path, size, visits(mask, size))}, trace, text)


def summary(mask: np.ndarray, size: int, seen: list[MaskVisit], dense: MaskVisit) -> list[str]:
    """What the walk comes to: tiles skipped, all, whole, partial; shares of dense products and bytes, of positions."""
    tiles, whole, last = mask.size // size**2, sum(visit.kind == WHOLE for visit in seen), seen[-1]
    counts = (tiles - len(seen), tiles, whole, len(seen) - whole)
    shares = (last.products / dense.products, last.bytes / dense.bytes, mask.mean())
    return [*map(str, counts), *(f"{share:.1%}" for share in shares)]


def columns(seen: list[MaskVisit]) -> tuple[str, list[int]]:
    """The visits as the script reads them: three digits each, row, column and kind, and the bytes after each."""
    digits = "0123456789abcdef"
    return "".join(digits[v.row] + digits[v.col] + digits[v.kind] for v in seen), [v.bytes for v in seen]


def positions(mask: np.ndarray) -> str:
    """The visible positions as an SVG path, a unit each; those of a row that are neighbors in one stroke."""
    path = []
    for row, seen in enumerate(mask):
        edges = np.flatnonzero(np.diff(np.concatenate(([0], seen, [0])).astype(int)))
        path += [f"M{start} {row}h{stop - start}" for start, stop in edges.reshape(-1, 2)]
    return "".join(path)


def frame(path: str, size: int, walked: list[MaskVisit]) -> str:
    """The picture of the first visit; the script puts other tiles and another path in place of these."""
    squares = "".join(box(size * v.col, size * v.row, size, size, f"part kind{v.kind}").svg() for v in walked)
    kinds = "part kind2 done", "part kind1 done", "unseen-tile"
    whole, partial, skipped = (box(0, 0, 1, 1, kind).svg() for kind in kinds)
    key = "".join(
        f'<g transform="translate({x} {UNIT + 16}) scale(12)">{mark}</g>{word(x + 17, UNIT + 26, name).svg()}'
        for x, mark, name in (
            (0, whole, "whole"), (62, partial, "partial"), (130, skipped, "skipped"),
            (204, f'{partial}<path class="seen" d="M0 .5h1"/>', "visible"),
        )
    )  # fmt: skip
    at = box(size * walked[0].col, size * walked[0].row, size, size, "at")
    parts = [
        f'<g transform="scale({UNIT / N:g})">', box(0, 0, N, N, "unseen-tile").svg(),
        f'<g class="parts">{squares}</g><path class="seen" transform="translate(0 .5)" d="{path}"/>{at.svg()}</g>',
        word(0, -8, "keys →").svg(), f'<g transform="rotate(90)">{word(0, 14, "queries →").svg()}</g>', key,
    ]  # fmt: skip
    width, height = UNIT + 46, UNIT + 58
    return f'<svg viewBox="-24 -24 {width} {height}" width="{width}" role="img">{"".join(parts)}</svg>'
