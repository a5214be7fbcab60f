"""Lesson 07, ★: a count that is right for plain self-attention in half precision only, repaired."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Exercise, Mistake, but
from attnlab_course.checker.inputs import table


def attention_cost(N: int, M: int, H: int, Hk: int, D: int, itemsize: int) -> tuple[float, float]:
    """(FLOP of the products, bytes moved) of unfused attention: N queries of H heads, M keys of Hk heads, Dv = D."""
    flops = 4 * H * N * M * D
    inputs_and_output = 2 * H * N * D + 2 * Hk * M * D
    scores_and_weights = 4 * H * N * M
    return float(flops), float(itemsize * (inputs_and_output + scores_and_weights))  # so that floats pass, and integers


SQUARE, HALF = ("4 * H * N * M * D", "4 * H * N * N * D"), ("itemsize * (", "2 * (")
PER_QUERY_HEAD = "2 * Hk * M * D", "2 * H * M * D"
TRY = "one query and many keys, shared key heads, and a different itemsize"

EXERCISE = Exercise(
    lesson="07", stars=1, reference=attention_cost, where="eqs. 7.7 and 7.10",
    cases=table(
        ("ONE: one query, one key, one head, D = 1, 2 bytes", 1, 1, 1, 1, 1, 2),
        ("self-attention of 8 tokens, 2 heads, D = 4, 2 bytes", 8, 8, 2, 2, 4, 2),
        ("RECT: 2 queries, 8 keys, one head", 2, 8, 1, 1, 4, 2),
        ("RECT: more queries than keys: 1001 and 77, 3 heads on one key head, D = 5", 1001, 77, 3, 1, 5, 2),
        ("GQA: 8 query heads on 2 key heads, 4 tokens", 4, 4, 8, 2, 4, 2),
        ("4 bytes a number, 4 tokens, one head", 4, 4, 1, 1, 2, 4),
        ("decoding: 1 query of 32 heads, 2048 keys of 8 heads, D = 128, 1 byte", 1, 2048, 32, 8, 128, 1),
        ("100,000 tokens, 32 heads on 8, D = 128, 2 bytes: large counts", 100_000, 100_000, 32, 8, 128, 2),
    ),
    hints=(
        "Give `broken` one query and 2048 keys; then 32 query heads on 8 key heads; then numbers of 4 bytes.",
        "Each line names a size. Is it the size of the queries or of the keys?",
        "flops has N · M; keys and values have Hk heads; a number has itemsize bytes.",
    ),
    mistakes=(
        Mistake(phrases.nothing_fixed("eqs. 7.7 and 7.10", inputs=TRY), but(*SQUARE, *PER_QUERY_HEAD, *HALF)),
        Mistake(phrases.one_fixed("eqs. 7.7 and 7.10", inputs=TRY),
                but(*SQUARE, *PER_QUERY_HEAD), but(*SQUARE, *HALF), but(*PER_QUERY_HEAD, *HALF)),
        Mistake("Your operations have N · N. Each of the N queries meets M keys (eq. 7.10).", but(*SQUARE)),
        Mistake(phrases.query_heads("eq. 7.10"), but(*PER_QUERY_HEAD)),
        Mistake("A number takes itemsize bytes, and not always 2 (eq. 7.7).", but(*HALF)),
    ),
)
