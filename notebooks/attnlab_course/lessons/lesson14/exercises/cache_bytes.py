"""Lesson 14, ★: how many bytes a cache takes."""

from attnlab_course.checker.inputs import table
from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Exercise, Mistake, but


def cache_bytes(layers: int, kv_heads: int, d: int, length: int, itemsize: int) -> int:
    """Bytes of the cache of ``length`` tokens: kv_heads heads of size d in each layer, itemsize bytes per number."""
    return 2 * layers * kv_heads * d * length * itemsize


EXERCISE = Exercise(
    lesson="14", stars=1, reference=cache_bytes, where="eq. 7.11",
    cases=table(
        ("ONE: one layer, one head of size 1, one token, one byte: a key and a value", 1, 1, 1, 1, 1),
        ("one layer, 3 key heads of size 5, 7 tokens of 2 bytes", 1, 3, 5, 7, 2),
        ("11 layers, 3 key heads of size 5, 7 tokens of 4 bytes", 11, 3, 5, 7, 4),
        ("an empty cache", 4, 2, 32, 0, 2),
        ("GPT-3: 96 layers, 96 key heads of size 128, 4096 tokens in half precision", 96, 96, 128, 4096, 2),
        ("LLaMA 2 13B: 40 layers, 40 key heads of size 128, 8192 tokens in half precision", 40, 40, 128, 8192, 2),
        ("32 layers, 8 key heads of size 128, 131,072 tokens in one byte", 32, 8, 128, 131_072, 1),
        ("48 layers, 8 key heads of size 128, 10,000,019 tokens in half precision", 48, 8, 128, 10_000_019, 2),
    ),
    hints=(
        "How many numbers does one token leave in one layer? Eq. 7.11 has them.",
        "d numbers of a key and d of a value, for each key head.",
        "Multiply by the layers, the tokens and the bytes per number.",
    ),
    without={
        "2": phrases.half_cache("eq. 7.11"),
        "itemsize": phrases.elements("eq. 7.11", what="each of them takes itemsize bytes"),
        "layers": phrases.one_layer("eq. 7.11"),
        "kv_heads": "You take d for the width of the model. Here it's the size of one head, and there are kv_heads of "
                    "them: eq. 7.11.",
    },
    mistakes=(
        Mistake("That's the matrix of scores, length × length. A cache holds no scores, and grows only with the "
                "length: eq. 7.11.",
                but("* d *", "* length *"), but("2 * layers * kv_heads * d * length", "layers * kv_heads * length**2")),
        Mistake(phrases.bits("eq. 7.11", what="itemsize"), but("* itemsize", "* 8 * itemsize")),
        Mistake("You return GiB. We ask for bytes, which are whole numbers: eq. 7.11.",
                but("length * itemsize", "length * itemsize / 2**30")),
    ),
)
