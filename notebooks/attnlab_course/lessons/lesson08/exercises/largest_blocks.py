"""Lesson 08, ★★: the largest block that can stay in a strict SRAM, with queries and with keys outside."""

from collections.abc import Callable

from attnlab_course.checker.exercise import Exercise, Mistake, but
from attnlab_course.checker.inputs import table


def largest_blocks(D: int, M_sram: int) -> tuple[int, int]:
    """Largest B that fits M_sram elements, (queries, keys outside); min(B, D) rows pass, Dv = D; 0 if none fits."""

    def queries_stay(stay: int, rows: int) -> int:
        return stay * rows + 2 * (stay + rows) * D + 3 * stay  # eq. 8.6

    def keys_stay(stay: int, rows: int) -> int:
        return stay * rows + 2 * (stay + rows) * D + 6 * rows  # eq. 8.8

    def largest(held: Callable[[int, int], int]) -> int:
        fits, too_large = 0, M_sram + 1  # bisection: what is held grows with the block
        while too_large - fits > 1:
            block = (fits + too_large) // 2
            fits, too_large = (block, too_large) if held(block, min(block, D)) <= M_sram else (fits, block)
        return fits

    return largest(queries_stay), largest(keys_stay)


BOTH = "largest(queries_stay), largest(keys_stay)"
EXERCISE = Exercise(
    lesson="08", stars=2, reference=largest_blocks, where="eqs. 8.6 and 8.8",
    cases=table(
        ("D = 1, M_sram = 8: one query, one key just fit with queries outside", 1, 8),
        ("D = 1, M_sram = 7: nothing fits", 1, 7),
        ("D = 4, M_sram = 66: 3 × 3 is an exact fit with queries outside", 4, 66),
        ("one element less: D = 4, M_sram = 65", 4, 65),
        ("D = 4, M_sram = 164: 9 keys are an exact fit with keys outside", 4, 164),
        ("one element less: D = 4, M_sram = 163", 4, 163),
        ("D = 64, 163 KiB of 2 bytes a number: an A100", 64, 163 * 512),
        ("D = 16, 227 KiB of 2 bytes a number: an H100", 16, 227 * 512),
        ("D = 1000, M_sram = 100,000: less than D stays", 1000, 100_000),
        ("D = 1, M_sram = 100,000: tens of thousands fit", 1, 100_000),
    ),
    hints=(
        "Write two functions held(B): eq. 8.6 with B_r = B and eq. 8.8 with B_c = B. The other block is min(B, D).",
        "Both grow with B, so count B up while held(B + 1) ≤ M_sram. An exact fit fits. (Bisection is quicker.)",
        "B · min(B, D) + 2 · D · (B + min(B, D)), and the vectors have one number per *query*: 3 B or 6 min(B, D).",
    ),
    without={
        **dict.fromkeys(("3 * stay", "6 * rows"),
                        "The vectors are missing: l, m and m' with queries outside (eq. 8.6), l and m before the "
                        "visit, within the tile and after it with keys outside (eq. 8.8)."),
        "stay * rows": "A tile of scores is missing. S stays on chip while it becomes P (eqs. 8.6 and 8.8).",
        "min(block, D)": "You let as many rows pass as stay, or always D. It's the smaller of the two, as in eq. 8.7.",
    },
    mistakes=(
        Mistake("M_sram / 4D is the paper's rule, eq. 8.7. Strictly, it doesn't leave room for everything held at "
                "once: count S, both pairs of rows and the vectors (eqs. 8.6 and 8.8).",
                *(but(old, new.replace("x", rule)) for rule in ("-(-M_sram // (4 * D))", "M_sram // (4 * D)")
                  for old, new in ((BOTH, "x, x"), ("largest(keys_stay)", "x")))),
        Mistake("You divide M_sram by the bytes of a number. It already counts elements (eq. 8.6); reading it as bytes "
                "halves the blocks and doubles the passes.",
                but(f"return {BOTH}", f"M_sram //= 2; return {BOTH}")),
        Mistake("The vectors have a number per query. With keys outside, the queries are the smaller block, 6 min(B, "
                "D) (eq. 8.8); with queries outside, they're the larger one, 3 B (eq. 8.6).",
                but("6 * rows", "6 * stay"), but("3 * stay", "3 * rows"),
                but("3 * stay", "3 * rows", "6 * rows", "6 * stay")),
    ),
)
