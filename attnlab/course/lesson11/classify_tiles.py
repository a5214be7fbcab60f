"""Lesson 11, ★: hidden, partial and full tiles of a window."""

from collections.abc import Callable
from typing import Any

from attnlab.check.promises import growth
from attnlab.check.exercise import Case, Cost, Exercise, Mistake

import numpy as np

Window = tuple[int | None, int | None]
Corners = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def classify_tiles(n: int, m: int, block_q: int, block_k: int, window: Window) -> np.ndarray:
    """Integers (T_r, T_c), n queries and m keys: 0 hidden, 1 partial, 2 full; window (left, right), None = no limit."""
    hidden, full = borders(corners(n, m, block_q, block_k), m - n, window)
    return table(hidden, full)


def corners(n: int, m: int, block_q: int, block_k: int) -> Corners:
    """First and last query as columns, first and last key as rows."""
    i0, j0 = np.arange(0, n, block_q)[:, None], np.arange(0, m, block_k)
    return i0, np.minimum(i0 + block_q, n) - 1, j0, np.minimum(j0 + block_k, m) - 1


def borders(edges: Corners, p: int, window: Window) -> tuple[np.ndarray, np.ndarray]:
    """Eq. 11.3: which tiles are hidden, which are full."""
    i0, i1, j0, j1 = edges
    a, b = (10**9 if side is None else side for side in window)
    hidden = (j0 > i1 + p + b) | (j1 < i0 + p - a)
    return hidden, (j1 <= i0 + p + b) & (j0 >= i1 + p - a)


def table(hidden: np.ndarray, full: np.ndarray) -> np.ndarray:
    """0, 1 and 2."""
    return np.where(hidden, 0, np.where(full, 2, 1))


def cases() -> list[Case]:
    """Causal, windows and nothing hidden; unequal lengths and blocks, ragged ends."""
    calls = [
        ("ONE: one query, one key, causal: (None, 0)", (1, 1, 1, 1, (None, 0))),
        ("N = M = 4, blocks of 2 by 2, causal: (None, 0)", (4, 4, 2, 2, (None, 0))),
        ("N = M = 4, blocks of 2 by 2, window (1, 0)", (4, 4, 2, 2, (1, 0))),
        ("N = M = 4, blocks of 2 by 2, nothing hidden: (None, None)", (4, 4, 2, 2, (None, None))),
        ("RECT: one query, M = 6, blocks of 1 by 2, causal: it sees all", (1, 6, 1, 2, (None, 0))),
        ("RECT: N = 6, M = 2, blocks of 2 by 1, causal: queries 0 to 3 see nothing", (6, 2, 2, 1, (None, 0))),
        ("N = M = 8, blocks of 2 by 4, causal", (8, 8, 2, 4, (None, 0))),
        ("N = M = 12, blocks of 2 by 2, window (4, 2)", (12, 12, 2, 2, (4, 2))),
        ("N = M = 12, blocks of 2 by 2, window (None, 3): all before, 3 after", (12, 12, 2, 2, (None, 3))),
        ("N = M = 12, blocks of 3 by 2, window (2, None): 2 before, all after", (12, 12, 3, 2, (2, None))),
        ("RAGGED: N = 7, M = 11, blocks of 4 by 3, causal", (7, 11, 4, 3, (None, 0))),
        ("RAGGED: N = 13, M = 11, blocks of 5 by 4, window (3, 1)", (13, 11, 5, 4, (3, 1))),
        ("RAGGED: N = 10, M = 10, blocks of 4 by 4, window (6, 0)", (10, 10, 4, 4, (6, 0))),
        ("N = M = 4096, blocks of 128, window (64, 64)", (4096, 4096, 128, 128, (64, 64))),
    ]
    return [Case(label, args) for label, args in calls]


def with_edges(change: Callable[[Corners, int, int, Window], tuple[Corners, int, Window]]) -> Callable[..., np.ndarray]:
    """A wrong answer: eq. 11.3 of other corners, another offset or another window."""

    def wrong(n: int, m: int, block_q: int, block_k: int, window: Window) -> np.ndarray:
        return table(*borders(*change(corners(n, m, block_q, block_k), n, m, window)))

    return wrong


