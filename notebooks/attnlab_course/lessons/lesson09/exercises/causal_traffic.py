"""Lesson 09, ★★: the traffic of causal attention, queries outside, hidden tiles skipped."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Exercise, Mistake, but
from attnlab_course.checker.inputs import table


def causal_traffic(N: int, M: int, D: int, Br: int, Bc: int) -> int:
    """Elements that causal attention moves, queries outside: N queries, the last of M tokens; hidden tiles skipped."""
    moved = 0
    for start in range(0, N, Br):
        stop = min(start + Br, N)
        seen = max(stop + M - N, 0)  # keys that the block's last query sees: eq. 8.10
        keys = min(-(-seen // Bc) * Bc, M)
        moved += (stop - start) * (2 * D + 1) + 2 * keys * D  # Q, O and lse once; K and V of the tiles that count
    return moved


KEYS, SEEN = "min(-(-seen // Bc) * Bc, M)", "max(stop + M - N, 0)"

EXERCISE = Exercise(
    lesson="09", stars=2, reference=causal_traffic, where="eqs. 8.10 and 9.3",
    cases=table(
        ("ONE: one query, one key, D = 1", 1, 1, 1, 1, 1),
        ("4 tokens, D = 1, tiles of 2 × 2: one of four tiles is hidden", 4, 4, 1, 2, 2),
        ("4 tokens, D = 3, tiles of 2 × 1: a block of two queries sees three blocks of keys at most", 4, 4, 3, 2, 1),
        ("8 tokens, D = 2, tiles of 2 × 8: one block of keys, which all load", 8, 8, 2, 2, 8),
        ("8 tokens, D = 2, tiles of 2 × 3: blocks of keys cross the diagonal", 8, 8, 2, 2, 3),
        ("RECT: 2 queries after 6 cached keys, D = 2, tiles of 1 × 2", 2, 8, 2, 1, 2),
        ("RECT: one query decodes with 1000 keys, D = 64, tiles of 128 × 64", 1, 1000, 64, 128, 64),
        ("EMPTY: 6 queries, 2 keys: four queries see nothing, and their outputs are stored, too", 6, 2, 2, 2, 1),
        ("RAGGED: 1000 queries, 1300 keys, D = 64, tiles of 128 × 96", 1000, 1300, 64, 128, 96),
        ("4096 tokens, D = 128, tiles of 128 × 64", 4096, 4096, 128, 128, 64),
    ),
    hints=(
        "Go through the blocks of queries. Which keys does the last query of a block see? Those tiles are loaded.",
        "Query i sees key j if j ≤ i + M − N, so a block that ends before query `stop` sees stop + M − N keys or none.",
        "Blocks of keys are loaded whole: round up to a multiple of Bc, but not beyond M. K and V: 2·D for each key.",
    ),
    without={
        "-(-seen // Bc) * Bc": "You load all keys for every block of queries. Hidden tiles aren't loaded (eq. 8.10).",
        "(stop - start) * (2 * D + 1)": "Q is loaded once, O and lse are stored once, whatever is hidden (eq. 9.3).",
    },
    mistakes=(
        Mistake("You load half of everything. Blocks are loaded whole, also on the diagonal, and with a cache, more "
                "than half is visible (eq. 8.10).",
                but("return moved", "return N * (2 * D + 1) + -(-N // Br) * M * D"),
                but("return moved", "return (2 * N * D + N + -(-N // Br) * 2 * M * D) // 2")),
        Mistake("You load only the keys that somebody sees. A block of keys comes whole, and the last one can reach "
                "over the diagonal (eq. 8.10).",
                but(KEYS, "seen"), but(KEYS, "min(seen, M)"), but(KEYS, "seen // Bc * Bc")),
        Mistake(phrases.top_left("eq. 8.10", rule="query i sees key j if j ≤ i + M − N"), but(SEEN, "min(stop, M)")),
        Mistake("You skip tiles by what their first query sees. The last query sees the most (eq. 8.10).",
                but(SEEN, "max(start + 1 + M - N, 0)"), but(SEEN, "max(start + M - N, 0)")),
    ),
)
