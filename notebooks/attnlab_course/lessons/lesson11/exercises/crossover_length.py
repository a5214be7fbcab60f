"""Lesson 11, ★★: the length from which on a sparse method is faster."""

import math

from attnlab_course.checker.exercise import Exercise, Mistake, but
from attnlab_course.checker.inputs import table

Number = int | float


def crossover_length(a: Number, b: Number, c: Number) -> float:
    """The N > 0, not rounded, at which a·N² = b·N + c: from there on the sparse method is faster."""
    root = math.sqrt(b * b + 4 * a * c)
    return (b + root) / (2 * a)  # eq. 11.7

QUADRATIC = 7492.85 / 65536**2
ROOT, N = "math.sqrt(b * b + 4 * a * c)", "(b + root) / (2 * a)"

EXERCISE = Exercise(
    lesson="11", stars=2, reference=crossover_length, where="eq. 11.7",
    cases=table(
        ("a = 1, b = 1, c = 2: N = 2", 1.0, 1.0, 2.0),
        ("a = 2, b = 3, c = 5: N = 2.5", 2.0, 3.0, 5.0),
        ("nothing fixed, c = 0: N = b / a", 0.5, 3.0, 0.0),
        ("only a fixed cost, b = 0: N = √(c / a)", 0.25, 0.0, 9.0),
        ("a = 3, b = 5, c = 4, whole numbers", 3, 5, 4),
        ("a = 10⁻⁹, b = c = 1: N is a billion", 1e-9, 1.0, 1.0),
        ("Table 20 in ms, block-sparse: floor 0.74 ms at N = 128", QUADRATIC, 50.39 / 65536, 0.74),
        ("Table 20 in ms, Linformer: floor 1.31 ms", QUADRATIC, 100.52 / 65536, 1.31),
        ("a = 10⁻¹², b = 5 · 10⁻⁹, c = 10⁻⁵: small, and not 0", 1e-12, 5e-9, 1e-5),
        ("a = 1, b = 1, c = 10⁴: N is half of one more than √(c / a)", 1.0, 1.0, 1e4),
        ("a = 4, b = 1, c = 1/2: N = 0.5", 4.0, 1.0, 0.5),
        ("a = 1, b = 10⁹, c = 1: b² is much larger than 4ac, and N is b / a", 1.0, 1e9, 1.0),
    ),
    hints=(
        "Where do the two times cross? There, they're equal: what kind of equation in N is that?",
        "Bring everything to one side: a·N² − b·N − c = 0, a quadratic equation in N.",
        "Its roots are (b ± √(b² + 4ac)) / 2a. One of them is negative. Mind the parentheses: / (2 * a).",
    ),
    mistakes=(
        Mistake("You leave out a part of the sparse time. It grows with N, which is b, and it has a fixed cost, c. For "
                "long sequences, c is negligible; where the lines cross, both count (eq. 11.7).",
                but(N, "b / a"), but(N, "math.sqrt(c / a)")),
        Mistake("You take the larger one of the crossings with b·N and with c, or their sum. The sparse time is the "
                "sum b·N + c, and the root of a sum isn't the sum of the roots: solve eq. 11.7.",
                but(N, "max(b / a, math.sqrt(c / a))"), but(N, "b / a + math.sqrt(c / a)")),
        Mistake("A sign is wrong. In a·N² − b·N − c = 0 both b and c are on the other side, so the root is that of b² "
                "+ 4ac, and a length is positive: eq. 11.7 with +.",
                but("b + root", "b - root"), but("(b +", "(-b +"), but(ROOT, "(b * b - 4 * a * c) ** 0.5"),
                but(ROOT, "math.sqrt(b * b - 4 * a * c) if b * b >= 4 * a * c else math.nan")),
        Mistake("Your search ends too early. N can be any size: double the upper end until the sparse method is "
                "faster, or solve eq. 11.7.",
                *(but(N, f"min({N}, {end})") for end in ("1e5", "1e6", "2**20", "1e7"))),
    ),
)
