"""Lesson 24, ★: how many numbers a token leaves in the cache, four ways."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Exercise, Mistake, but
from attnlab_course.checker.inputs import table


def mla_numbers(
    layers: int, heads: int, kv_heads: int, d: int, latent: int, rope: int
) -> tuple[int, int, int, int]:
    """Numbers that a token leaves in the cache, all layers together: with MHA, GQA, MQA and MLA.

    ``heads`` query heads of size ``d`` for keys and for values; GQA has ``kv_heads`` key heads, MQA one. MLA keeps a
    latent of ``latent`` numbers, from which all heads make their keys and values, and a rotary key of ``rope`` numbers.
    """
    pair = 2 * d
    return layers * heads * pair, layers * kv_heads * pair, layers * pair, layers * (latent + rope)  # eq. 24.1, 24.2


MLA = "layers * (latent + rope)"

EXERCISE = Exercise(
    lesson="24", stars=1, reference=mla_numbers,
    cases=table(
        ("one layer, one head of size 1", 1, 1, 1, 1, 1, 1),
        ("one layer, two heads of size 3", 1, 2, 2, 3, 4, 2),
        ("without a rotary key", 2, 4, 2, 8, 12, 0),
        ("the course's model, latent of 40", 4, 4, 4, 32, 40, 16),
        ("DeepSeek-V2's sizes, 16 key heads for GQA", 60, 128, 16, 128, 512, 64),
    ),
    hints=(
        "MHA, GQA and MQA differ in the number of key heads, and each key head keeps a key and a value: eq. 24.1.",
        "MLA keeps one latent and one rotary key per layer, whatever the number of heads: eq. 24.2.",
    ),
    without={
        "2": phrases.half_cache("eq. 24.1"),
        "rope": "The rotary key is separate from the latent and is kept next to it: eq. 24.2.",
    },
    mistakes=(
        Mistake("The latent serves as key and as value, but it's in memory once: eq. 24.2. You count it twice.",
                but(MLA, "layers * (2 * latent + rope)"), but(MLA, "2 * layers * (latent + rope)")),
        Mistake("All heads share one rotary key and one latent. You give each head its own: eq. 24.2.",
                but(MLA, "layers * (latent + heads * rope)"), but(MLA, "layers * heads * (latent + rope)")),
        Mistake(phrases.one_layer("eq. 24.1"),
                but("layers * heads * pair, layers * kv_heads * pair, layers * pair, layers * (latent + rope)",
                    "heads * pair, kv_heads * pair, pair, latent + rope")),
        Mistake("The number of query heads doesn't count: GQA keeps as many keys as it has key heads, and MQA has a "
                "single one (eq. 24.1).",
                but(" layers * pair,", " layers * heads // kv_heads * pair,"),
                but("layers * kv_heads * pair", "layers * heads // kv_heads * pair")),
    ),
)
