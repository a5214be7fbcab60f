"""Lesson 07, ★★: the arithmetic intensity of attention, unfused and tiled."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Exercise, Mistake, but
from attnlab_course.checker.inputs import table


def attention_intensity(N: int, D: int, Bc: int, itemsize: int) -> tuple[float, float]:
    """FLOP of the two matrix products per byte, of (unfused, tiled) attention: N queries, N keys, Dv = D, one head."""
    flops = 4 * N * N * D
    unfused = 4 * N * N + 4 * N * D  # eq. 7.7
    tiled = 2 * N * D + -(-N // Bc) * (3 * N * D + 4 * N)  # eq. 7.8
    return flops / (itemsize * unfused), flops / (itemsize * tiled)


U, T = "4 * N * N + 4 * N * D", "2 * N * D + -(-N // Bc) * (3 * N * D + 4 * N)"

EXERCISE = Exercise(
    lesson="07", stars=2, reference=attention_intensity, where="eqs. 7.7 and 7.8",
    cases=table(
        ("ONE: one query, one key, D = 1, 1 byte", 1, 1, 1, 1),
        ("4 tokens, D = 3, blocks of 2 keys, 2 bytes", 4, 3, 2, 2),
        ("RAGGED: 7 tokens, D = 3, blocks of 2 keys, 2 bytes", 7, 3, 2, 2),
        ("BLOCK: all 8 keys in one block, D = 5, 4 bytes", 8, 5, 8, 4),
        ("1024 tokens, D = 64, blocks of 384 keys, 2 bytes", 1024, 64, 384, 2),
        ("100,000 tokens, D = 128, blocks of 128 keys, 4 bytes", 100_000, 128, 128, 4),
        ("1,000,000 tokens, D = 64, blocks of 128 keys, 2 bytes: near the limits", 1_000_000, 64, 128, 2),
    ),
    hints=(
        "The work is the same for both: two products of 2·N·N·D operations each.",
        "Unfused: which of Q, K, V, S, P, O are loaded, which are stored, which both? S and P are N × N.",
        "Tiled (eq. 7.8): K and V once, 2ND. In each of the ⌈N/Bc⌉ passes 3ND + 4N.",
    ),
    without={
        "4 * N * N": "Your unfused attention moves only its inputs and output. Then its intensity would grow with N "
                     "forever; but S and P cross as well and grow as fast as the work, so it saturates (eq. 7.7).",
        "4 * N * D": phrases.inputs_left_out("eq. 7.7"),
    },
    mistakes=(
        Mistake(phrases.scores_too_seldom("eq. 7.7"), but(U, "2 * N * N + 4 * N * D"), but(U, "N * N + 4 * N * D")),
        Mistake("You let the tiled form move each of Q, K, V and O once. One block of keys is on chip; Q, and O with "
                "its statistics, pass it once for every block (eq. 7.8).",
                but(T, "4 * N * D")),
        Mistake(phrases.pass_too_cheap("eq. 7.8"),
                but("(3 * N * D + 4 * N)", "(2 * N * D + 4 * N)"), but("(3 * N * D + 4 * N)", "3 * N * D"),
                but("(3 * N * D + 4 * N)", "(3 * N * D + 2 * N)"), but("(3 * N * D + 4 * N)", "2 * (N * D + N)")),
        Mistake(phrases.not_rounded_up("eq. 7.8", what="passes"),
                *(but("-(-N // Bc)", passes) for passes in ("N / Bc", "max(1, N // Bc)", "round(N / Bc)"))),
        Mistake(phrases.elements("eq. 7.3", what="each element takes itemsize bytes"),
                but("itemsize * unfused", "unfused", "itemsize * tiled", "tiled")),
    ),
)
