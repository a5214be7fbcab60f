"""Lesson 09, ★★: the smallest block of keys that keeps to a budget of bytes."""

from attnlab_course.checker.exercise import Exercise, Mistake, but
from attnlab_course.checker.inputs import table


def block_for_budget(N: int, D: int, itemsize: int, budget: int) -> int:
    """Smallest Bc ≥ 1 whose traffic (9.4), in numbers of ``itemsize`` bytes, is at most ``budget`` bytes; 0 if none."""
    left = budget // itemsize - 2 * N * D  # in elements, for passes: eq. 9.4
    passes = left // (3 * N * D + 4 * N)
    return -(-N // passes) if passes > 0 else 0


def price(n: int, d: int, itemsize: int, passes: int) -> int:
    """Bytes of that many passes."""
    return itemsize * (2 * n * d + passes * (3 * n * d + 4 * n))

BLOCK, PASS = "-(-N // passes)", "3 * N * D + 4 * N"

EXERCISE = Exercise(
    lesson="09", stars=2, reference=block_for_budget, where="eqs. 9.1 and 9.4",
    cases=table(
        ("ONE: N = 4, D = 1, 1 byte a number: just enough for one pass", 4, 1, 1, price(4, 1, 1, 1)),
        ("one byte less: no block does", 4, 1, 1, price(4, 1, 1, 1) - 1),
        ("nothing at all", 4, 1, 1, 0),
        ("RAGGED: N = 10, D = 2, 2 bytes a number: just enough for three passes", 10, 2, 2, price(10, 2, 2, 3)),
        ("the same and one byte, which is half a number", 10, 2, 2, price(10, 2, 2, 3) + 1),
        ("one byte less: two passes", 10, 2, 2, price(10, 2, 2, 3) - 1),
        ("RAGGED: N = 10, nearly enough for four passes", 10, 2, 2, price(10, 2, 2, 4) - 2),
        ("N = 20, D = 1, 1 byte a number: enough for four passes and a half", 20, 1, 1, price(20, 1, 1, 4) + 70),
        ("generous: more than one pass for each key", 10, 2, 2, 100 * price(10, 2, 2, 3)),
        ("one head of Figure 2 in half precision, three passes", 1024, 64, 2, price(1024, 64, 2, 3)),
        ("one byte less", 1024, 64, 2, price(1024, 64, 2, 3) - 1),
        ("N = 10⁹ + 7, D = 128, enough for twenty passes and a half: a search takes too long", 10**9 + 7, 128, 2,
         price(10**9 + 7, 128, 2, 20) + 4 * 10**11),
        ("N = 10¹⁷ + 1, D = 128, 2 bytes a number, one byte short of two passes: no float holds these numbers, no "
         "64-bit integer the budget", 10**17 + 1, 128, 2, price(10**17 + 1, 128, 2, 2) - 1),
    ),
    hints=(
        "Turn it around: how many passes can the budget pay for? Then: what's the smallest block with so few passes?",
        "In elements: budget // itemsize. Take away what's paid once, 2ND; each pass costs 3ND + 4N (eq. 9.4).",
        "Round down the passes you can pay for, and return 0 if that's none. ⌈N/Bc⌉ ≤ T means Bc ≥ N/T: round Bc up.",
    ),
    without={
        "itemsize": "The budget is in bytes, and eq. 9.4 counts elements: it pays for budget // itemsize of them.",
        "2 * N * D": "K and V aren't free. They cross once, however many passes there are: 2ND (eq. 9.4).",
        "0": "There may be no such block: if the budget is too small even for one pass, return 0 (eq. 9.4).",
    },
    mistakes=(
        Mistake("You round the block down, or to the nearest. With N // T keys, the leftover keys need one pass more "
                "than the budget pays for: ⌈N/Bc⌉ ≤ T asks for Bc ≥ N/T, rounded up (eq. 9.1).",
                but(BLOCK, "N // passes"), but(BLOCK, "max(N // passes, 1)"), but(BLOCK, "round(N / passes)")),
        Mistake("You let K and V cross in every pass. A pass brings one block of them, so all passes together bring "
                "them once (eq. 9.4).", but(" - 2 * N * D", "", PASS, "5 * N * D + 4 * N")),
        Mistake("Passes are whole, so round down what the budget leaves for them: if it pays for 3.9, only 3 are "
                "possible. Then round the block up (eqs. 9.1 and 9.4).",
                but("passes = left", f"return -(-N * ({PASS}) // left) if left > 0 else 0; passes = left"),
                but(f"left // ({PASS})", f"-(-left // ({PASS}))"), but(f"({PASS})", f"({PASS}) + 1")),
        Mistake("You return the largest block, all keys in one pass. It always keeps to the budget if any does, but we "
                "ask for the smallest, because SRAM is scarce (eq. 8.8).",
                but(BLOCK, "N")),
    ),
)
