"""Lesson 13, ★: the time of the exponentials over that of the products."""

from attnlab.check.exercise import Case, Exercise, Mistake, but


def exp_ratio(flops: float | int, exponentials: float | int, d: int, dv: int) -> float:
    """ρ for queries of size d and values of size dv; flops and exponentials: what a chip does in the same time."""
    return flops / (2 * (d + dv) * exponentials)  # eq. 13.1


def cases() -> list[Case]:
    """Small numbers, three chips by the cycle and by the second, keys larger than values."""
    calls = [
        ("ONE: one operation and one exponential in a cycle, D = Dv = 1", (1, 1, 1, 1)),
        ("8 operations and 2 exponentials, D = Dv = 1", (8, 2, 1, 1)),
        ("an A100's multiprocessor, in a cycle, D = 64", (2048, 16, 64, 64)),
        ("an H100's multiprocessor, in a cycle, D = 128", (4096, 16, 128, 128)),
        ("an H100, in a second, D = 64", (989.4e12, 3.865e12, 64, 64)),
        ("an H100's multiprocessor, in a millisecond, D = 64", (7.188e9, 28.08e6, 64, 64)),
        ("a B200's multiprocessor, keys of 192 and values of 128", (8192, 16, 192, 128)),
        ("keys of 64 and values of 512", (4096, 16, 64, 512)),
        ("keys of 3 and values of 2, exponentials that take twice as long as the products", (20, 1, 3, 2)),
    ]
    return [Case(label, args) for label, args in calls]


RATIO = "flops / (2 * (d + dv) * exponentials)"

EXERCISE = Exercise(
    lesson="13", stars=1, reference=exp_ratio, cases=cases,
    hints=(
        "Count for one score: how many operations in the two products, and how many exponentials? Then divide each by "
        "its rate.",
        "A score takes 2D operations in QKᵀ and 2Dv in PV (a multiplication and an addition are two), and one "
        "exponential: eq. 13.1, which has D = Dv.",
    ),
    mistakes=(
        Mistake("You count a multiplication with its addition as one operation. A chip's FLOP/s count two: 2D + 2Dv "
                "for a score (eq. 13.1).",
                but("2 * (d + dv)", "(d + dv)")),
        Mistake("You take the values to be as large as the keys: 4D is right for D = Dv only. A score costs 2D in QKᵀ "
                "and 2Dv in PV (eq. 13.1).",
                but("2 * (d + dv)", "4 * d"), but("2 * (d + dv)", "4 * dv")),
        Mistake("One product is missing. A score costs 2D in QKᵀ and 2Dv in PV (eq. 13.1).",
                but("2 * (d + dv)", "2 * d"), but("2 * (d + dv)", "2 * dv")),
        Mistake("Upside down: ρ is the time of the exponentials divided by that of the products (eq. 13.1). A faster "
                "tensor core makes it larger.",
                but(RATIO, "2 * (d + dv) * exponentials / flops")),
        Mistake("You compare numbers of operations and not times: divide each number by its rate (eq. 13.1).",
                but(RATIO, "1 / (2 * (d + dv))"), but(RATIO, "exponentials / (2 * (d + dv) * flops)")),
        Mistake("You return the share of the exponentials in the sum of both times, ρ / (1 + ρ). ρ itself is asked "
                "for (eq. 13.1).",
                but(RATIO, "flops / (flops + 2 * (d + dv) * exponentials)")),
        Mistake("You return 1 + ρ, the time of both one after the other. ρ itself is asked for (eq. 13.1).",
                but(RATIO, f"1 + {RATIO}")),
        Mistake("ρ is no whole number: divide with / and not with // (eq. 13.1).",
                but("flops /", "flops //"), but(RATIO, f"round({RATIO})")),
        Mistake("You return at most 1. Where the exponentials take longer than the products ρ is larger (eq. 13.1).",
                but(RATIO, f"min({RATIO}, 1)")),
    ),
)
