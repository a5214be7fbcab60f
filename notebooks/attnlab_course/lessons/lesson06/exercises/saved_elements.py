"""Lesson 06, ★★: what autodiff keeps of chunked attention, counted."""

from attnlab_course.checker.exercise import Exercise, Mistake, but
from attnlab_course.checker.inputs import table


def saved_elements(n: int, Cq: int, Ck: int, D: int, checkpointed: str) -> int:
    """Elements kept by ``chunked`` of lesson 06 between forward and backward, beyond q, k and v.

    ``checkpointed``: "nothing", "summaries", or "query chunks" (with the summaries in them). n queries, n keys, Dv = D.
    """
    if checkpointed == "query chunks":
        return 0
    tiles = n * n if checkpointed == "nothing" else 0
    factors = n * -(-n // Ck)  # eq. 6.8
    rows = n + n * D  # l and o
    return tiles + factors + rows


EXERCISE = Exercise(
    lesson="06", stars=2, reference=saved_elements, where="section 3",
    cases=table(
        ("ONE: a single query and key, D = 1: the tile, a factor, l and o", 1, 1, 1, 1, "nothing"),
        ("one tile of 8 × 8, D = 2, summaries checkpointed", 8, 8, 8, 2, "summaries"),
        ("the same, query chunks checkpointed", 8, 8, 8, 2, "query chunks"),
        ("BLOCK: 2 query chunks, 4 key chunks", 16, 8, 4, 3, "nothing"),
        ("BLOCK: 8 query chunks, 2 key chunks, summaries checkpointed", 16, 2, 8, 3, "summaries"),
        ("RAGGED: n = 10 in chunks of 4 queries and 3 keys", 10, 4, 3, 2, "nothing"),
        ("RAGGED: n = 10 in chunks of 4 queries and 3 keys, summaries checkpointed", 10, 4, 3, 2, "summaries"),
        ("RAGGED: n = 6, a single chunk of 8 keys, 4 queries at a time", 6, 4, 8, 2, "nothing"),
        ("n = 2^20, chunks of 1024 and 4096, D = 64, nothing checkpointed", 2**20, 1024, 4096, 64, "nothing"),
        ("RAGGED: n = 10⁶ + 3, chunks of 1024 and 4096, D = 63, nothing checkpointed", 10**6 + 3, 1024, 4096, 63,
         "nothing"),
        ("n = 2^20, query chunks checkpointed", 2**20, 1024, 4096, 64, "query chunks"),
    ),
    hints=(
        "Go through the list of shapes in section 3: which array is which, and how many of each are there?",
        "All tiles together are a matrix you know. The factors are eq. 6.8. l has one number per query, o has D.",
        "Checkpointing the summaries removes the tiles, and checkpointing the query chunks all but the inputs.",
    ),
    without={
        "factors": "You leave out the factors e^(m_c − m). There's one for each query and each chunk of keys, and "
                   "they're used outside the summaries, so checkpointing the summaries keeps them (eq. 6.8).",
        "rows": "You leave out l and o. The derivative of o / l needs both, for every query: n · (1 + D) (section 3).",
    },
    mistakes=(
        Mistake("You count a single tile, or those of one query chunk. That's what the forward pass holds at any one "
                "time; autodiff keeps every tile until the backward pass, together n × n (section 3).",
                but("n * n if", "Cq * Ck if"), but("n * n if", "Cq * n if")),
        Mistake("You count m, l or o of every summary. m_c is a constant, and l_c and o_c are only multiplied by "
                "constant factors, so autodiff keeps the factors, not the summaries (the list of shapes in section 3).",
                but("+ factors", "+ 2 * factors"), but("+ rows", "+ rows + factors * (D + 1)")),
        Mistake("With query chunks checkpointed, nothing from inside them is kept, not even l and o, and the inputs "
                "aren't counted: 0 (section 4).",
                but("return 0", "return 3 * n * D"), but("return 0", "return n + n * D")),
        Mistake("You count the scores and P. The exponential keeps its result, which is also what the value product "
                "needs: one array per tile, not two (the list of shapes in section 3).",
                but("n * n if", "2 * n * n if")),
    ),
)
