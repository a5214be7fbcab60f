"""Lesson 13, ★★: what a kernel waits for, and which remedy buys most."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Exercise, Mistake, but
from attnlab_course.checker.inputs import table


def next_remedy(programs: int, sms: int, products: float, exponentials: float, memory: float) -> int:
    """Which remedy makes a kernel fastest: 0, 1, 2 or 3; of equally good ones the first.

    ``programs`` run on ``sms`` multiprocessors, one each, in waves. With all multiprocessors busy the kernel's products
    would take ``products`` seconds, its exponentials ``exponentials``; moving its bytes takes ``memory`` whatever is
    busy, and goes on beside the rest. Today a program does products and exponentials one after the other. Remedies:
    0 split the keys until the chip is full; 1 overlap products with exponentials; 2 compute half of the exponentials as
    polynomials, on units that would idle; 3 move half the bytes.
    """
    waves = -(-programs // sms)
    busy = programs / (waves * sms)
    times = (
        max(products + exponentials, memory),
        max(max(products, exponentials) / busy, memory),
        max((products + exponentials / 2) / busy, memory),
        max((products + exponentials) / busy, memory / 2),
    )
    return times.index(min(times))


EXERCISE = Exercise(
    lesson="13", stars=2, reference=next_remedy, where="eq. 13.2",
    cases=table(
        ("decoding: 16 programs, everything waits for memory", 16, 132, 1e-6, 1e-6, 50e-6),
        ("16 programs on 132 multiprocessors", 16, 132, 10e-6, 5e-6, 20e-6),
        ("a full H100, exponentials half of the products", 1320, 132, 1e-3, 0.5e-3, 1e-5),
        ("a full B200, exponentials as long as the products", 1480, 148, 1e-3, 1e-3, 1e-5),
        ("133 programs on 132: two waves", 133, 132, 1e-3, 0.4e-3, 1e-5),
        ("small heads: exponentials twice the products", 1320, 132, 1e-3, 2e-3, 1e-5),
        ("exponentials three times the products", 1320, 132, 1e-3, 3e-3, 1e-5),
        ("memory just below the rest", 1320, 132, 1e-3, 0.5e-3, 1.4e-3),
        ("memory above the rest", 1320, 132, 1e-3, 0.5e-3, 1.6e-3),
        ("half empty, and memory takes as long as the waves", 66, 132, 1e-3, 0.0, 2e-3),
        ("half empty, memory longer than the waves", 66, 132, 1e-3, 0.2e-3, 3e-3),
        ("three quarters busy, memory below two overlapped", 99, 132, 1e-3, 1e-3, 1.6e-3),
        ("three quarters busy, exponentials three times the products", 99, 132, 1e-3, 3e-3, 3.2e-3),
    ),
    hints=(
        "Write the kernel's time as is: the work over (13.2)'s busy, with memory alongside, so the longer of the two.",
        "Then write it four more times, each with one change. Overlap turns a sum into a maximum.",
        "The best remedy isn't always the one for what looks worst: compare what's left afterwards.",
    ),
    without={
        "exponentials / 2": "With half the exponentials as polynomials, the other half is still there: section 4.",
    },
    mistakes=(
        Mistake("You count every multiprocessor as busy. The last wave may be nearly empty: eq. 13.2.",
                but("busy = programs / (waves * sms)", "busy = 1.0")),
        Mistake("You count fractions of a wave. The last one takes as long as the others: eq. 13.2.",
                but("busy = programs / (waves * sms)", "busy = min(programs / sms, 1.0)")),
        Mistake(phrases.adds_times("lesson 07"),
                but("max((products + exponentials) / busy, memory / 2)",
                    "(products + exponentials) / busy + memory / 2")),
        Mistake("Moving the bytes takes `memory` seconds no matter how many are busy: only what's computed waits for "
                "idle multiprocessors (eq. 13.2).",
                but(", memory)", ", memory / busy)"), but("/ busy, memory)", "/ busy, memory / busy)"),
                but("s) / busy, memory)", "s) / busy, memory / busy)"),
                but("/ 2) / busy, memory)", "/ 2) / busy, memory / busy)")),
    ),
)
