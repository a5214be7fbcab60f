"""Lesson 07, ★★: the arithmetic intensity of attention, unfused and tiled."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but


def attention_intensity(N: int, D: int, Bc: int, itemsize: int) -> tuple[float, float]:
    """FLOP of the two matrix products per byte, of (unfused, tiled) attention: N queries, N keys, Dv = D, one head."""
    flops = 4 * N * N * D
    unfused = 4 * N * N + 4 * N * D  # eq. 7.7
    tiled = 2 * N * D + -(-N // Bc) * (3 * N * D + 4 * N)  # eq. 7.8
    return flops / (itemsize * unfused), flops / (itemsize * tiled)


def cases() -> list[Case]:
    """Short and long, one pass and many, a ragged last block."""
    calls = [
        ("ONE: one query, one key, D = 1, 1 byte", (1, 1, 1, 1)),
        ("4 tokens, D = 3, blocks of 2 keys, 2 bytes", (4, 3, 2, 2)),
        ("RAGGED: 7 tokens, D = 3, blocks of 2 keys, 2 bytes", (7, 3, 2, 2)),
        ("BLOCK: all 8 keys in one block, D = 5, 4 bytes", (8, 5, 8, 4)),
        ("1024 tokens, D = 64, blocks of 384 keys, 2 bytes", (1024, 64, 384, 2)),
        ("100,000 tokens, D = 128, blocks of 128 keys, 2 bytes", (100_000, 128, 128, 2)),
        ("the same in 4 bytes", (100_000, 128, 128, 4)),
        ("1,000,000 tokens, D = 64, blocks of 128 keys, 2 bytes: near the limits", (1_000_000, 64, 128, 2)),
    ]
    return [Case(label, args) for label, args in calls]


U, T = "4 * N * N + 4 * N * D", "2 * N * D + -(-N // Bc) * (3 * N * D + 4 * N)"
BOTH = "flops / (itemsize * unfused), flops / (itemsize * tiled)"

EXERCISE = Exercise(
    lesson="07", stars=2, reference=attention_intensity, cases=cases,
    hints=(
        "The work is the same for both: two products of 2·N·N·D operations each.",
        "Unfused: which of Q, K, V, S, P, O are loaded, which are stored, which both? S and P are N × N.",
        "Tiled (eq. 7.8): K and V once, 2ND. In each of the ⌈N/Bc⌉ passes 3ND + 4N.",
        "products / (itemsize · (4N² + 4ND)) and products / (itemsize · (2ND + ⌈N/Bc⌉(3ND + 4N))).",
    ),
    mistakes=(
        Mistake("You find half the operations, or a quarter. Multiply and add are two, and there are two products, Q "
                "Kᵀ and P V, of 2·N·N·D each (eq. 7.7).",
                but("4 * N * N * D", "2 * N * N * D"), but("4 * N * N * D", "N * N * D")),
        Mistake("You count exponentials or other softmax work as well. Here, only the two matrix products count, "
                "4·N·N·D (eq. 7.7).",
                *(but("4 * N * N * D", f"(4 * D + {n}) * N * N") for n in range(1, 7))),
        Mistake("You pad the last block of keys and count its products in full. Keys that aren't there have no "
                "products: 2·N·N·D each, whatever the blocks are (eq. 7.8).",
                but("flops / (itemsize * tiled)", "4 * N * -(-N // Bc) * Bc * D / (itemsize * tiled)")),
        Mistake(phrases.elements("eq. 7.3", what="each element takes itemsize bytes"),
                but("itemsize * unfused", "unfused", "itemsize * tiled", "tiled")),
        Mistake(phrases.scores_too_seldom("eq. 7.7"), but(U, "2 * N * N + 4 * N * D"), but(U, "N * N + 4 * N * D")),
        Mistake("Your unfused attention moves only its inputs and output. Then its intensity would grow with N "
                "forever; but S and P cross as well and grow as fast as the work, so it saturates at D/itemsize (eq. "
                "7.7).",
                but(U, "4 * N * D")),
        Mistake(phrases.loads_alone("eq. 7.7"),
                but(U, "2 * N * N + 3 * N * D"),
                but(U, "2 * N * N + 3 * N * D", "(3 * N * D + 4 * N)", "(2 * N * D + 2 * N)")),
        Mistake(phrases.inputs_left_out("eq. 7.7"), but(U, "4 * N * N"), but(U, "4 * N * N + 3 * N * D")),
        Mistake("You let the tiled form move each of Q, K, V and O once. One block of keys is on chip; Q, and O with "
                "its statistics, pass it once for every block (eq. 7.8).",
                but(T, "4 * N * D")),
        Mistake(phrases.pass_too_cheap("eq. 7.8"),
                but("(3 * N * D + 4 * N)", "(2 * N * D + 4 * N)"), but(T, "3 * N * D + -(-N // Bc) * (N * D + 4 * N)"),
                but(T, "3 * N * D + -(-N // Bc) * N * D"), but("(3 * N * D + 4 * N)", "(2 * N * D + 2 * N)"),
                but("(3 * N * D + 4 * N)", "3 * N * D"), but("(3 * N * D + 4 * N)", "(3 * N * D + 2 * N)")),
        Mistake(phrases.keys_in_every_pass("eq. 7.8"), but(T, "-(-N // Bc) * (5 * N * D + 4 * N)")),
        Mistake(phrases.not_rounded_up("eq. 7.8", what="passes"),
                but("-(-N // Bc)", "N / Bc"), but("-(-N // Bc)", "N // Bc"), but("-(-N // Bc)", "max(1, N // Bc)"),
                but("-(-N // Bc)", "round(N / Bc)")),
        Mistake(phrases.adds_one("eq. 7.8", what="pass"), but("-(-N // Bc)", "(N // Bc + 1)")),
        Mistake("You return the limits for long sequences. For finite N, eq. 7.7 has ND/(N + D), and eq. 7.8 whole "
                "passes and the statistics' 4N.",
                but(BOTH, "D / itemsize, 4 * Bc / (3 * itemsize)"),
                but("flops / (itemsize * tiled)", "4 * Bc / (3 * itemsize)")),
    ),
)
