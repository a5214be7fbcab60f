"""Lesson 12, ★★★: one program of the grid, from its number to its rows of the output."""

from collections.abc import Callable
from typing import Any

from attnlab.check.exercise import Case, Cost, Exercise, Function, Mistake
from attnlab.geometry import Band

import numpy as np

Array = np.ndarray
Shape = tuple[int, int, int, int]
INF = np.inf


class Memory:
    """Flat memory as in the lesson. A copy is a fresh one; offsets that do not exist raise IndexError."""

    def __init__(self, *arrays: Array) -> None:
        self.inputs = np.concatenate([np.ravel(x) for x in arrays])
        self.numbers, self.loads, self.stores = self.inputs.copy(), 0, 0

    def load(self, offsets: Array, mask: Any = True, other: float = 0.0) -> Array:
        """The numbers at these offsets; ``other`` where the mask is False, and nothing is read there."""
        offsets, mask = np.broadcast_arrays(offsets, mask)
        self.check(offsets[mask])
        self.loads += int(mask.sum())
        return np.where(mask, self.numbers[np.where(mask, offsets, 0)], other)

    def store(self, offsets: Array, x: Any, mask: Any = True) -> None:
        """Write x at these offsets where the mask is True."""
        offsets, x, mask = np.broadcast_arrays(offsets, x, mask)
        self.check(offsets[mask])
        self.stores += int(mask.sum())
        self.numbers[offsets[mask]] = x[mask]

    def fetch(self, base: int, shape: tuple[int, ...]) -> Array:
        """The array that begins at base, for us to look at."""
        return self.numbers[base : base + int(np.prod(shape))].reshape(shape).copy()

    def check(self, offsets: Array) -> None:
        """Refuse what is outside; a negative offset does not count from the end."""
        outside = offsets[(offsets < 0) | (offsets >= self.numbers.size)]
        if outside.size:
            raise IndexError(f"offset {outside[0]} is outside of the memory of {self.numbers.size} numbers")

    def __deepcopy__(self, memo: Any) -> "Memory":
        return Memory(self.inputs)

    def __call__(self) -> None:
        """What can be called is not compared with its copy: this one is written to."""
        raise TypeError("memory is not a function: use memory.load and memory.store")


def fold_program(
    memory: Memory, pid: int, q: int, k: int, v: int, o: int, shape: Shape, block_q: int, block_k: int, causal: bool
) -> Array:
    """Program pid of attention; (H, N, D) begins at q, o and (H, M, D) at k, v; shape (H, N, M, D) → memory.fetch."""
    return program(memory, pid, (q, k, v, o), shape, block_q, block_k, causal)


