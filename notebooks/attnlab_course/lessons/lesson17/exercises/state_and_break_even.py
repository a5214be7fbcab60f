"""Lesson 17, ★: how many bytes a state takes, and from which length on a cache takes more."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Exercise, Mistake, but
from attnlab_course.checker.inputs import table


def state_and_break_even(features: int, d: int, dv: int, state_itemsize: int, cache_itemsize: int) -> tuple[int, int]:
    """(bytes of one head's state (U, Z); the fewest tokens whose keys and values take more bytes than that).

    A key has ``d`` numbers and ``features`` features, a value ``dv`` numbers. The item sizes are in bytes.
    """
    state = features * (dv + 1) * state_itemsize
    return state, state // ((d + dv) * cache_itemsize) + 1  # eq. 17.10


STATE = "features * (dv + 1) * state_itemsize"
BREAK = "state // ((d + dv) * cache_itemsize) + 1"

EXERCISE = Exercise(
    lesson="17", stars=1, reference=state_and_break_even, where="eq. 17.10",
    cases=table(
        ("ONE: one feature, key and value of size 1, one byte a number: two bytes, as one token has", 1, 1, 1, 1, 1),
        ("3 features, D = 5, Dv = 7, one byte a number", 3, 5, 7, 1, 1),
        ("3 features, D = 5, Dv = 7, 4 bytes in the state and 2 in the cache", 3, 5, 7, 4, 2),
        ("elu: F = D = 64, Dv = 64, 4 bytes each", 64, 64, 64, 4, 4),
        ("elu: F = D = 64, Dv = 64, the cache in half precision", 64, 64, 64, 4, 2),
        ("taylor: F = 2,145, D = Dv = 64, 4 bytes each", 2145, 64, 64, 4, 4),
        ("taylor of heads of size 16: F = 153, Dv = 64, the cache in half precision", 153, 16, 64, 4, 2),
        ("F = 256, D = 64, Dv = 1", 256, 64, 1, 4, 4),
        ("F = 256, D = Dv = 64, 2 bytes in the state and 4 in the cache", 256, 64, 64, 2, 4),
    ),
    hints=(
        "U has a row for each feature and a column for each number of a value; Z has one number for each feature.",
        "A token leaves D + Dv numbers in a cache, per key head.",
        "state // token is the largest number of tokens whose cache isn't larger than the state; one more, and it is.",
    ),
    without={
        "state_itemsize": phrases.elements("section 5", what="each number of the state takes state_itemsize bytes"),
    },
    mistakes=(
        Mistake("Your state has d × d numbers. It has a row for each feature and a column for each number of a value, "
                "F × Dv, plus Z: eq. 17.2. With F = D = Dv that looks like d², but with more features it doesn't.",
                but(STATE, "d * d * state_itemsize"), but(STATE, "d * (dv + 1) * state_itemsize")),
        Mistake("You leave Z out, or give it a single number. It takes Z to make the weights of a row add up to 1, "
                "and each query weighs the features in its own way, so Z has a number for each: F · (Dv + 1) numbers "
                "in all (eq. 17.2).",
                but("(dv + 1)", "dv"), but("features * (dv + 1)", "(features * dv + 1)")),
        Mistake("You use one precision for state and cache. A sum over a long text is kept in float32, but keys can "
                "be in half precision, and then the break-even is twice eq. 17.10.",
                but("* cache_itemsize", "* state_itemsize"),
                but(BREAK, "features * (dv + 1) // (d + dv) + 1")),
        Mistake("You return the length before, or round up. We ask for the first length at which the cache takes "
                "*more* bytes than the state; where eq. 17.10 is a whole number the two are equal, and it's one token "
                "later.",
                but(" + 1  # eq", "  # eq"), but(BREAK, "-(-state // ((d + dv) * cache_itemsize))")),
    ),
)
