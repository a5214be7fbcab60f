"""Lesson 08, ★★: the largest blocks that a strict SRAM holds."""

from collections.abc import Callable

from attnlab_course.checker.exercise import Exercise, Mistake, but
from attnlab_course.checker.inputs import table


def largest_blocks(D: int, M_sram: int) -> tuple[int, int]:
    """Largest B_c that fits M_sram elements, (forward, backward); B_r = min(B_c, D), Dv = D; 0 if none fits."""

    def forward(r: int, c: int) -> int:
        return r * c + 2 * (r + c) * D + 6 * r  # eq. 8.7

    def backward(r: int, c: int) -> int:
        return 2 * r * c + 4 * (r + c) * D + 3 * r  # eq. 8.9

    def largest(held: Callable[[int, int], int]) -> int:
        fits, too_large = 0, M_sram + 1  # bisection: what is held grows with B_c
        while too_large - fits > 1:
            c = (fits + too_large) // 2
            fits, too_large = (c, too_large) if held(min(c, D), c) <= M_sram else (fits, c)
        return fits

    return largest(forward), largest(backward)


BOTH = "largest(forward), largest(backward)"
EXERCISE = Exercise(
    lesson="08", stars=2, reference=largest_blocks, where="eqs. 8.7 and 8.9",
    cases=table(
        ("D = 1, M_sram = 11: one query, one key just fit forward", 1, 11),
        ("D = 1, M_sram = 10: nothing fits", 1, 10),
        ("D = 4, M_sram = 75: B_r = B_c = 3 is an exact fit forward", 4, 75),
        ("one element less: D = 4, M_sram = 74", 4, 74),
        ("D = 4, M_sram = 164: B_r = 4, B_c = 9 is an exact fit forward", 4, 164),
        ("one element less: D = 4, M_sram = 163", 4, 163),
        ("D = 4, M_sram = 220: B_c = 6 is an exact fit backward", 4, 220),
        ("one element less: D = 4, M_sram = 219", 4, 219),
        ("D = 64, 192 KiB of 2 bytes a number: an A100", 64, 96 * 1024),
        ("D = 16, 227 KiB of 2 bytes a number: an H100", 16, 227 * 512),
        ("D = 1000, M_sram = 100,000: fewer keys than D", 1000, 100_000),
        ("D = 1, M_sram = 100,000: tens of thousands of keys fit", 1, 100_000),
    ),
    hints=(
        "Write two functions held(B_c): eq. 8.7 and eq. 8.9 with Dv = D and B_r = min(B_c, D).",
        "Both grow with B_c, so count B_c up while held(B_c + 1) ≤ M_sram. An exact fit fits. (Bisection is quicker.)",
        "Forward: B_r·B_c + 2·D·(B_r + B_c) + 6·B_r. Backward: twice the tiles, twice the rows of size D, 3 vectors.",
    ),
    without={
        **dict.fromkeys(("6 * r", "3 * r"), "The vectors are missing. Forward, l, m, those of the tile and the new "
                        "ones are 6 B_r elements (eq. 8.7); backward, l, m and Δ are 3 B_r (eq. 8.9)."),
        **dict.fromkeys(("r * c", "2 * r * c"), "A tile of scores is missing. S stays on chip while it becomes P (eq. "
                        "8.7), and in the backward pass, P and dP are alive together (eq. 8.9)."),
        "min(c, D)": "You always take B_r = D, or B_r = B_c. The rule is the smaller of the two, eq. 8.6: with little "
                     "SRAM, the blocks are square, and with a lot, there's more room for keys.",
    },
    mistakes=(
        Mistake("M_sram / 4D is the paper's rule, eq. 8.6. Strictly, it doesn't leave room for everything held at "
                "once: count S, both pairs of rows and the vectors (eq. 8.7), and more in the backward pass (eq. 8.9).",
                *(but(BOTH, f"{up}M_sram // (4 * D){end}, {up}M_sram // ({d} * D){end}")
                  for up, end in (("-(-", ")"), ("", "")) for d in (4, 8))),
        Mistake("You divide M_sram by the bytes of a number. It already counts elements (eq. 8.6); reading it as bytes "
                "halves the blocks and doubles the passes.",
                but(f"return {BOTH}", f"M_sram //= 2; return {BOTH}")),
        Mistake("You give the backward pass the forward's blocks, or half of them. It also holds dK, dV, dO, dQ and a "
                "second tile of scores, and different vectors: solve eq. 8.9 separately.",
                but("largest(backward)", "largest(forward)"), but("largest(backward)", "largest(forward) // 2")),
    ),
)