def numbers(pid: int, shape: Shape, block_q: int) -> tuple[int, int]:
    """Head and block of a program, eq. 12.1."""
    return divmod(pid, -(-shape[1] // block_q))


def last_key(rows: Array, shape: Shape) -> int:
    """Keys from here on are hidden from all these rows by the causal rule."""
    _, n, m, _ = shape
    return min(int(rows[-1]) + m - n + 1, m)


def program(
    memory: Memory, pid: int, at: tuple[int, int, int, int], shape: Shape, block_q: int, block_k: int, causal: bool, *,
    number: Callable = numbers, end: Callable[[Array, Shape], int] = last_key, heads: Callable = lambda h, n, m: (h, h),
    position: Callable = lambda rows, n, m: rows + m - n, advance: Callable = lambda first, keys: keys,
    masks: tuple[bool, bool, bool] = (True, True, True), read: bool = True, scale: bool = True, divide: bool = True,
    rescale: bool = True, guard: bool = True,
) -> Array:
    """One program, each step of which can be replaced by a wrong one; masks: stored rows, hidden tail, causal."""
    (q, k, v, o), (_, n, m, d) = at, shape
    head, i = number(pid, shape, block_q)
    rows, cols = i * block_q + np.arange(block_q), np.arange(d)
    own = head * n * d + rows[:, None] * d + cols
    live = (rows < n)[:, None]
    q_i = memory.load(q + own, live if masks[0] else True) * (d**-0.5 if scale else 1.0)
    m_i, l, acc = np.full(block_q, -INF), np.zeros(block_q), np.zeros((block_q, d))
    head_k, head_v = heads(head, n, m)
    for first in range(0, end(rows, shape) if causal else m, block_k):
        keys = advance(first, first + np.arange(block_k))
        there = keys < m
        offsets = keys[:, None] * d + cols
        k_j = memory.load(k + int(head_k * m * d) + offsets, there[:, None] if read else True)
        v_j = memory.load(v + int(head_v * m * d) + offsets, there[:, None] if read else True)
        visible = (there if masks[1] else np.ones_like(there)) & np.ones((block_q, 1), bool)
        if causal and masks[2]:
            visible &= keys <= position(rows, n, m)[:, None]
        s = np.where(visible, q_i @ k_j.T, -INF)
        m_new = np.maximum(m_i, s.max(1))
        shift = np.where(m_new == -INF, 0.0, m_new) if guard else m_new
        a, p = np.exp(m_i - shift) if rescale else np.ones(block_q), np.exp(s - shift[:, None])
        m_i, l, acc = m_new, a * l + p.sum(1), a[:, None] * acc + p @ v_j
    total = np.where(l == 0, 1.0, l) if guard else l
    memory.store(o + own, acc / total[:, None] if divide else acc, live if masks[0] else True)
    return memory.fetch(o, (shape[0], n, d))


def arguments(pid: int, shape: Shape, block_q: int, block_k: int, causal: bool = False, seed: int = 0) -> tuple:
    """Arguments of a call. Behind the output there is room, of which nothing may be written."""
    heads, n, m, d = shape
    rng = np.random.default_rng(seed)
    q, k, v = (rng.normal(size=(heads, length, d)) for length in (n, m, m))
    sizes = np.cumsum([0, q.size, k.size, v.size])
    memory = Memory(q, k, v, np.full(heads * n * d, np.nan))
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


def counted(what: str) -> Callable[[Function, str], float]:
    """Loads or stores of all programs of a causal grid, over what they need."""
    heads, n, m, d = SHAPE
    band = Band(n, m, None, 0)
    blocks = [slice(i, min(i + BLOCK_Q, n)) for i in range(0, n, BLOCK_Q)]
    keys = sum(c.stop - c.start for rows in blocks for c in band.key_blocks(rows, BLOCK_K))
    need = heads * d * (n + 2 * keys if what == "loads" else n)

    def measure(answer: Function, library: str) -> float:
        args = [arguments(pid, SHAPE, BLOCK_Q, BLOCK_K, causal=True) for pid in range(heads * len(blocks))]
        for call in args:
            answer(*call)
        return sum(getattr(call[0], what) for call in args) / need

    return measure


def wrong(**steps: Any) -> Function:
    """A program with these steps replaced."""

    def attempt(
        memory: Memory, pid: int, q: int, k: int, v: int, o: int, shape: Shape, block_q: int, block_k: int,
        causal: bool,
    ) -> Array:
        return program(memory, pid, (q, k, v, o), shape, block_q, block_k, causal, **steps)

    return attempt


def loads_all_queries(
    memory: Memory, pid: int, q: int, k: int, v: int, o: int, shape: Shape, block_q: int, block_k: int, causal: bool
) -> Array:
    """Right, but the queries are loaded anew for each block of keys."""
    _, n, m, d = shape
    head, i = numbers(pid, shape, block_q)
    rows = i * block_q + np.arange(block_q)
    stop = last_key(rows, shape) if causal else m
    for _ in range(block_k, stop, block_k):
        memory.load(q + head * n * d + rows[:, None] * d + np.arange(d), (rows < n)[:, None])
    return program(memory, pid, (q, k, v, o), shape, block_q, block_k, causal)


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
        Mistake(
            "You take the head from the wrong digit of pid. Blocks count fastest: head, i = divmod(pid, ⌈N / "
            "block_q⌉), eq. 12.1.",
            wrong(number=lambda pid, shape, block_q: divmod(pid, shape[0])[::-1]),
            wrong(number=lambda pid, shape, block_q: divmod(pid, -(-shape[1] // block_q))[::-1]),
        ),
        Mistake(
            "You round N / block_q down when you take pid apart. A short last block is a program of its own, so every "
            "head has ⌈N / block_q⌉ of them: eq. 12.1.",
            wrong(number=lambda pid, shape, block_q: divmod(pid, max(shape[1] // block_q, 1))),
        ),
        Mistake(
            "You ignore the head: every program works on head 0. Its offset is head · N · D (eq. 12.2).",
            wrong(number=lambda pid, shape, block_q: (0, pid % -(-shape[1] // block_q))),
            wrong(number=lambda pid, shape, block_q: (0, pid)),
        ),
        Mistake(
            "The offset of the head is missing for keys and values: all heads read those of head 0. They begin at k + "
            "head · M · D (eq. 12.2).",
            wrong(heads=lambda h, n, m: (0, 0)), wrong(heads=lambda h, n, m: (h, 0)),
            wrong(heads=lambda h, n, m: (0, h)),
        ),
        Mistake(
            "The keys' heads are N rows apart in your offsets; they have M rows (eq. 12.2).",
            wrong(heads=lambda h, n, m: (h * n / m, h * n / m)),
        ),
        Mistake(
            "The mask of the rows is missing: the last block loads and stores rows that belong to the next head, or to "
            "nobody. Another program writes there: a race (section 2).",
            wrong(masks=(False, True, True)),
        ),
        Mistake(
            "Keys beyond M are loaded: in flat memory the next head's keys stand there, or the values, or nothing. "
            "Load them under a mask and hide their scores (section 1).",
            wrong(read=False), wrong(read=False, masks=(True, False, True)),
        ),
        Mistake(
            "Keys beyond M are masked to 0, and then they vote: a score of 0 weighs e⁰. Their scores must be −∞ "
            "(section 1).",
            wrong(masks=(True, False, True)),
        ),
        Mistake(
            "The pointer to the keys is advanced twice, by the loop and by the counter: every other block is left out, "
            "and the mask hides that you run past the end (section 7).",
            wrong(advance=lambda first, keys: keys + first),
        ),
        Mistake(
            "Your causal rule is aligned to the top left. The last query sees the last key: j ≤ i + (M − N), as in "
            "lesson 08.",
            wrong(end=lambda rows, shape: min(rows[-1] + 1, shape[2]), position=lambda rows, n, m: rows),
            wrong(end=lambda rows, shape: shape[2], position=lambda rows, n, m: rows),
        ),
        Mistake(
            "The loop ends at the diagonal, but the tiles on it are not masked: some queries see the future "
            "(section 1).",
            wrong(masks=(True, True, False)),
        ),
        Mistake(
            "The causal rule is ignored (section 1).",
            wrong(masks=(True, True, False), end=lambda rows, shape: shape[2]),
        ),
        Mistake(
            "Your causal loop ends one block too early, or with the *first* row of the block: the last row of it sees "
            "most (section 1).",
            wrong(end=lambda rows, shape: min(rows[0] + shape[2] - shape[1] + 1, shape[2])),
            wrong(end=lambda rows, shape: min(rows[0] + shape[2] - shape[1], shape[2])),
            wrong(end=lambda rows, shape: min(rows[-1] + shape[2] - shape[1], shape[2])),
        ),
        Mistake("The scale 1/√D is missing (section 1).", wrong(scale=False)),
        Mistake("You store o undivided. Divide by l once, after the loop: eq. 12.4.", wrong(divide=False)),
        Mistake(
            "l and o are not rescaled when the maximum moves: eq. 12.4, and section 1 of lesson 08.",
            wrong(rescale=False),
        ),
        Mistake(
            "A query that sees nothing gives NaN, from −∞ − (−∞) or from 0/0. Its output is 0: subtract 0 where m' is "
            "−∞, divide by 1 where l is 0 (section 7 of lesson 08).",
            wrong(guard=False),
        ),
        Mistake(
            "Right values, but your loop goes over all keys whatever the causal rule hides: tiles behind the diagonal "
            "are loaded for nothing, and the traffic nearly doubles (section 1).",
            wrong(end=lambda rows, shape: shape[2]),
        ),
        Mistake(
            "Right values, but you load the block of queries again for each block of keys. It is the operand that "
            "stays: load it before the loop (section 1).",
            loads_all_queries,
        ),
    ),
    costs=(
        Cost(counted("loads"), 1.0, "a causal grid loads {found:.2f} times the numbers that its visible tiles hold."),
        Cost(counted("stores"), 1.0, "it stores {found:.2f} times the numbers of the output."),
    ),
)
