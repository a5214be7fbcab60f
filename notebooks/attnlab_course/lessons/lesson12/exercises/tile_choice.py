"""Lesson 12, ★★: the tile of a kernel that fits a multiprocessor and moves the least."""

from attnlab_course.checker.exercise import Case, Exercise, Mistake, but

def tile_choice(n: int, d: int, dv: int, registers: int, shared: int, warps: tuple[int, ...]) -> tuple[int, int, int]:
    """(B_r, B_c, warps) of a kernel for n queries and as many keys of one head, in half precision.

    Blocks are 16, 32, 64, 128 or 256, ``warps`` those to choose from. By eq. 12.5 the results may take ``registers`` of
    each thread, and tiles ``shared`` bytes. Among those that fit: the fewest numbers read; then the fewest visits of a
    tile; then the fewest warps; then the smallest blocks.
    """
    sizes, plans = (16, 32, 64, 128, 256), []
    for b_r in sizes:
        for b_c in sizes:
            for w in warps:
                each = (b_r * b_c + b_r * dv + 2 * b_r) / (32 * w)
                if each <= registers and 2 * (b_r * d + 2 * b_c * (d + dv)) <= shared:
                    programs = -(-n // b_r)
                    cost = programs * n * (d + dv), programs * -(-n // b_c), w
                    plans.append((cost, (b_r, b_c, w)))
    _, (b_r, b_c, w) = min(plans)
    return b_r, b_c, w


def cases() -> list[Case]:
    """An A100's multiprocessor and an H100's, heads that are wide, narrow or unequal, few queries."""
    a100, h100, both = (160, 163 * 1024), (160, 227 * 1024), (4, 8)
    calls = [
        ("A100, D = 64", (4096, 64, 64, *a100, both)),
        ("A100, D = 128", (4096, 128, 128, *a100, both)),
        ("A100, D = 192", (4096, 192, 192, *a100, both)),
        ("A100, D = 256", (4096, 256, 256, *a100, both)),
        ("H100, D = 128", (4096, 128, 128, *h100, both)),
        ("H100, D = 256", (4096, 256, 256, *h100, both)),
        ("A100, D = 192 and values of 128", (4096, 192, 128, *a100, both)),
        ("A100, D = 64, four warps only", (4096, 64, 64, *a100, (4,))),
        ("A100, D = 128, one query", (1, 128, 128, *a100, both)),
        ("A100, D = 64, 48 queries", (48, 64, 64, *a100, both)),
        ("A100, D = 64, 1,000 queries", (1000, 64, 64, *a100, both)),
        ("a chip with 48 KiB, D = 128", (4096, 128, 128, 160, 48 * 1024, both)),
        ("a chip with 48 KiB, D = 64, 16 warps allowed", (4096, 64, 64, 160, 48 * 1024, (4, 8, 16))),
        ("65 registers for results, all of them taken", (4096, 64, 64, 65, 163 * 1024, both)),
        ("81 registers for results: m and l are one too many", (4096, 64, 64, 81, 163 * 1024, both)),
        ("100 registers for results, D = 64", (4096, 64, 64, 100, 163 * 1024, both)),
    ]
    return [Case(label, args) for label, args in calls]


RULE, SHARED = "(b_r * b_c + b_r * dv + 2 * b_r) / (32 * w)", "2 * (b_r * d + 2 * b_c * (d + dv))"
COST = "programs * n * (d + dv), programs * -(-n // b_c), w"

EXERCISE = Exercise(
    lesson="12", stars=2, reference=tile_choice, where="eq. 12.5", cases=cases,
    hints=(
        "There are 25 pairs of blocks and a few numbers of warps: try them all.",
        "Each program reads all keys and values once, so a larger B_r reads less: ⌈n / B_r⌉ programs.",
        "32 threads per warp share the results. Shared memory holds Q and two tiles of K and of V, 2 bytes per number.",
    ),
    mistakes=(
        Mistake("Your plan needs more registers than a thread has: S, o, m and l are in float32, one register each, "
                "over 32 · warps threads (eq. 12.5).",
                but(RULE, "(b_r * b_c) / (32 * w)"), but(RULE, "(b_r * dv + 2 * b_r) / (32 * w)")),
        Mistake("You count 4 bytes per number in shared memory. Tiles there are in half precision: eq. 12.5.",
                but(SHARED, "4 * (b_r * d + 2 * b_c * (d + dv))")),
        Mistake("Your plan reads more than it has to: each program reads all keys, so take the largest B_r that fits, "
                "and only then the largest B_c (lesson 09).",
                but(COST, "programs * -(-n // b_c), programs * n * (d + dv), w")),
        Mistake("Rows beyond the last query save no reads and cost registers: compare ⌈n / B_r⌉ (eq. 12.1).",
                but("-(-n // b_r)", "n / b_r")),
    ),
)
