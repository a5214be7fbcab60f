"""Lesson 07, ★: the arithmetic intensity of a linear layer."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but


def linear_intensity(B: int, d_in: int, d_out: int, itemsize: int) -> float:
    """FLOP per byte of x W: x (B, d_in), W (d_in, d_out), numbers of ``itemsize`` bytes; x, W and the result cross."""
    flops = 2 * B * d_in * d_out
    elements = B * d_in + d_in * d_out + B * d_out
    return flops / (itemsize * elements)  # eq. 7.5


def cases() -> list[Case]:
    """A single product of numbers, one row, wide and narrow layers."""
    calls = [
        ("ONE: one row, one number in, one number out, 1 byte", (1, 1, 1, 1)),
        ("the same in 2 bytes", (1, 1, 1, 2)),
        ("3 rows, 4 numbers in, 5 out, 2 bytes", (3, 4, 5, 2)),
        ("3 rows, 5 numbers in, 4 out, 4 bytes", (3, 5, 4, 4)),
        ("one row, d = 4096, 2 bytes: decoding", (1, 4096, 4096, 2)),
        ("201 rows, d = 512, 2 bytes", (201, 512, 512, 2)),
        ("928 rows, d = 512, 2 bytes", (928, 512, 512, 2)),
        ("1024 rows, 12,288 to 49,152 numbers, 2 bytes", (1024, 12288, 49152, 2)),
    ]
    return [Case(label, args) for label, args in calls]


RESULT = "flops / (itemsize * elements)"

EXERCISE = Exercise(
    lesson="07", stars=1, reference=linear_intensity, cases=cases,
    hints=(
        "Numerator: operations. How many products does one number of the result take, and how many additions?",
        "Denominator: bytes. Three matrices cross: what are their shapes?",
        "2·B·d_in·d_out over itemsize times the sum of the three sizes (eq. 7.5).",
    ),
    mistakes=(
        Mistake("You count a multiplication and an addition as one operation. They're two: 2·B·d_in·d_out (eq. 7.5).",
                but("2 * B", "B")),
        Mistake("You count d_in − 1 additions for a sum of d_in terms. That's true, but the field rounds to 2·d_in "
                "operations per result, and so does eq. 7.5.",
                but("2 * B * d_in * d_out", "B * d_out * (2 * d_in - 1)")),
        Mistake(phrases.elements("eq. 7.3", what="each element takes itemsize bytes"),
                but("(itemsize * elements)", "elements")),
        Mistake(phrases.loads_alone("eq. 7.4"), but(" + B * d_out", "")),
        Mistake("You count only the weights, so you find 2B/itemsize for every width. x and the result move, too: at B "
                "= d they're two thirds of the bytes (eq. 7.5).",
                but("B * d_in + d_in * d_out + B * d_out", "d_in * d_out"), but(RESULT, "float(B)")),
        Mistake("You count a bias of d_out numbers. x W has none (eq. 7.5).",
                but(" + B * d_out", " + B * d_out + d_out"),
                but(" + B * d_out", " + B * d_out + d_out; flops += B * d_out")),
        Mistake("You leave out the weights, or let them cross for every row. They're loaded once and serve the whole "
                "batch; that's what a batch is good for (eq. 7.5).",
                but(" + d_in * d_out", ""), but(" + d_in * d_out", " + B * d_in * d_out")),
        Mistake("You divide bytes by operations. Intensity is FLOP per byte (eq. 7.3).",
                but(RESULT, "itemsize * elements / flops")),
    ),
)
