"""Lesson 11, ★: hidden, partial and full tiles of a window."""

from attnlab import measure
from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Cost, Exercise, Function, Mistake, but
from attnlab_course.checker.inputs import table
from attnlab_course.checker.promises import SMALL, growth

import numpy as np

Window = tuple[int | None, int | None]


def classify_tiles(n: int, m: int, block_q: int, block_k: int, window: Window) -> np.ndarray:
    """Integers (T_r, T_c), n queries and m keys: 0 hidden, 1 partial, 2 full; window (left, right), None = no limit."""
    left, right = (n + m if side is None else side for side in window)
    i0, j0 = np.arange(0, n, block_q)[:, None], np.arange(0, m, block_k)
    i1, j1 = np.minimum(i0 + block_q, n) - 1, np.minimum(j0 + block_k, m) - 1
    p = m - n
    hidden = (j0 > i1 + p + right) | (j1 < i0 + p - left)  # eq. 11.3
    full = (j1 <= i0 + p + right) & (j0 >= i1 + p - left)
    return np.where(hidden, 0, np.where(full, 2, 1))


def two_by_two(n: int) -> tuple[int, int, int, int, Window]:
    """As many tiles, whatever n is."""
    return n, n, n // 2, n // 2, (n // 4, n // 8)


def grown(answer: Function, library: str) -> float | None:
    """The growth of memory, in PyTorch also that of the tensors."""
    found = growth(two_by_two, 512, 1024)(answer, library)
    if library != "torch":
        return found
    import torch

    held = [SMALL + measure.torch_bytes(lambda _, n=n: answer(*two_by_two(n))[:0], torch.empty(0)) for n in (512, 1024)]
    return max(found, held[1] / held[0])


NUMBERS = (  # of blocks, in place of positions
    "np.arange(0, n, block_q)", "np.arange(-(-n // block_q))", "np.minimum(i0 + block_q, n) - 1", "i0",
    "np.arange(0, m, block_k)", "np.arange(-(-m // block_k))", "np.minimum(j0 + block_k, m) - 1", "j0",
    "m - n", "0", "else side", "else side // block_k", "<=", "<", ">=", ">",
)
CORNERS = "~sum((j >= i + p - left) & (j <= i + p + right) for i in (i0, i1) for j in (j0, j1)).astype(bool)"

EXERCISE = Exercise(
    lesson="11", stars=1, reference=classify_tiles, where="eq. 11.3",
    cases=table(
        ("ONE: one query, one key, causal: (None, 0)", 1, 1, 1, 1, (None, 0)),
        ("N = M = 4, blocks of 2 by 2, causal: (None, 0)", 4, 4, 2, 2, (None, 0)),
        ("N = M = 4, blocks of 2 by 2, window (1, 0)", 4, 4, 2, 2, (1, 0)),
        ("N = M = 4, blocks of 2 by 2, nothing hidden: (None, None)", 4, 4, 2, 2, (None, None)),
        ("RECT: one query, M = 6, blocks of 1 by 2, causal: it sees all", 1, 6, 1, 2, (None, 0)),
        ("RECT: N = 6, M = 2, blocks of 2 by 1, causal: queries 0 to 3 see nothing", 6, 2, 2, 1, (None, 0)),
        ("N = M = 8, blocks of 2 by 4, causal", 8, 8, 2, 4, (None, 0)),
        ("N = M = 12, blocks of 2 by 2, window (None, 3): all before, 3 after", 12, 12, 2, 2, (None, 3)),
        ("N = M = 12, blocks of 3 by 2, window (2, None): 2 before, all after", 12, 12, 3, 2, (2, None)),
        ("N = M = 16, blocks of 8 by 2, window (1, 1): the band passes between the corners of a tile", 16, 16, 8, 2,
         (1, 1)),
        ("N = M = 64, blocks of 32 by 2, window (1, 1): the band passes between the corners and the center of a tile",
         64, 64, 32, 2, (1, 1)),
        ("RECT: N = 12, M = 2, blocks of 2 by 1, window (0, 4)", 12, 2, 2, 1, (0, 4)),
        ("RECT: N = 2, M = 12, blocks of 1 by 2, window (4, 1)", 2, 12, 1, 2, (4, 1)),
        ("RECT: one query, M = 3000000, blocks of 1 by 1000000, causal: it sees all", 1, 3_000_000, 1, 1_000_000,
         (None, 0)),
        ("RECT: N = 5000, M = 2000, blocks of 1000 by 1000, nothing hidden: (None, None)", 5000, 2000, 1000, 1000,
         (None, None)),
        ("RAGGED: one query, M = 5, blocks of 1 by 2, causal: it sees all, also the one key of the last tile", 1, 5, 1,
         2, (None, 0)),
        ("RAGGED: N = 7, M = 11, blocks of 4 by 3, causal", 7, 11, 4, 3, (None, 0)),
        ("RAGGED: N = 13, M = 11, blocks of 5 by 4, window (3, 1)", 13, 11, 5, 4, (3, 1)),
        ("RAGGED: N = 10, M = 10, blocks of 4 by 4, window (6, 0)", 10, 10, 4, 4, (6, 0)),
    ),
    hints=(
        "Eq. 11.3 compares four vectors: the first and last query, or key, of each block. p = m − n.",
        "i0 = np.arange(0, n, block_q)[:, None], i1 = np.minimum(i0 + block_q, n) - 1; the same for keys, as a row.",
        "A side that is None never hides anything: put n + m in its place. np.where(hidden, 0, np.where(full, 2, 1)).",
    ),
    mistakes=(
        Mistake("You compare the numbers of the tiles. If block_q and block_k, or n and m, differ, tile 3 of queries "
                "isn't where tile 3 of keys is, and a window may end inside a tile. Compare positions (eq. 11.3).",
                but(*NUMBERS)),
        Mistake(phrases.top_left("eq. 11.3", rule="query i is at i + (m − n)"), but("m - n", "0")),
        Mistake("You decide by one corner of a tile, or look at all four. The last query may see what the first "
                "doesn't, and a band may pass between four hidden corners: eq. 11.3 compares j₀ with i₁, and j₁ with "
                "i₀, each at one border.",
                but("> i1", "> i0", "(j1 < i0", "(j0 < i0"),
                but("(j0 > i1 + p + right) | (j1 < i0 + p - left)", CORNERS)),
        Mistake("None on a side hides nothing there, and 0 hides all beyond the query's own position. In place of "
                "None, a number is too small for some lengths, unless it's n + m or infinity (eq. 11.3).",
                but("side is None", "not side"), *(but("n + m if", f"{x} if") for x in ("0", "n", "m", "1000"))),
        Mistake("The window has two sides, in this order: keys more than left positions back are hidden, and so are "
                "those more than right ahead. You exchange them, or ignore one (eq. 11.3).",
                but("in window", "in window[::-1]"), but("in window", "in (None, window[1])"),
                but("in window", "in (window[0], None)")),
    ),
    costs=(
        Cost(grown, 2.2, "its memory grew {found:.1f}× when n and m doubled with the same 2 × 2 tiles; a vector grows "
             "2×, a mask 4×. Two corners of a tile decide (eq. 11.3)."),
    ),
)