def tile_numbers(n: int, m: int, block_q: int, block_k: int, window: Window) -> np.ndarray:
    """Compares the numbers of the blocks."""
    i, j = np.arange(-(-n // block_q))[:, None], np.arange(-(-m // block_k))
    a, b = (None if side is None else side // block_k for side in window)
    far = i.size + j.size
    hidden = (j > i + (far if b is None else b)) | (j < i - (far if a is None else a))
    full = (j < i + (far if b is None else b)) & (j > i - (far if a is None else a))
    return table(hidden, full)


def no_partial(n: int, m: int, block_q: int, block_k: int, window: Window) -> np.ndarray:
    """What is not hidden is taken as full."""
    return 2 * (classify_tiles(n, m, block_q, block_k, window) > 0)


def only_full(n: int, m: int, block_q: int, block_k: int, window: Window) -> np.ndarray:
    """What is not full is taken as hidden."""
    return 2 * (classify_tiles(n, m, block_q, block_k, window) == 2)


def never_full(n: int, m: int, block_q: int, block_k: int, window: Window) -> np.ndarray:
    """Everything visible is taken as partial."""
    return 1 * (classify_tiles(n, m, block_q, block_k, window) > 0)


def by_first_corner(n: int, m: int, block_q: int, block_k: int, window: Window) -> np.ndarray:
    """Hidden if the first pair of the tile is."""
    edges = corners(n, m, block_q, block_k)
    first = borders((edges[0], edges[0], edges[2], edges[2]), m - n, window)[0]
    return table(first, borders(edges, m - n, window)[1])


def beyond_the_end(n: int, m: int, block_q: int, block_k: int, window: Window) -> np.ndarray:
    """The last blocks are taken as long as the others."""
    i0, _, j0, _ = corners(n, m, block_q, block_k)
    return table(*borders((i0, i0 + block_q - 1, j0, j0 + block_k - 1), m - n, window))


def by_mask(n: int, m: int, block_q: int, block_k: int, window: Window) -> np.ndarray:
    """Right, from the mask of all positions."""
    position, j = np.arange(n)[:, None] + m - n, np.arange(m)
    a, b = (n + m if side is None else side for side in window)
    mask = (j >= position - a) & (j <= position + b)
    rows, cols = range(0, n, block_q), range(0, m, block_k)
    tiles = [[mask[r : r + block_q, c : c + block_k] for c in cols] for r in rows]
    return np.array([[int(t.any()) + int(t.all()) for t in row] for row in tiles])


def eight_by_eight(n: int) -> tuple[Any, ...]:
    """As many tiles, whatever n is."""
    return n, n, n // 8, n // 8, (n // 4, n // 8)


EXERCISE = Exercise(
    lesson="11", stars=1, reference=classify_tiles, cases=cases,
    hints=(
        "Four vectors suffice: the first and last query of each block of queries, the first and last key of each block "
        "of keys. Eq. 11.3 compares them.",
        "Queries as a column, keys as a row: i0 = np.arange(0, n, block_q)[:, None], j0 = np.arange(0, m, block_k). "
        "The last ones end with the length: np.minimum(i0 + block_q, n) - 1.",
        "A side that is None never hides anything: put n + m in its place. p = m − n.",
        "np.where(hidden, 0, np.where(full, 2, 1))",
    ),
    mistakes=(
        Mistake(
            "You compare the numbers of the tiles. Tile 3 of queries and tile 3 of keys stand at different positions "
            "if block_q and block_k, or n and m, differ, and a window may end inside a tile. Compare positions: "
            "eq. 11.3.",
            tile_numbers,
        ),
        Mistake(
            "You align the first query with the first key. The last query stands under the last key: p = m − n is "
            "added to the position of a query, eq. 11.3.",
            with_edges(lambda edges, n, m, window: (edges, 0, window)),
        ),
        Mistake(
            "Every tile that is not hidden counts as full. A tile that the border cuts is partial and needs a mask "
            "inside; taken as full, it sees the future: eq. 11.3.",
            no_partial,
        ),
        Mistake(
            "Every tile that is not full counts as hidden. A partial tile has visible positions and must be computed: "
            "eq. 11.3.",
            only_full,
        ),
        Mistake(
            "No tile of yours is full. Full ones are right as partial, but pay for a mask they do not need: the second "
            "half of eq. 11.3.",
            never_full,
        ),
        Mistake(
            "You decide by one corner whether a tile is hidden. Its last query may see the first key although the "
            "first query does not: eq. 11.3 takes j₀ with i₁, and j₁ with i₀.",
            by_first_corner,
        ),
        Mistake(
            "Your last query and key are one too many. Both ends are included in eq. 11.3: the last one is "
            "start + size − 1.",
            with_edges(lambda e, n, m, window: ((e[0], e[1] + 1, e[2], e[3] + 1), m - n, window)),
        ),
        Mistake(
            "Your last block reaches beyond the end. It is shorter if the block size does not divide the length, and "
            "eq. 11.3 asks for the last query and key there are.",
            beyond_the_end,
        ),
        Mistake(
            "The two sides are exchanged. A window (left, right) reaches `left` keys back and `right` keys ahead: eq. "
            "11.3.",
            with_edges(lambda edges, n, m, window: (edges, m - n, window[::-1])),
        ),
        Mistake(
            "You take None as 0. None on a side means that nothing is hidden there: leave that comparison of eq. 11.3 "
            "out.",
            with_edges(lambda edges, n, m, window: (edges, m - n, tuple(side or 0 for side in window))),
        ),
        Mistake(
            "The left side of the window is ignored. Keys more than a positions back are hidden as well: the second "
            "comparison of each half of eq. 11.3.",
            with_edges(lambda edges, n, m, window: (edges, m - n, (None, window[1]))),
        ),
        Mistake(
            "You build the mask of all n·m positions to look at its tiles. Two corners decide (eq. 11.3); this is why "
            "a window costs no memory.",
            by_mask,
        ),
    ),
    costs=(
        Cost(growth(eight_by_eight, 512, 1024), 1.1, "its memory grew {found:.1f}× when n and m doubled with the same "
             "8 × 8 tiles."),
    ),
)
