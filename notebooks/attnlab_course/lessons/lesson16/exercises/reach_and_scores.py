"""Lesson 16, ★★: how far a window reaches through the layers, and what a prompt in chunks computes."""

from attnlab_course.checker.exercise import Exercise, Mistake, but
from attnlab_course.checker.inputs import table


def reach_and_scores(layers: int, window: int, length: int, chunk: int) -> tuple[int, int]:
    """(positions that a token far into a text knows of through all layers, itself among them; scores of a prompt).

    Each token sees ``window`` keys, itself among them. The prompt of ``length`` tokens comes in chunks of ``chunk``,
    the last one shorter if need be; a chunk computes its queries × all keys that any of them sees. All chunks together.
    """
    reach = layers * (window - 1) + 1  # eq. 16.2
    scores = 0
    for start in range(0, length, chunk):
        stop = min(start + chunk, length)
        scores += (stop - start) * (stop - max(start - window + 1, 0))  # eq. 16.4
    return reach, scores


REACH, KEYS, ROWS = "layers * (window - 1) + 1", "(stop - max(start - window + 1, 0))", "(stop - start)"

EXERCISE = Exercise(
    lesson="16", stars=2, reference=reach_and_scores, where="eq. 16.4",
    cases=table(
        ("one layer, window 4, 12 tokens in chunks of 1: decoding", 1, 4, 12, 1),
        ("three layers, window 4, 12 tokens in chunks of 4", 3, 4, 12, 4),
        ("a window of 1: every token sees itself alone", 5, 1, 12, 4),
        ("a chunk longer than the window: window 4, chunk 16", 2, 4, 48, 16),
        ("RAGGED: 14 tokens in chunks of 4, window 4", 2, 4, 14, 4),
        ("a prompt of one chunk and less: 6 tokens, window 4, chunk 16", 2, 4, 6, 16),
        ("Mistral 7B: 32 layers, window 4096, 12,000 tokens in chunks of 4096", 32, 4096, 12_000, 4096),
    ),
    hints=(
        "One layer: a token sees itself and window − 1 tokens before it. What does the oldest of those see, one layer "
        "below?",
        "Each layer adds window − 1 positions, and the token itself counts once: eq. 16.2.",
        "The first query of a chunk sees window − 1 keys before the chunk, if there are that many, and the last query "
        "sees itself. How many keys is that from first to last? Eq. 16.4.",
    ),
    without={
        "0":
            "Your first chunks see keys before the beginning of the text. There are none: eq. 16.4 holds once there's "
            "a full window.",
        "length":
            "Your last chunk is as long as the others. It ends with the prompt: min(start + chunk, length) is the end "
            "of its queries and of its keys (eq. 16.4).",
    },
    mistakes=(
        Mistake("Your reach counts the token itself too often, or not at all. The `window` keys include it, so each "
                "layer adds window − 1 positions, and it counts once, + 1: eq. 16.2, which is 131,041 and not 131,072 "
                "for Mistral 7B.",
                but(REACH, "layers * window"), but(REACH, "layers * window + 1"), but(REACH, "layers * (window - 1)")),
        Mistake("Your reach doesn't grow with the layers, or grows exponentially. What the oldest key in the window "
                "read one layer below arrives, too, and windows are laid end to end, not multiplied (eq. 16.2).",
                but(REACH, "window"), but(REACH, "window**layers")),
        Mistake("A chunk sees chunk + window − 1 keys. Its queries' windows are shifted relative to one another and "
                "reach window − 1 keys back from its first query, whose own key counts once (eq. 16.4).",
                but(KEYS, "min(stop, window)"), but(KEYS, "window"), but(KEYS, "min(window, length)"),
                but(KEYS, "(stop - max(start - window, 0))"), but(KEYS, ROWS)),
        Mistake("You count only the scores that the band shows. We want what a chunk computes: a rectangle of its "
                "queries by all keys that any of them sees: eq. 16.4.",
                but(f"{ROWS} * {KEYS}", "sum(min(i + 1, window) for i in range(start, stop))")),
    ),
)
