"""Lesson 07, ★★★: the longest context that fits beside the weights, and what a step of decoding reads."""

from attnlab.check.exercise import Case, Exercise, Function, Mistake

Two = tuple[int, int]


def longest_context(gpu_bytes: int, model: dict[str, int], Hk: int) -> Two:
    """(tokens, bytes): the longest context of every sequence of the batch whose cache fits into ``gpu_bytes`` beside
    the weights, 0 if not even those fit; and the bytes that a step of decoding with it reads, weights and caches."""
    tokens = max(0, (gpu_bytes - weights(model)) // (model["batch"] * token(model, Hk)))
    return tokens, weights(model) + model["batch"] * tokens * token(model, Hk)


def weights(model: dict[str, int]) -> int:
    """Bytes of the weights."""
    return model["itemsize"] * model["parameters"]


def token(model: dict[str, int], hk: int) -> int:
    """Eq. 7.11: bytes of a token in the cache."""
    return model["itemsize"] * 2 * model["layers"] * hk * model["head_size"]


TOY = {"parameters": 100, "layers": 2, "heads": 4, "head_size": 3, "itemsize": 1, "batch": 1}
GPT3 = {"parameters": 175 * 10**9, "layers": 96, "heads": 96, "head_size": 128, "itemsize": 2, "batch": 1}
SMALL = {"parameters": 7 * 10**9, "layers": 32, "heads": 32, "head_size": 128, "itemsize": 2, "batch": 16}


def cases() -> list[Case]:
    """A toy by hand, its neighbors, real models."""
    one = token(TOY, 4)
    toy = "100 parameters of 1 byte, 2 layers, 4 heads of size 3, batch 1"
    calls = [
        (f"{toy}: room for exactly one token, Hk = 4", (100 + one, TOY, 4)),
        ("the same with one byte less: none", (99 + one, TOY, 4)),
        ("the same with Hk = 2, room for three tokens and a half", (100 + one // 2 * 7 // 2, TOY, 2)),
        ("the weights just fit, and nothing else", (100, TOY, 4)),
        ("EMPTY: not even the weights fit", (60, TOY, 1)),
        ("2 bytes a number, a batch of 3, Hk = 2, 1000 bytes", (1000, TOY | {"itemsize": 2, "batch": 3}, 2)),
        ("7·10⁹ parameters, 32 layers, 32 heads of 128, 2 bytes, batch 16, 80·10⁹ bytes, Hk = 32",
         (80 * 10**9, SMALL, 32)),
        ("the same with Hk = 8", (80 * 10**9, SMALL, 8)),
        ("the same with Hk = 1", (80 * 10**9, SMALL, 1)),
        ("GPT-3, 2 bytes, batch 1, eight times 80·2³⁰ bytes, Hk = 96", (640 * 2**30, GPT3, 96)),
        ("a byte less than 900,000,000,000 tokens of GPT-3 need: too large for floating point",
         (weights(GPT3) + 9 * 10**11 * token(GPT3, 96) - 1, GPT3, 96)),
    ]
    return [Case(label, args) for label, args in calls]


def by_token(size: Function) -> Function:
    """A wrong answer with other bytes a token, size(model, Hk)."""

    def wrong(gpu_bytes: int, model: dict, Hk: int) -> Two:
        tokens = max(0, (gpu_bytes - weights(model)) // (model["batch"] * size(model, Hk)))
        return tokens, weights(model) + model["batch"] * tokens * size(model, Hk)

    return wrong


def by_step(step: Function) -> Function:
    """A wrong answer with other bytes a step, step(model, cache of the batch, cache of a sequence, Hk)."""

    def wrong(gpu_bytes: int, model: dict, Hk: int) -> Two:
        tokens, _ = longest_context(gpu_bytes, model, Hk)
        cache = tokens * token(model, Hk)
        return tokens, step(model, model["batch"] * cache, cache, Hk)

    return wrong


def general(free: Function, share: Function = lambda model: model["batch"]) -> Function:
    """A wrong answer with other room for caches, free(gpu_bytes, model), shared by share(model) sequences."""

    def wrong(gpu_bytes: int, model: dict, Hk: int) -> Two:
        tokens = max(0, free(gpu_bytes, model) // (share(model) * token(model, Hk)))
        return tokens, weights(model) + share(model) * tokens * token(model, Hk)

    return wrong


def unclamped(gpu_bytes: int, model: dict, Hk: int) -> Two:
    """Wrong: negative lengths."""
    tokens = (gpu_bytes - weights(model)) // (model["batch"] * token(model, Hk))
    return tokens, weights(model) + model["batch"] * tokens * token(model, Hk)


def floating(gpu_bytes: int, model: dict, Hk: int) -> Two:
    """Wrong: divides in floating point."""
    tokens = max(0, int((gpu_bytes - weights(model)) / (model["batch"] * token(model, Hk))))
    return tokens, weights(model) + model["batch"] * tokens * token(model, Hk)


def rounded_up(gpu_bytes: int, model: dict, Hk: int) -> Two:
    """Wrong: one token too many."""
    tokens = max(0, -((weights(model) - gpu_bytes) // (model["batch"] * token(model, Hk))))
    return tokens, weights(model) + model["batch"] * tokens * token(model, Hk)


EXERCISE = Exercise(
    lesson="07",
    stars=3,
    reference=longest_context,
    cases=cases,
    hints=(
        "What does one token leave in the cache? In each layer a key and a value for each *key* head (eq. 7.11).",
        "What is left for caches: gpu_bytes − itemsize · parameters. Every sequence of the batch has a cache of its "
        "own.",
        "tokens = what is left // (batch · bytes of a token), and not below 0.",
        "A step reads all weights once and the whole cache of each sequence once (eq. 7.12).",
    ),
    mistakes=(
        Mistake("You cache keys or values. Both are needed: the 2 of eq. 7.11.",
                by_token(lambda model, hk: token(model, hk) // 2)),
        Mistake("You cache one layer. Each layer has keys and values of its own (eq. 7.11).",
                by_token(lambda model, hk: token(model, hk) // model["layers"])),
        Mistake(
            "You cache keys and values for every *query* head. Grouped heads share them: Hk, not heads (eq. 7.11).",
            by_token(lambda model, hk: token(model, model["heads"])),
        ),
        Mistake(
            "You divide the cache by Hk. With fewer key heads it is smaller: proportional to Hk (eq. 7.11).",
            by_token(lambda model, hk: max(token(model, model["heads"]) // hk, 1)),
        ),
        Mistake(
            "You count the cache in elements. Memory is counted in bytes: itemsize of them a number (eq. 7.11).",
            by_token(lambda model, hk: token(model, hk) // model["itemsize"]),
        ),
        Mistake(
            "You count the weights in elements: each parameter is itemsize bytes (eq. 7.12).",
            general(lambda gpu, model: gpu - model["parameters"]),
        ),
        Mistake(
            "You give the whole memory to the caches. The weights lie there as well (section 7).",
            general(lambda gpu, model: gpu),
        ),
        Mistake(
            "You let the batch share one cache. Weights are shared by a batch, caches are not: each sequence has its "
            "own keys and values, which is why batching does not lift the intensity of attention in decoding "
            "(eq. 7.12).",
            general(lambda gpu, model: gpu - weights(model), lambda model: 1),
            by_step(lambda model, caches, cache, hk: weights(model) + cache),
        ),
        Mistake(
            "You let every sequence of the batch read the weights for itself. Weights are shared by a batch, caches "
            "are not (eq. 7.12).",
            by_step(lambda model, caches, cache, hk: model["batch"] * weights(model) + caches),
        ),
        Mistake(
            "A step reads the weights too, not only the caches (eq. 7.12).",
            by_step(lambda model, caches, cache, hk: caches),
        ),
        Mistake(
            "A step reads the caches too, not only the weights: the new query meets every key (eq. 7.12).",
            by_step(lambda model, caches, cache, hk: weights(model)),
        ),
        Mistake(
            "A step reads the whole cache, not only the newest token: the new query meets every key (eq. 7.12).",
            by_step(lambda model, caches, cache, hk: weights(model) + model["batch"] * token(model, hk)),
        ),
        Mistake(
            "Your context is negative where the weights do not fit. Return 0 tokens then (section 7).",
            unclamped,
        ),
        Mistake(
            "You divide in floating point, which is too coarse for large memories; use // on whole numbers (eq. 7.11).",
            floating,
        ),
        Mistake("You round up: a token that fits in part does not fit (eq. 7.11).", rounded_up),
    ),
)
