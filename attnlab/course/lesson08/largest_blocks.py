"""Lesson 08, ★★: the largest blocks that a strict SRAM holds."""

from collections.abc import Callable

from attnlab.check.exercise import Case, Exercise, Mistake

Blocks = tuple[int, int]


def largest_blocks(D: int, M_sram: int) -> Blocks:
    """Largest B_c that fits M_sram elements, (forward, backward); B_r = min(B_c, D), Dv = D; 0 if none fits."""
    return largest(D, M_sram, forward), largest(D, M_sram, backward)


def forward(r: int, c: int, D: int) -> int:
    """Eq. 8.7."""
    return r * c + 2 * (r + c) * D + 6 * r


def backward(r: int, c: int, D: int) -> int:
    """Eq. 8.9."""
    return 2 * r * c + 4 * (r + c) * D + 3 * r


def largest(D: int, M: int, held: Callable[[int, int, int], int], strict: bool = False) -> int:
    """Bisection: the holdings grow with B_c."""
    low, high = 0, M + 1  # one key alone needs more than one element
    while high - low > 1:
        c = (low + high) // 2
        size = held(min(c, D), c, D)
        fits = size < M if strict else size <= M
        low, high = (c, high) if fits else (low, c)
    return low


def cases() -> list[Case]:
    """Exact fits and one element less, for wide and for narrow tiles; the sizes of an A100."""
    square, wide = forward(3, 3, 4), forward(4, 9, 4)
    back = backward(4, 6, 4)
    calls = [
        ("D = 1, M_sram = 11: one query, one key just fit forward", (1, 11)),
        ("D = 1, M_sram = 10: nothing fits", (1, 10)),
        (f"D = 4, M_sram = {square}: B_r = B_c = 3 is an exact fit forward", (4, square)),
        ("one element less", (4, square - 1)),
        (f"D = 4, M_sram = {wide}: B_r = 4, B_c = 9 is an exact fit forward", (4, wide)),
        ("one element less", (4, wide - 1)),
        (f"D = 4, M_sram = {back}: B_c = 6 is an exact fit backward", (4, back)),
        ("one element less", (4, back - 1)),
        ("D = 64, 192 KiB of 2 bytes a number: an A100", (64, 96 * 1024)),
        ("D = 128, the same SRAM", (128, 96 * 1024)),
        ("D = 64, 64 KiB of 2 bytes a number: a T4", (64, 32 * 1024)),
        ("D = 1000, M_sram = 100,000: fewer keys than D", (1000, 100_000)),
    ]
    labels: set[str] = set()
    found = []
    for label, (d, m) in calls:
        label = f"{label}: D = {d}, M_sram = {m}" if label in labels or label.startswith("one") else label
        labels.add(label)
        found.append(Case(label, (d, m)))
    return found


def by(first: Callable[[int, int, int], int], second: Callable[[int, int, int], int]) -> Callable[[int, int], Blocks]:
    """A wrong answer: other holdings, forward and backward."""
    return lambda D, M: (largest(D, M, first), largest(D, M, second))


