"""Lesson 07, ★: the arithmetic intensity of a linear layer."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Exercise, Mistake, but
from attnlab_course.checker.inputs import table


def linear_intensity(B: int, d_in: int, d_out: int, itemsize: int) -> float:
    """FLOP per byte of x W: x (B, d_in), W (d_in, d_out), numbers of ``itemsize`` bytes; x, W and the result cross."""
    flops = 2 * B * d_in * d_out
    elements = B * d_in + d_in * d_out + B * d_out
    return flops / (itemsize * elements)  # eq. 7.5


EXERCISE = Exercise(
    lesson="07", stars=1, reference=linear_intensity, where="eq. 7.5",
    cases=table(
        ("ONE: one row, one number in, one number out, 1 byte", 1, 1, 1, 1),
        ("the same in 2 bytes", 1, 1, 1, 2),
        ("3 rows, 4 numbers in, 5 out, 2 bytes", 3, 4, 5, 2),
        ("3 rows, 5 numbers in, 4 out, 4 bytes", 3, 5, 4, 4),
        ("one row, d = 4096, 2 bytes: decoding", 1, 4096, 4096, 2),
        ("928 rows, d = 512, 2 bytes", 928, 512, 512, 2),
        ("1024 rows, 12,288 to 49,152 numbers, 2 bytes", 1024, 12288, 49152, 2),
    ),
    hints=(
        "Numerator: operations. How many products does one number of the result take, and how many additions?",
        "Denominator: bytes. Three matrices cross: what are their shapes?",
        "2·B·d_in·d_out over itemsize times the sum of the three sizes (eq. 7.5).",
    ),
    without={
        "2": "You count a multiplication and an addition as one operation. They're two: 2·B·d_in·d_out (eq. 7.5).",
        "itemsize": phrases.elements("eq. 7.3", what="each element takes itemsize bytes"),
        "B * d_out": "The result is stored, and that moves bytes, too: three matrices cross (eq. 7.5).",
        "d_in * d_out": "You leave out the weights, which are most of what a small batch moves (eq. 7.5).",
    },
    mistakes=(
        Mistake("You let the weights cross for every row. Loaded once, they serve the whole batch (eq. 7.5).",
                but(" + d_in * d_out", " + B * d_in * d_out")),
        Mistake("You count only the weights, so you find 2B/itemsize for every width. x and the result move, too: at B "
                "= d they're two thirds of the bytes (eq. 7.5).",
                but("B * d_in + d_in * d_out + B * d_out", "d_in * d_out")),
        Mistake("A sum of d_in terms has d_in − 1 additions, but the field counts 2·d_in operations, like eq. 7.5.",
                but("2 * B * d_in * d_out", "B * d_out * (2 * d_in - 1)")),
    ),
)
