"""Lesson 07, ★★★: the longest context that fits beside the weights, and what a step of decoding reads."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but


def longest_context(gpu_bytes: int, model: dict[str, int], Hk: int) -> tuple[int, int]:
    """(tokens, bytes): the longest context of every sequence of the batch whose cache fits into ``gpu_bytes`` beside
    the weights, 0 if not even those fit; and the bytes that a step of decoding with it reads, weights and caches."""
    weights = model["itemsize"] * model["parameters"]
    token = model["itemsize"] * 2 * model["layers"] * Hk * model["head_size"]  # eq. 7.11
    tokens = max(0, (gpu_bytes - weights) // (model["batch"] * token))
    return tokens, weights + model["batch"] * tokens * token  # eq. 7.12


TOY = {"parameters": 100, "layers": 2, "heads": 4, "head_size": 3, "itemsize": 1, "batch": 1}
GPT3 = {"parameters": 175 * 10**9, "layers": 96, "heads": 96, "head_size": 128, "itemsize": 2, "batch": 1}
SMALL = {"parameters": 7 * 10**9, "layers": 32, "heads": 32, "head_size": 128, "itemsize": 2, "batch": 16}


def cases() -> list[Case]:
    """A toy by hand, its neighbors, real models."""
    one, gpt3 = 48, 2 * 96 * 2 * 96 * 128  # bytes of a token, eq. 7.11: the toy with Hk = 4, GPT-3 with Hk = 96
    toy = "100 parameters of 1 byte, 2 layers, 4 heads of size 3, batch 1"
    real = "7·10⁹ parameters of 2 bytes, batch 16, in 80·10⁹ bytes"
    calls = [
        (f"room for exactly one token, Hk = 4: {toy}", (100 + one, TOY, 4)),
        ("room for one token less one byte, which is none: the same model, Hk = 4", (99 + one, TOY, 4)),
        ("room for three tokens and a half: the same model, Hk = 2", (100 + one // 2 * 7 // 2, TOY, 2)),
        ("the weights just fit, and nothing else", (100, TOY, 4)),
        ("EMPTY: not even the weights fit", (60, TOY, 1)),
        ("a batch of 3, Hk = 2, one byte less than a token for each needs: none",
         (100 + 3 * one // 2 - 1, TOY | {"batch": 3}, 2)),
        ("2 bytes a number, a batch of 3, Hk = 2, in 1000 bytes", (1000, TOY | {"itemsize": 2, "batch": 3}, 2)),
        (f"{real}, Hk = 32: 32 layers, 32 heads of 128", (80 * 10**9, SMALL, 32)),
        (f"{real}, Hk = 8: the same model", (80 * 10**9, SMALL, 8)),
        (f"{real}, Hk = 1: the same model", (80 * 10**9, SMALL, 1)),
        ("48 layers and a batch of 4 instead, Hk = 1: the same memory and weights",
         (80 * 10**9, SMALL | {"layers": 48, "batch": 4}, 1)),
        ("GPT-3, 2 bytes, batch 1, eight times 80·2³⁰ bytes, Hk = 96", (640 * 2**30, GPT3, 96)),
        ("a byte less than 900,000,000,000 tokens of GPT-3 need: too large for floating point",
         (2 * GPT3["parameters"] + 9 * 10**11 * gpt3 - 1, GPT3, 96)),
    ]
    return [Case(label, args) for label, args in calls]


ROOM = '(gpu_bytes - weights) // (model["batch"] * token)'

EXERCISE = Exercise(
    lesson="07", stars=3, reference=longest_context, cases=cases,
    hints=(
        "What does one token leave in the cache? In each layer, a key and a value for each *key* head (eq. 7.11).",
        "What's left for caches: gpu_bytes − itemsize · parameters. Every sequence in the batch has its own cache.",
        "tokens = what's left // (batch · bytes of a token), and not below 0.",
        "A step reads all weights once and the whole cache of each sequence once (eq. 7.12).",
    ),
    mistakes=(
        Mistake(phrases.half_cache("eq. 7.11"), but('["itemsize"] * 2 *', '["itemsize"] *')),
        Mistake(phrases.one_layer("eq. 7.11"), but('model["layers"] * Hk', "Hk")),
        Mistake(phrases.query_heads("eq. 7.11"), but("* Hk *", '* model["heads"] *')),
        Mistake("You divide the cache by Hk. With fewer key heads, it's smaller: proportional to Hk (eq. 7.11).",
                but('Hk * model["head_size"]', 'model["heads"] * model["head_size"] // Hk')),
        Mistake(phrases.elements("eq. 7.11", what="each number of the cache takes itemsize bytes"),
                but('model["itemsize"] * 2', "2")),
        Mistake(phrases.two_bytes("eq. 7.11"), but('model["itemsize"] * 2', "2 * 2")),
        Mistake(phrases.elements("eq. 7.12", what="each parameter takes itemsize bytes"),
                but("gpu_bytes - weights", 'gpu_bytes - model["parameters"]')),
        Mistake(phrases.weights_in_memory("section 7"), but("(gpu_bytes - weights)", "gpu_bytes")),
        Mistake(phrases.cache_shared("eq. 7.12"),
                but('model["batch"] * ', ""), but('model["batch"] * tokens', "tokens")),
        Mistake(phrases.weights_each("eq. 7.12"), but("tokens, weights", 'tokens, model["batch"] * weights')),
        Mistake(phrases.weights_unread("eq. 7.12"), but("tokens, weights + ", "tokens, ")),
        Mistake("You let a step read the whole memory. It reads the weights and the cached tokens; leftover room isn't "
                "read (eq. 7.12).",
                but('weights + model["batch"] * tokens * token', "gpu_bytes"),
                but('weights + model["batch"] * tokens * token', "max(gpu_bytes, weights)")),
        Mistake("You compute the bytes before you set the tokens to 0: if the weights don't fit, the bytes are less "
                "than the weights (eq. 7.12).",
                but('* tokens * token', f"* ({ROOM}) * token")),
        Mistake(phrases.caches_unread("eq. 7.12"),
                but(' + model["batch"] * tokens * token', ""), but("tokens * token", "token")),
        Mistake(phrases.negative("section 7"), but(f"max(0, {ROOM})", ROOM)),
        Mistake(phrases.floating("eq. 7.11"), but(ROOM, f"int({ROOM})", "//", "/")),
        Mistake("You round up, or to the nearest: a token that fits only partly doesn't fit (eq. 7.11).",
                but(ROOM, '-((weights - gpu_bytes) // (model["batch"] * token))'),
                but(ROOM, f"round({ROOM})", "//", "/")),
        Mistake(phrases.kernel_size("eq. 7.11", asked="The largest number that fits"),
                but(ROOM, f"{ROOM} // 8 * 8"), but(ROOM, f"{ROOM} // 16 * 16")),
    ),
)