def paper(D: int, M: int) -> Blocks:
    """⌈M / 4D⌉ for both."""
    return (-(-M // (4 * D)),) * 2


def paper_down(D: int, M: int) -> Blocks:
    """⌊M / 4D⌋ for both."""
    return (M // (4 * D),) * 2


def paper_both(D: int, M: int) -> Blocks:
    """⌊M / 4D⌋ forward, ⌊M / 8D⌋ backward."""
    return M // (4 * D), M // (8 * D)


def halves(D: int, M: int) -> Blocks:
    """Takes M for bytes."""
    return largest_blocks(D, M // 2)


def same(D: int, M: int) -> Blocks:
    """The forward's blocks for both."""
    return (largest(D, M, forward),) * 2


def below(D: int, M: int) -> Blocks:
    """Stops one short of an exact fit."""
    return largest(D, M, forward, True), largest(D, M, backward, True)


def one_more(D: int, M: int) -> Blocks:
    """The first that does not fit."""
    fits = largest_blocks(D, M)
    return fits[0] + 1, fits[1] + 1


def fixed_rows(D: int, M: int) -> Blocks:
    """B_r = D even where B_c is smaller."""
    return largest(D, M, lambda r, c, d: forward(d, c, d)), largest(D, M, lambda r, c, d: backward(d, c, d))


def square_tiles(D: int, M: int) -> Blocks:
    """B_r = B_c, however many keys there are."""
    return largest(D, M, lambda r, c, d: forward(c, c, d)), largest(D, M, lambda r, c, d: backward(c, c, d))


EXERCISE = Exercise(
    lesson="08", stars=2, reference=largest_blocks, cases=cases,
    hints=(
        "Write two functions held(B_c): eq. 8.7 and eq. 8.9 with Dv = D and B_r = min(B_c, D).",
        "Both grow with B_c, so a loop that counts B_c up while held(B_c + 1) ≤ M_sram is right. (Bisection is "
        "quicker.)",
        "Forward: B_r·B_c + 2·D·(B_r + B_c) + 6·B_r ≤ M_sram. Backward: twice the tiles, twice the rows of size D, 3 "
        "vectors. An exact fit fits.",
    ),
    mistakes=(
        Mistake(
            "M_sram / 4D is the paper's rule, eq. 8.6. Strictly, it does not leave room for all that is held at once: "
            "count S, both pairs of rows and the vectors (eq. 8.7), and more in the backward (eq. 8.9).",
            paper, paper_down, paper_both,
        ),
        Mistake(
            "You divide M_sram by the bytes of a number. It already counts elements (eq. 8.6); taking it for bytes "
            "halves the blocks and doubles the passes.",
            halves,
        ),
        Mistake(
            "The backward gets the forward's blocks. It also holds dK, dV, dO, dQ and a second tile of scores: "
            "eq. 8.9.",
            same,
        ),
        Mistake(
            "The vectors are missing. l, m, those of the tile and the new ones are 6 B_r elements forward (eq. 8.7), "
            "l, m and Δ are 3 B_r backward (eq. 8.9).",
            by(lambda r, c, d: forward(r, c, d) - 6 * r, lambda r, c, d: backward(r, c, d) - 3 * r),
        ),
        Mistake(
            "The tile of scores is missing. S stays on chip while it becomes P (eq. 8.7); the backward holds P and dP "
            "(eq. 8.9).",
            by(lambda r, c, d: forward(r, c, d) - r * c, lambda r, c, d: backward(r, c, d) - 2 * r * c),
        ),
        Mistake(
            "In the backward you count one tile of scores. P and dP are alive together: eq. 8.9.",
            by(forward, lambda r, c, d: backward(r, c, d) - r * c),
        ),
        Mistake(
            "You count K_j and V_j alone, or Q_i and O_i alone. All four are on chip when the tile is computed: "
            "eq. 8.7.",
            by(lambda r, c, d: forward(r, c, d) - 2 * r * d, lambda r, c, d: backward(r, c, d) - 4 * r * d),
            by(lambda r, c, d: forward(r, c, d) - 2 * c * d, lambda r, c, d: backward(r, c, d) - 4 * c * d),
        ),
        Mistake(
            "An exact fit fits: compare with ≤ M_sram, not with < M_sram (eq. 8.7).",
            below,
        ),
        Mistake(
            "You return the first B_c that does not fit; the one before it is the largest that does (eq. 8.7).",
            one_more,
        ),
        Mistake(
            "You take B_r = D always. The rule is B_r = min(B_c, D), eq. 8.6: with little SRAM the blocks are square "
            "and more keys fit.",
            fixed_rows,
        ),
        Mistake(
            "You take B_r = B_c always. The rule stops B_r at D (eq. 8.6), which leaves more room for keys.",
            square_tiles,
        ),
    ),
)
