"""Lesson 11, ★★: the length from which on a sparse method is faster."""

import math

from attnlab_course.checker.exercise import Case, Exercise, Mistake, but

Number = int | float


def crossover_length(a: Number, b: Number, c: Number) -> float:
    """The N > 0, not rounded, at which a·N² = b·N + c: from there on the sparse method is faster."""
    root = math.sqrt(b * b + 4 * a * c)
    return (b + root) / (2 * a)  # eq. 11.7


def cases() -> list[Case]:
    """Round numbers, either term alone, and Table 20 in milliseconds."""
    quadratic = 7492.85 / 65536**2
    return [
        Case("a = 1, b = 1, c = 2: N = 2", (1.0, 1.0, 2.0)),
        Case("a = 2, b = 3, c = 5: N = 2.5", (2.0, 3.0, 5.0)),
        Case("nothing fixed, c = 0: N = b / a", (0.5, 3.0, 0.0)),
        Case("only a fixed cost, b = 0: N = √(c / a)", (0.25, 0.0, 9.0)),
        Case("a = 3, b = 5, c = 4, whole numbers", (3, 5, 4)),
        Case("a = 10⁻⁹, b = c = 1: N is a billion", (1e-9, 1.0, 1.0)),
        Case("Table 20 in ms, block-sparse: floor 0.74 ms at N = 128", (quadratic, 50.39 / 65536, 0.74)),
        Case("Table 20 in ms, Linformer: floor 1.31 ms", (quadratic, 100.52 / 65536, 1.31)),
        Case("Table 20 in seconds, block-sparse: the same N", (quadratic / 1e3, 50.39e-3 / 65536, 0.74e-3)),
        Case("a = 10⁻¹², b = 5 · 10⁻⁹, c = 10⁻⁵: small, and not 0",
             (1e-12, 5e-9, 1e-5)),
        Case("a = 1, b = 1, c = 10⁴: N is half of one more than √(c / a)", (1.0, 1.0, 1e4)),
        Case("a = 4, b = 1, c = 1/2: N = 0.5", (4.0, 1.0, 0.5)),
        Case("a = 1, b = 10⁹, c = 1: b² is much larger than 4ac, and N is b / a", (1.0, 1e9, 1.0)),
    ]


ROOT, N = "math.sqrt(b * b + 4 * a * c)", "(b + root) / (2 * a)"

EXERCISE = Exercise(
    lesson="11", stars=2, reference=crossover_length, cases=cases,
    hints=(
        "Where do the two times cross? There, they're equal: what kind of equation in N is that?",
        "Bring everything to one side: a·N² − b·N − c = 0, a quadratic equation in N.",
        "Its roots are (b ± √(b² + 4ac)) / 2a. One of them is negative.",
        "Mind the parentheses: / (2 * a).",
    ),
    mistakes=(
        Mistake("You leave out the fixed cost c: time = s · dense. That's right only for long sequences; where the "
                "lines cross, c counts. Eq. 11.7.",
                but(N, "b / a")),
        Mistake("You leave out b. The sparse time grows with N as well: eq. 11.7.", but(N, "math.sqrt(c / a)")),
        Mistake("You take the larger of b·N and c, as Table 20 suggests for a GPU (section 5). We ask for their sum: "
                "eq. 11.7.",
                but(N, "max(b / a, math.sqrt(c / a))")),
        Mistake("You add the crossings with b·N and with c. The root of a sum isn't the sum of the roots: solve the "
                "quadratic equation, eq. 11.7.",
                but(N, "b / a + math.sqrt(c / a)")),
        Mistake("A sign is wrong. In a·N² − b·N − c = 0 both b and c are on the other side, so the root is that of b² "
                "+ 4ac, and a length is positive: eq. 11.7 with +.",
                but("b + root", "b - root"), but("(b +", "(-b +"), but("b + 4", "b - 4"),
                but(ROOT, "(b * b - 4 * a * c) ** 0.5"),
                but(ROOT, "math.sqrt(b * b - 4 * a * c) if b * b >= 4 * a * c else math.nan")),
        Mistake("Your formula isn't quite eq. 11.7: the root has b² + 4·a·c in it, b + √… is divided as a whole, and "
                "by (2 * a), because / 2 * a would multiply by a.",
                but("4 * ", ""), but("4 * ", "2 * "), but("b * b", "b"), but("b * b", "2 * b"),
                but("(b + root)", "b + root"), but("/ (2 * a)", "/ 2 * a"), but("/ (2 * a)", "/ a")),
        Mistake("Your search ends too early. N can be any size: double the upper end until the sparse method is "
                "faster, or solve eq. 11.7.",
                *(but(N, f"min({N}, {end})") for end in ("1e5", "1e6", "2**20", "1e7"))),
        Mistake("You round. Return the N at which both times of eq. 11.7 are equal, which in general isn't a whole "
                "number.",
                but(N, f"math.ceil({N})"), but(N, f"round({N})"), but(N, f"int({N})"),
                but(N, f"2.0 ** math.ceil(math.log2({N}))")),
    ),
)
