"""Lesson 09, ★★: the smallest block of keys that keeps to a budget of bytes."""

from attnlab.check.exercise import Case, Exercise, Function, Mistake


def block_for_budget(N: int, D: int, itemsize: int, budget: int) -> int:
    """Smallest Bc ≥ 1 whose traffic (9.4), in numbers of ``itemsize`` bytes, is at most ``budget`` bytes; 0 if none."""
    passes = affordable(N, D, budget // itemsize)
    return -(-N // passes) if passes > 0 else 0


def affordable(n: int, d: int, elements: int) -> int:
    """The passes that so many elements pay for; not positive if none."""
    return (elements - 2 * n * d) // (3 * n * d + 4 * n)


def price(n: int, d: int, itemsize: int, passes: int) -> int:
    """Bytes of that many passes."""
    return itemsize * (2 * n * d + passes * (3 * n * d + 4 * n))


def cases() -> list[Case]:
    """Budgets that are just enough, one byte short, hopeless, and generous."""
    one, three = price(4, 1, 1, 1), price(10, 2, 2, 3)
    figure = price(1024, 64, 2, 3)
    calls = [
        ("ONE: N = 4, D = 1, 1 byte a number: just enough for one pass", (4, 1, 1, one)),
        ("one byte less: no block does", (4, 1, 1, one - 1)),
        ("nothing at all", (4, 1, 1, 0)),
        ("RAGGED: N = 10, D = 2, 2 bytes a number: just enough for three passes", (10, 2, 2, three)),
        ("the same and one byte, which is half a number", (10, 2, 2, three + 1)),
        ("one byte less: two passes", (10, 2, 2, three - 1)),
        ("RAGGED: N = 10, nearly enough for four passes", (10, 2, 2, price(10, 2, 2, 4) - 2)),
        ("N = 20, D = 1, 1 byte a number: enough for four passes and a half", (20, 1, 1, price(20, 1, 1, 4) + 70)),
        ("generous: more than one pass for each key", (10, 2, 2, 100 * three)),
        ("one head of Figure 2 in half precision, three passes", (1024, 64, 2, figure)),
        ("one byte less", (1024, 64, 2, figure - 1)),
        ("RAGGED: N = 1000, D = 64, 4 bytes a number, enough for 6.9 passes",
         (1000, 64, 4, price(1000, 64, 4, 6) + 9 * 4 * (3 * 1000 * 64 + 4 * 1000) // 10)),
        ("N = 10⁹ + 7, D = 128, enough for twenty passes and a half: a search takes too long",
         (10**9 + 7, 128, 2, price(10**9 + 7, 128, 2, 20) + 4 * 10**11)),
    ]
    return [Case(label, args) for label, args in calls]


def by_elements(elements: Function) -> Function:
    """A wrong answer with another number of elements to spend: elements(budget, itemsize)."""

    def wrong(N: int, D: int, itemsize: int, budget: int) -> int:
        passes = affordable(N, D, int(elements(budget, itemsize)))
        return -(-N // passes) if passes > 0 else 0

    return wrong


def by_passes(passes: Function) -> Function:
    """A wrong answer with another number of passes: passes(N, D, elements)."""

    def wrong(N: int, D: int, itemsize: int, budget: int) -> int:
        found = passes(N, D, budget // itemsize)
        return -(-N // found) if found > 0 else 0

    return wrong


def by_block(block: Function, none: Function = lambda n: 0) -> Function:
    """A wrong answer with another block for a number of passes, block(N, passes), or where there is none: none(N)."""

    def wrong(N: int, D: int, itemsize: int, budget: int) -> int:
        passes = affordable(N, D, budget // itemsize)
        return block(N, passes) if passes > 0 else none(N)

    return wrong


def unguarded(N: int, D: int, itemsize: int, budget: int) -> int:
    """Wrong: divides by no passes."""
    return -(-N // affordable(N, D, budget // itemsize))


def half_guarded(N: int, D: int, itemsize: int, budget: int) -> int:
    """Wrong: forgets that the number of passes can be negative."""
    passes = affordable(N, D, budget // itemsize)
    return -(-N // passes) if passes != 0 else 0


def inverted(N: int, D: int, itemsize: int, budget: int) -> int:
    """Wrong: passes are not whole."""
    left = budget // itemsize - 2 * N * D
    return -(-N * (3 * N * D + 4 * N) // left) if left >= 3 * N * D + 4 * N else 0


def rounded(n: int, passes: int) -> int:
    """The next power of two."""
    return 1 << (-(-n // passes) - 1).bit_length()


EXERCISE = Exercise(
    lesson="09",
    stars=2,
    reference=block_for_budget,
    cases=cases,
    hints=(
        "Turn it around: how many passes can the budget pay for? Then: which is the smallest block with so few passes?",
        "In elements: budget // itemsize. Take away what is paid once, 2ND; each pass costs 3ND + 4N (eq. 9.4).",
        "Passes are whole numbers: round down what you can pay for. ⌈N/Bc⌉ ≤ T is the same as Bc ≥ N/T: round Bc up.",
        "If not a single pass can be paid for, return 0.",
    ),
    mistakes=(
        Mistake(
            "You round the block down. With N // T keys the keys that are left over need one pass more than the budget "
            "pays for: ⌈N/Bc⌉ ≤ T asks for Bc ≥ N/T, rounded up (eq. 9.1).",
            by_block(lambda n, t: n // t), by_block(lambda n, t: max(n // t, 1)), by_block(lambda n, t: round(n / t)),
        ),
        Mistake(
            "You compare bytes with elements. Eq. 9.4 counts elements; the budget pays for budget // itemsize of them.",
            by_elements(lambda budget, itemsize: budget), by_elements(lambda budget, itemsize: budget * itemsize),
        ),
        Mistake(
            "You forget K and V. 2ND is paid once, before the first pass (eq. 9.4).",
            by_passes(lambda n, d, e: e // (3 * n * d + 4 * n)),
        ),
        Mistake(
            "You let K and V cross in every pass. One block of them does in each pass, all of them once (eq. 9.4).",
            by_passes(lambda n, d, e: e // (5 * n * d + 4 * n)),
        ),
        Mistake(
            "Your passes are cheaper than they are: each moves Q, and O in and out, and l and m in and out, 3ND + 4N "
            "(eq. 9.3).",
            by_passes(lambda n, d, e: (e - 2 * n * d) // (3 * n * d)),
            by_passes(lambda n, d, e: (e - 2 * n * d) // (2 * n * d)),
            by_passes(lambda n, d, e: (e - 2 * n * d) // (2 * n * d + 4 * n)),
            by_passes(lambda n, d, e: (e - 2 * n * d) // (3 * n * d + 2 * n)),
        ),
        Mistake(
            "You solve eq. 9.4 with N/Bc passes, a fraction. Passes are whole (eq. 9.1): if the budget pays for 3.9, "
            "only 3 are possible. Round the number of passes down first, then the block up.",
            inverted,
        ),
        Mistake(
            "You round the number of passes up and spend more than the budget. What eq. 9.4 leaves for passes is "
            "divided rounding down.",
            by_passes(lambda n, d, e: -(-(e - 2 * n * d) // (3 * n * d + 4 * n))),
            by_passes(lambda n, d, e: (e - 2 * n * d) // (3 * n * d + 4 * n) + 1),
        ),
        Mistake(
            "There may be no such block. Even one pass moves 5ND + 4N elements (eq. 9.4 with T_c = 1); if the budget "
            "is smaller, return 0, before you divide by a number of passes that is 0 or negative.",
            by_block(lambda n, t: -(-n // t), lambda n: n), by_block(lambda n, t: -(-n // t), lambda n: -1),
            by_block(lambda n, t: -(-n // t), lambda n: 1), unguarded, half_guarded,
        ),
        Mistake(
            "You return the number of passes. The block is asked for, N / T rounded up (eq. 9.1).",
            by_block(lambda n, t: t), by_block(lambda n, t: min(t, n)),
        ),
        Mistake(
            "You return the largest block, all keys in one pass. It always keeps to the budget if any does; the "
            "smallest is asked for, as SRAM is scarce (eq. 8.7).",
            by_block(lambda n, t: n),
        ),
        Mistake(
            "You round to a power of two. Kernels like that, but a smaller block keeps to the budget (eq. 9.1).",
            by_block(rounded),
        ),
    ),
)
