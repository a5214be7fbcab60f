"""Lesson 07, ★★★: the longest context that fits beside the weights, and what a step of decoding reads."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Exercise, Mistake, but
from attnlab_course.checker.inputs import table


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

TOKEN, GPT3_TOKEN = 48, 2 * 96 * 2 * 96 * 128  # bytes, eq. 7.11: the toy with Hk = 4, GPT-3 with Hk = 96
REAL = "7·10⁹ parameters of 2 bytes, batch 16, in 80·10⁹ bytes"
ROOM = '(gpu_bytes - weights) // (model["batch"] * token)'

EXERCISE = Exercise(
    lesson="07", stars=3, reference=longest_context, where="eqs. 7.11 and 7.12",
    cases=table(
        ("room for exactly one token, Hk = 4: 100 parameters of 1 byte, 2 layers, 4 heads of size 3, batch 1",
         100 + TOKEN, TOY, 4),
        ("room for one token less one byte, which is none: the same model, Hk = 4", 99 + TOKEN, TOY, 4),
        ("room for three tokens and a half: the same model, Hk = 2", 100 + TOKEN // 2 * 7 // 2, TOY, 2),
        ("the weights just fit, and nothing else", 100, TOY, 4),
        ("EMPTY: not even the weights fit", 60, TOY, 1),
        ("a batch of 3, Hk = 2, one byte less than a token for each needs: none", 99 + 3 * TOKEN // 2,
         TOY | {"batch": 3}, 2),
        ("2 bytes a number, a batch of 3, Hk = 2, in 1000 bytes", 1000, TOY | {"itemsize": 2, "batch": 3}, 2),
        (f"{REAL}, Hk = 32: 32 layers, 32 heads of 128", 80 * 10**9, SMALL, 32),
        (f"{REAL}, Hk = 1: the same model", 80 * 10**9, SMALL, 1),
        ("48 layers and a batch of 4 instead, Hk = 1: the same memory and weights", 80 * 10**9,
         SMALL | {"layers": 48, "batch": 4}, 1),
        ("GPT-3, 2 bytes, batch 1, eight times 80·2³⁰ bytes, Hk = 96", 640 * 2**30, GPT3, 96),
        ("a byte less than 900,000,000,000 tokens of GPT-3 need: too large for floating point",
         2 * GPT3["parameters"] + 9 * 10**11 * GPT3_TOKEN - 1, GPT3, 96),
    ),
    hints=(
        "What does one token leave in the cache? In each layer, a key and a value for each *key* head (eq. 7.11).",
        "What's left for caches: gpu_bytes − itemsize · parameters. Every sequence in the batch has its own cache.",
        "tokens = what's left // (batch · bytes of a token). A step reads weights and caches, each once (eq. 7.12).",
    ),
    without={
        "2": "You count only keys or only values. Every key comes with its value: count both (eq. 7.11).",
        "model['layers']": "You count one layer. Every layer has its own keys and values (eq. 7.11).",
        "model['itemsize']": phrases.elements("eqs. 7.11 and 7.12", what="each of them takes itemsize bytes"),
        "weights": "The weights are in memory, and every step reads them: they count in both results (eq. 7.12).",
        "model['batch'] * tokens * token":
            "A step reads the whole caches, too: the new query meets every key (eq. 7.12).",
    },
    mistakes=(
        Mistake(phrases.query_heads("eq. 7.11"), but("* Hk *", '* model["heads"] *')),
        Mistake("You let the batch share one cache. Each sequence has its own keys and values (eq. 7.12).",
                but('model["batch"] * ', ""), but('model["batch"] * tokens', "tokens")),
        Mistake("You read the weights once for each sequence. They're read once per step and serve the whole batch "
                "(eq. 7.12).",
                but("tokens, weights", 'tokens, model["batch"] * weights')),
        Mistake("You let a step read the whole memory. Leftover room isn't read (eq. 7.12).",
                but('weights + model["batch"] * tokens * token', "gpu_bytes"),
                but('weights + model["batch"] * tokens * token', "max(gpu_bytes, weights)")),
        Mistake("You round up, or to the nearest: a token that fits only partly doesn't fit (eq. 7.11).",
                but(ROOM, '-((weights - gpu_bytes) // (model["batch"] * token))'),
                but(ROOM, f"round({ROOM})", "//", "/")),
    ),
)
