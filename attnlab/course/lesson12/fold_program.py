"""Lesson 12, ★★★: one program of the grid, from its number to its rows of the output."""

from attnlab.check.exercise import Case, Cost, Exercise, Function, Mistake, but
from attnlab.check.machines import FlatMemory
from attnlab.check.promises import Measure
from attnlab.geometry import Band, blocks

import numpy as np

Array = np.ndarray
Shape = tuple[int, int, int, int]


def fold_program(
    memory: FlatMemory, pid: int, q: int, k: int, v: int, o: int, shape: Shape, block_q: int, block_k: int, causal: bool
) -> Array:
    """Program pid of attention; (H, N, D) begins at q, o and (H, M, D) at k, v; shape (H, N, M, D) → memory.fetch."""
    heads, n, m, d = shape
    head, i = divmod(pid, -(-n // block_q))  # eq. 12.1
    rows, cols = i * block_q + np.arange(block_q), np.arange(d)
    own, live = head * n * d + rows[:, None] * d + cols, (rows < n)[:, None]  # eq. 12.2
    q_i = memory.load(q + own, live) / d**0.5
    m_i, l, acc = np.full(block_q, -np.inf), np.zeros(block_q), np.zeros((block_q, d))
    for first in range(0, min(rows[-1] + m - n + 1, m) if causal else m, block_k):
        keys = first + np.arange(block_k)
        theirs, there = head * m * d + keys[:, None] * d + cols, (keys < m)[:, None]
        k_j, v_j = memory.load(k + theirs, there), memory.load(v + theirs, there)
        seen = there.T & (keys <= rows[:, None] + m - n) if causal else there.T
        s = np.where(seen, q_i @ k_j.T, -np.inf)
        m_new = np.maximum(m_i, s.max(1))
        shift = np.where(m_new == -np.inf, 0, m_new)
        a, p = np.exp(m_i - shift), np.exp(s - shift[:, None])
        m_i, l, acc = m_new, a * l + p.sum(1), a[:, None] * acc + p @ v_j  # eq. 12.4
    memory.store(o + own, acc / np.where(l == 0, 1, l)[:, None], live)
    return memory.fetch(o, (heads, n, d))


def arguments(pid: int, shape: Shape, block_q: int, block_k: int, causal: bool = False, seed: int = 0) -> tuple:
    """Arguments of a call. Behind the output there is room, of which nothing may be written."""
    heads, n, m, d = shape
    rng = np.random.default_rng(seed)
    q, k, v = (rng.normal(size=(heads, length, d)) for length in (n, m, m))
    sizes = np.cumsum([0, q.size, k.size, v.size])
    memory = FlatMemory(q, k, v, np.full(heads * n * d, np.nan))
    return memory, pid, *map(int, sizes), shape, block_q, block_k, causal


def cases() -> list[Case]:
    """A first and a last program, blocks that do not divide, unequal lengths, causal, rows that see nothing."""
    calls = [
        ("ONE: one head, one query, one key", (0, (1, 1, 1, 2), 1, 1)),
        ("program 0 of 2: queries 0 and 1 of four", (0, (1, 4, 4, 2), 2, 2)),
        ("program 1 of 2: queries 2 and 3 of four", (1, (1, 4, 4, 2), 2, 2)),
        ("program 3 of 6: three heads of two blocks; N = 4, M = 6", (3, (3, 4, 6, 2), 2, 3)),
        ("program 4 of 6: head 2, block 0", (4, (3, 4, 6, 2), 2, 3)),
        ("RAGGED: 5 queries in blocks of 4, program 1 of 4: one query", (1, (2, 5, 8, 2), 4, 4)),
        ("RAGGED: the last program, the last rows of memory", (3, (2, 5, 8, 2), 4, 4)),
        ("RAGGED: 7 keys in blocks of 4, head 0 of 2", (0, (2, 4, 7, 2), 4, 4)),
        ("RAGGED: 7 keys in blocks of 4, head 1 of 2", (1, (2, 4, 7, 2), 4, 4)),
        ("causal, N = M = 6, blocks of 2: program 1 of 3 sees four keys", (1, (1, 6, 6, 2), 2, 2, True)),
        ("causal, N = M = 7, blocks of 4 by 2, program 1 of 2", (1, (1, 7, 7, 2), 4, 2, True)),
        ("RECT: causal, 2 new queries, 9 keys, blocks of 2 by 4", (0, (1, 2, 9, 2), 2, 4, True)),
        ("RECT: causal, N = 6, M = 3: queries 0 to 2 see nothing", (0, (1, 6, 3, 2), 4, 2, True)),
        ("RECT: the same, in blocks of 2: program 0 sees nothing at all", (0, (2, 6, 3, 2), 2, 2, True)),
    ]
    return [Case(label, arguments(*args)) for label, args in calls]


SHAPE, BLOCK_Q, BLOCK_K = (2, 22, 26, 4), 8, 2  # of the grid whose traffic is counted


def counted(what: str) -> Measure:
    """Loads or stores of all programs of a causal grid, over what they need."""
    heads, n, m, d = SHAPE
    band = Band(n, m, None, 0)
    keys = sum(c.stop - c.start for rows in blocks(n, BLOCK_Q) for c in band.key_blocks(rows, BLOCK_K))
    need = heads * d * (n + 2 * keys if what == "loads" else n)

    def measure(answer: Function, library: str) -> float:
        args = [arguments(pid, SHAPE, BLOCK_Q, BLOCK_K, causal=True) for pid in range(heads * -(-n // BLOCK_Q))]
        for call in args:
            answer(*call)
        return sum(getattr(call[0], what) for call in args) / need

    return measure


NUMBER, QUERIES = "divmod(pid, -(-n // block_q))", "q_i = memory.load(q + own, live) / d**0.5"
END = "min(rows[-1] + m - n + 1, m) if causal else m"
SEEN = "there.T & (keys <= rows[:, None] + m - n) if causal else there.T"

EXERCISE = Exercise(
    lesson="12", stars=3, reference=fold_program, cases=cases,
    hints=(
        "Head and block are divmod(pid, ⌈N / block_q⌉), eq. 12.1. Rows: i · block_q + arange; the tile of q begins at "
        "q + head · N · D (eq. 12.2), that of k at k + head · M · D.",
        "Two masks: rows < N where q is loaded and o stored, keys < M where k and v are loaded. And the scores of keys "
        "that do not exist are −∞, not 0.",
        "Causal: key j is seen by query i if j ≤ i + (M − N). The loop can end with the last key that the last row "
        "sees: min(rows[-1] + M − N + 1, M).",
        "Where m' is −∞ subtract 0, where l is 0 divide by 1. Store o / l under the mask of the rows, and return "
        "memory.fetch(o, (H, N, D)).",
    ),
    mistakes=(
        Mistake("You take the head from the wrong digit of pid. Blocks count fastest: head, i = divmod(pid, ⌈N / "
                "block_q⌉), eq. 12.1.",
                but(NUMBER, "divmod(pid, heads)[::-1]"), but(NUMBER, f"{NUMBER}[::-1]")),
        Mistake("You round N / block_q down when you take pid apart. A short last block is a program of its own, so "
                "every head has ⌈N / block_q⌉ of them: eq. 12.1.",
                but(NUMBER, "divmod(pid, max(n // block_q, 1))")),
        Mistake("You ignore the head: every program works on head 0. Its offset is head · N · D (eq. 12.2).",
                but(NUMBER, "0, pid % -(-n // block_q)"), but(NUMBER, "0, pid")),
        Mistake("The offset of the head is missing for keys and values: all heads read those of head 0. They begin at "
                "k + head · M · D (eq. 12.2).",
                but("theirs, there = head", "theirs, there = 0"), but("v + theirs", "v + theirs - head * m * d"),
                but("k + theirs", "k + theirs - head * m * d")),
        Mistake("The keys' heads are N rows apart in your offsets; they have M rows (eq. 12.2).",
                but("theirs, there = head * m", "theirs, there = head * n")),
        Mistake("The mask of the rows is missing: the last block loads and stores rows that belong to the next head, "
                "or to nobody. Another program writes there: a race (section 2).",
                but(", live)", ")")),
        Mistake("Keys beyond M are loaded: in flat memory the next head's keys stand there, or the values, or nothing. "
                "Load them under a mask and hide their scores (section 1).",
                but(", there)", ")"), but(", there)", ")", "there.T", "True")),
        Mistake("Keys beyond M are masked to 0, and then they vote: a score of 0 weighs e⁰. Their scores must be −∞ "
                "(section 1).",
                but("there.T", "True")),
        Mistake("The pointer to the keys is advanced twice, by the loop and by the counter: every other block is left "
                "out, and the mask hides that you run past the end (section 7).",
                but("keys = first", "keys = 2 * first")),
        Mistake("Your causal rule is aligned to the top left. The last query sees the last key: j ≤ i + (M − N), as in "
                "lesson 08.",
                but(" + m - n", ""), but(END, "m", " + m - n", "")),
        Mistake("The loop ends at the diagonal, but the tiles on it are not masked: some queries see the future "
                "(section 1).",
                but(SEEN, "there.T")),
        Mistake("The causal rule is ignored (section 1).", but("if causal", "if False")),
        Mistake("Your causal loop ends one block too early, or with the *first* row of the block: the last row of it "
                "sees most (section 1).",
                but("rows[-1]", "rows[0]"), but("rows[-1] + m - n + 1", "rows[0] + m - n"),
                but("rows[-1] + m - n + 1", "rows[-1] + m - n")),
        Mistake("The scale 1/√D is missing (section 1).", but(" / d**0.5", "")),
        Mistake("You store o undivided. Divide by l once, after the loop: eq. 12.4.",
                but(" / np.where(l == 0, 1, l)[:, None]", "")),
        Mistake("l and o are not rescaled when the maximum moves: eq. 12.4, and section 1 of lesson 08.",
                but("np.exp(m_i - shift)", "np.ones(block_q)")),
        Mistake("A query that sees nothing gives NaN, from −∞ − (−∞) or from 0/0. Its output is 0: subtract 0 where m' "
                "is −∞, divide by 1 where l is 0 (section 7 of lesson 08).",
                but("np.where(m_new == -np.inf, 0, m_new)", "m_new", "np.where(l == 0, 1, l)", "l")),
        Mistake("Right values, but your loop goes over all keys whatever the causal rule hides: tiles behind the "
                "diagonal are loaded for nothing, and the traffic nearly doubles (section 1).",
                but(END, "m")),
        Mistake("Right values, but you load the block of queries again for each block of keys. It is the operand that "
                "stays: load it before the loop (section 1).",
                but(QUERIES, "pass", "keys = first", f"{QUERIES}; keys = first")),
    ),
    costs=(
        Cost(counted("loads"), 1.0, "a causal grid loads {found:.2f} times the numbers that its visible tiles hold."),
        Cost(counted("stores"), 1.0, "it stores {found:.2f} times the numbers of the output."),
    ),
)
