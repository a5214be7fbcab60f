"""Lesson 23, ★: how many sequences fit into a memory."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Exercise, Mistake, but
from attnlab_course.checker.inputs import table


def sequences(
    memory: int, weights: int, windows: list[int | None], length: int, kv_heads: int, d: int, itemsize: int, block: int
) -> int:
    """How many sequences of ``length`` tokens fit into memory beside the weights; all sizes in bytes.

    ``windows``: how many keys a token sees in each layer, None for all of them. A layer with a window keeps only the
    last ``window`` keys of a sequence; a layer without keeps all, in whole blocks of ``block`` tokens. Each of the
    ``kv_heads`` heads has keys and values of ``d`` numbers, ``itemsize`` bytes each. 0 if the weights alone don't fit.
    """
    slots = 0
    for window in windows:
        slots += -(-length // block) * block if window is None else min(window, length)  # eq. 23.1
    each = 2 * kv_heads * d * itemsize * slots
    return max(memory - weights, 0) // each  # eq. 23.2


WHOLE, WINDOWED, EACH = "-(-length // block) * block", "min(window, length)", "2 * kv_heads * d * itemsize * slots"

EXERCISE = Exercise(
    lesson="23", stars=1, reference=sequences, where="eq. 23.1",
    cases=table(
        ("one layer, 16 tokens, blocks of 16", 10_000, 0, [None], 16, 1, 4, 2, 16),
        ("one layer, 17 tokens, blocks of 16", 10_000, 0, [None], 17, 1, 4, 2, 16),
        ("one layer, a window of 50 for 17 tokens", 10_000, 0, [50], 17, 1, 4, 2, 16),
        ("weights of 7,000 of 10,000 bytes", 10_000, 7_000, [None], 16, 1, 4, 2, 16),
        ("one byte less than three sequences of a million tokens", 10**9 + 3 * 2**27 * 10**3 - 1, 10**9, [None], 2**20,
         1, 1000, 64, 16),
        ("memory for the weights and for half a sequence", 10_000, 9_872, [None], 16, 1, 4, 2, 16),
        ("weights that do not fit", 10_000, 10_500, [None], 16, 1, 4, 2, 16),
        ("two layers, 17 tokens, blocks of 16, 1 byte a number", 10_000, 0, [None, None], 17, 1, 4, 1, 16),
        ("two key heads, three layers with and without a window", 100_000, 100, [5, None, 20], 30, 2, 4, 4, 8),
        ("an A100 of 80 GiB: 32 layers, a window of 4,096 in 24 of them", 80 * 2**30, 16 * 10**9,
         ([4096] * 3 + [None]) * 8, 32_768, 8, 128, 2, 16),
    ),
    hints=(
        "Count the slots that a sequence needs in each layer, and add them up.",
        "A layer with a window keeps min(window, length) keys; one without ⌈length / block⌉ blocks of ``block`` slots.",
        "A slot has a key and a value for each key head: 2 · kv_heads · d numbers, eq. 23.1. Take the weights off the "
        "memory first, eq. 23.2, and part of a sequence doesn't count.",
    ),
    without={
        "weights": "The weights are in memory, too. Only what they leave holds caches (eq. 23.2).",
        "max(memory - weights, 0)": phrases.negative("eq. 23.2"),
        "2": phrases.half_cache("eq. 23.1"),
        "itemsize": phrases.elements("eq. 23.1", what="each of them takes b bytes"),
        "kv_heads": "You leave the key heads out: H_k in eq. 23.1.",
    },
    mistakes=(
        Mistake("In your count all layers have a window, or none has. Each layer has its own number of slots: the sum "
                "in eq. 23.1.",
                but(f"{WHOLE} if window is None else {WINDOWED}", WHOLE),
                but("if window is None else", "if None in windows else"),
                but("for window in windows:", "for window in windows[:1] * len(windows):"),
                but("-(-length // block) * block if window is None", "min(length, *(w for w in windows if w), 10**9) "
                    "if window is None")),
        Mistake(phrases.not_rounded_up("eq. 19.3", what="blocks"),
                but(WHOLE, "length"), but(WHOLE, "length // block * block")),
        Mistake(phrases.adds_one("eq. 19.3", what="block"), but(WHOLE, "(length // block + 1) * block")),
        Mistake("You round up the sum over all layers. Each layer without a window has its own blocks (eq. 19.3).",
                but(WHOLE, "length", EACH, EACH.replace("slots", "-(-slots // block) * block"))),
        Mistake("A layer with a window has its own slots and no blocks: min(N, W), not rounded (eq. 23.1).",
                but(WINDOWED, "-(-min(window, length) // block) * block")),
    ),
)
