"""Lesson 09, ★: the traffic of FlashAttention's forward."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Exercise, Mistake, but
from attnlab_course.checker.inputs import table


def traffic(N: int, D: int, Bc: int) -> int:
    """Elements that FlashAttention's forward moves, N queries and keys, D = Dv, blocks of Bc keys; without fills."""
    passes = -(-N // Bc)  # eq. 9.1
    return 2 * N * D + passes * (3 * N * D + 4 * N)  # eq. 9.4


PASSES, ONCE, PASS, ALL = "-(-N // Bc)", "2 * N * D +", "3 * N * D + 4 * N", "2 * N * D + passes * (3 * N * D + 4 * N)"

EXERCISE = Exercise(
    lesson="09", stars=1, reference=traffic, where="eq. 9.4",
    cases=table(
        ("ONE: N = 1, D = 1, one key in a block", 1, 1, 1),
        ("one pass: N = 4, D = 3, all keys in one block", 4, 3, 4),
        ("two passes: N = 4, D = 3, two keys in a block", 4, 3, 2),
        ("RAGGED: N = 5, two keys in a block: the third pass has one key", 5, 2, 2),
        ("BLOCK: N = 5, a block larger than N: still one pass", 5, 2, 8),
        ("one head of Figure 2: N = 1024, D = 64, Bc = 384", 1024, 64, 384),
        ("RAGGED: N = 2²⁰ + 1, D = 128, Bc = 1000", 2**20 + 1, 128, 1000),
        ("RAGGED: N = 3·10¹³ + 1, D = 128, 1001 passes: no float and no 64-bit integer holds this traffic",
         3 * 10**13 + 1, 128, 3 * 10**10),
    ),
    hints=(
        "How often does each array cross? K and V stay on the chip for a whole pass; Q, O, l and m cross in each.",
        "A pass reads Q, O, l, m and writes O, l, m (eq. 9.3).",
        "The number of passes is N / Bc, rounded up: -(-N // Bc) does that in integers.",
    ),
    without={"2 * N * D": "K and V cross as well, once each: 2ND beside what the passes move (eq. 9.4)."},
    mistakes=(
        Mistake(phrases.not_rounded_up("eq. 9.1", what="passes"),
                *(but(PASSES, number) for number in ("N // Bc", "max(N // Bc, 1)", "round(N / Bc)", "N / Bc"))),
        Mistake("You count what the arrays hold, not what crosses: Q, O, l and m cross in every pass (eq. 9.4).",
                *(but(ALL, f"4 * N * D{more}") for more in ("", " + N * D + 4 * N", " + 2 * N", " + 4 * N"))),
        Mistake("Your passes move too little. Each brings Q in, O, l and m in and out: 3ND + 4N (eq. 9.3).",
                *(but(PASS, f"{a} * N * D{more}") for a in (2, 3) for more in ("", " + 2 * N", " + 3 * N")),
                but(PASS, "2 * N * D + 4 * N")),
        Mistake(phrases.keys_in_every_pass("eq. 9.4"), but(ONCE, "", PASS, "5 * N * D + 4 * N")),
        Mistake("You count Q and O as in the loop with the queries outside, where they cross once and K and V in every "
                "pass (eq. 9.10). Here the keys are outside: eq. 9.4.",
                but(ONCE, "2 * N * D + N +", PASS, "2 * N * D")),
    ),
)
