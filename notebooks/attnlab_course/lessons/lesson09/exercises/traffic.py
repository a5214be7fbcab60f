"""Lesson 09, ★: the traffic of FlashAttention's forward."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but


def traffic(N: int, D: int, Bc: int) -> int:
    """Elements that FlashAttention's forward moves, N queries and keys, D = Dv, blocks of Bc keys; without fills."""
    passes = -(-N // Bc)  # eq. 9.1
    return 2 * N * D + passes * (3 * N * D + 4 * N)  # eq. 9.4


def cases() -> list[Case]:
    """Whole and ragged blocks, from one element to Figure 2 and beyond."""
    calls = [
        ("ONE: N = 1, D = 1, one key in a block", (1, 1, 1)),
        ("one pass: N = 4, D = 3, all keys in one block", (4, 3, 4)),
        ("two passes: N = 4, D = 3, two keys in a block", (4, 3, 2)),
        ("RAGGED: N = 5, two keys in a block: the third pass has one key", (5, 2, 2)),
        ("BLOCK: N = 5, a block larger than N: still one pass", (5, 2, 8)),
        ("BLOCK: N = 5, one key in a block", (5, 2, 1)),
        ("one head of Figure 2: N = 1024, D = 64, Bc = 384", (1024, 64, 384)),
        ("RAGGED: N = 2²⁰ + 1, D = 128, Bc = 1000", (2**20 + 1, 128, 1000)),
        ("RAGGED: N = 3·10¹³ + 1, D = 128, 1001 passes: no float and no 64-bit integer holds this traffic",
         (3 * 10**13 + 1, 128, 3 * 10**10)),
    ]
    return [Case(label, args) for label, args in calls]


PASSES, ONCE, PASS, ALL = "-(-N // Bc)", "2 * N * D +", "3 * N * D + 4 * N", "2 * N * D + passes * (3 * N * D + 4 * N)"

EXERCISE = Exercise(
    lesson="09", stars=1, reference=traffic, cases=cases,
    hints=(
        "How often does each array cross? K and V stay on the chip for a whole pass; Q, O, l and m cross in each.",
        "A pass reads Q, O, l, m and writes O, l, m (eq. 9.3).",
        "The number of passes is N / Bc, rounded up: -(-N // Bc) does that in integers.",
    ),
    mistakes=(
        Mistake(phrases.counts_tiles("eq. 9.2"), but("passes *", "passes**2 *")),
        Mistake(phrases.not_rounded_up("eq. 9.1", what="passes"),
                but(PASSES, "N // Bc"), but(PASSES, "max(N // Bc, 1)"), but(PASSES, "round(N / Bc)"),
                but(PASSES, "N / Bc"), but("passes * (3 * N * D + 4 * N)", "int(N / Bc * (3 * N * D + 4 * N))")),
        Mistake(phrases.adds_one("eq. 9.1", what="pass"), but(PASSES, "N // Bc + 1")),
        Mistake("You mistake Bc for the number of passes. Bc is how many keys a block has; there are ⌈N/Bc⌉ blocks "
                "(eq. 9.1).",
                but(PASSES, "Bc")),
        Mistake("You count every array once. That's what the arrays hold, not what crosses: Q, O, l and m cross in "
                "every pass (eq. 9.4).",
                but(ALL, "4 * N * D"), but(ALL, "5 * N * D + 4 * N"), but(ALL, "4 * N * D + 2 * N"),
                but(ALL, "4 * N * D + 4 * N")),
        Mistake(phrases.pass_too_cheap("eq. 9.3"),
                but(PASS, "2 * N * D + 4 * N"), but(PASS, "2 * N * D + 3 * N"), but(PASS, "2 * N * D + 2 * N"),
                but(PASS, "2 * N * D"), but(PASS, "3 * N * D"), but(PASS, "3 * N * D + 2 * N"),
                but(PASS, "3 * N * D + 3 * N")),
        Mistake(phrases.keys_in_every_pass("eq. 9.4"), but(ONCE, "", PASS, "5 * N * D + 4 * N")),
        Mistake(phrases.keys_left_out("eq. 9.4"), but(ONCE, ""), but(ONCE, "N * D +")),
        Mistake("You count Q and O as in the loop with the queries outside, where they cross once and K and V in every "
                "pass (eq. 9.10). Here the keys are outside: eq. 9.4.",
                but(ONCE, "2 * N * D + N +", PASS, "2 * N * D")),
        Mistake("You include the fills of O, l and m. They're counted separately (section 2); eq. 9.4 has only loads "
                "and stores.",
                but(ONCE, "3 * N * D + 2 * N +")),
        Mistake("You return bytes. We ask for elements: eq. 9.4 as it stands.",
                but(ALL, f"2 * ({ALL})"), but(ALL, f"4 * ({ALL})")),
    ),
)
