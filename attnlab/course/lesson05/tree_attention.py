"""Lesson 05, ★★★: summaries combined as a binary counter carries."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from attnlab.check.promises import peak
from attnlab.check.exercise import Case, Cost, Exercise, Function, Mistake

import numpy as np

Array = np.ndarray
Triple = tuple[Array, Array, Array]


def tree_attention(query: Array, key: Array, value: Array, Ck: int) -> Array:
    """Attention of query (N, D), key (M, D), value (M, Dv): chunks of Ck keys, combined in a tree that carries."""
    return divided(carry(summaries(query, key, value, Ck)))


def carry(leaves: Iterable[Triple]) -> Triple:
    """The ⊕ of all leaves; as many are alive as a binary counter of their number has ones."""
    live: list[tuple[int, Triple]] = []
    for leaf in leaves:
        size = 1
        while live and live[-1][0] == size:
            leaf = combine(live.pop()[1], leaf)
            size *= 2
        live.append((size, leaf))
        del leaf
    total = live.pop()[1]
    while live:
        total = combine(live.pop()[1], total)
    return total


def summaries(query: Array, key: Array, value: Array, ck: int) -> Iterator[Triple]:
    """The summary of one chunk after the other, each when it is asked for."""
    for c in range(0, len(key), ck):
        s = query @ key[c : c + ck].T / np.sqrt(query.shape[1])
        m = s.max(1)
        p = np.exp(s - m[:, None])
        yield m, p.sum(1), p @ value[c : c + ck]


def combine(a: Triple, b: Triple) -> Triple:
    """⊕ on (m, l, o)."""
    (m_a, l_a, o_a), (m_b, l_b, o_b) = a, b
    m = np.maximum(m_a, m_b)
    alpha, beta = np.exp(m_a - m), np.exp(m_b - m)
    return m, alpha * l_a + beta * l_b, alpha[:, None] * o_a + beta[:, None] * o_b


def divided(total: Triple) -> Array:
    """o / l."""
    _, l, o = total
    return o / l[:, None]


def by(total: Function, leaves: Function = summaries) -> Function:
    """Attention whose summaries are combined by ``total``."""

    def attempt(query: Array, key: Array, value: Array, Ck: int) -> Array:
        return divided(total(leaves(query, key, value, Ck)))

    return attempt


def levels(leaves: Iterable[Triple]) -> Triple:
    """Right, and every leaf is alive before the first is combined."""
    row = list(leaves)
    while len(row) > 1:
        row = [combine(*row[i : i + 2]) if i + 1 < len(row) else row[i] for i in range(0, len(row), 2)]
    return row[0]


def recursive(leaves: Iterable[Triple]) -> Triple:
    """Right, and every leaf is alive before the first is combined."""

    def total(row: list[Triple]) -> Triple:
        half = len(row) // 2
        return row[0] if len(row) == 1 else combine(total(row[:half]), total(row[half:]))

    return total(list(leaves))


def fold(leaves: Iterable[Triple]) -> Triple:
    """Right, and as deep as there are leaves."""
    leaves = iter(leaves)
    total = next(leaves)
    for leaf in leaves:
        total = combine(total, leaf)
    return total


def pairs_only(leaves: Iterable[Triple]) -> Triple:
    """Wrong: the last of an odd number is dropped."""
    row = list(leaves)
    while len(row) > 1:
        row = [combine(a, b) for a, b in zip(row[::2], row[1::2])]
    return row[0]


def last_only(leaves: Iterable[Triple]) -> Triple:
    """Wrong: of what is alive at the end only the last is used."""
    return at_end(leaves, -1)


def first_only(leaves: Iterable[Triple]) -> Triple:
    """Wrong: of what is alive at the end only the first, the largest, is used."""
    return at_end(leaves, 0)


def at_end(leaves: Iterable[Triple], which: int) -> Triple:
    """One of the summaries that are alive at the end."""
    live: list[tuple[int, Triple]] = []
    for leaf in leaves:
        size = 1
        while live and live[-1][0] == size:
            leaf, size = combine(live.pop()[1], leaf), 2 * size
        live.append((size, leaf))
    return live[which][1]


def added(a: Triple, b: Triple) -> Triple:
    """Wrong: sums relative to different maxima are added."""
    return np.maximum(a[0], b[0]), a[1] + b[1], a[2] + b[2]


def newer_kept(a: Triple, b: Triple) -> Triple:
    """Wrong: the newer summary is taken for the one with the larger maximum."""
    (m_a, l_a, o_a), (m_b, l_b, o_b) = a, b
    m = np.maximum(m_a, m_b)
    alpha = np.exp(m_a - m)
    return m, alpha * l_a + l_b, alpha[:, None] * o_a + o_b


def halved(a: Triple, b: Triple) -> Triple:
    """Wrong: outputs are divided first, then averaged."""
    return np.maximum(a[0], b[0]), np.ones_like(a[1]), (a[2] / a[1][:, None] + b[2] / b[1][:, None]) / 2


def carried(operator: Function) -> Function:
    """The right tree with another operator."""

    def total(leaves: Iterable[Triple]) -> Triple:
        live: list[tuple[int, Triple]] = []
        for leaf in leaves:
            size = 1
            while live and live[-1][0] == size:
                leaf, size = operator(live.pop()[1], leaf), 2 * size
            live.append((size, leaf))
        total = live.pop()[1]
        while live:
            total = operator(live.pop()[1], total)
        return total

    return total


def whole_chunks(query: Array, key: Array, value: Array, ck: int) -> Iterator[Triple]:
    """Wrong: the keys after the last full chunk are left out."""
    m = max(len(key) // ck, 1) * ck
    return summaries(query, key[:m], value[:m], ck)


def cases() -> list[Case]:
    """One leaf, two, three, and more; ragged ends."""
    rng = np.random.default_rng(53)
    q, k, v = (2 * rng.normal(size=shape) for shape in ((3, 4), (14, 4), (14, 3)))
    return [
        Case("ONE: one chunk", (q[:1], k[:2], v[:2], 2)),
        Case("two chunks of one key, values the identity", (q[:1], k[:2], np.eye(2), 1)),
        Case("ONES: four chunks of one key, every value is 1", (q, k[:4], np.ones((4, 1)), 1)),
        Case("EYE: three chunks of one key: the third waits alone", (q[:1], k[:3], np.eye(3), 1)),
        Case("five chunks of one key: the fifth waits alone", (q[:2], k[:5], np.eye(5), 1)),
        Case("seven chunks of one key: three are alive at the end", (q[:2], k[:7], np.eye(7), 1)),
        Case("RAGGED: 14 keys in chunks of 4, the last has two", (q, k, v, 4)),
        Case("BLOCK: the same keys in chunks of 3", (q, k, v, 3)),
        Case("PERM: the same keys the other way round", (q, k[::-1].copy(), v[::-1].copy(), 3)),
        Case("HIGH: scores of thousands", (40 * q, 40 * k, v, 3)),
    ]


N, DV, CHUNKS = 8, 1024, 64


def long(chunks: int) -> tuple:
    """Arguments of a call in which scores are small beside summaries: chunks of two keys."""
    rng = np.random.default_rng(chunks)
    return rng.normal(size=(N, 2)), rng.normal(size=(2 * chunks, 2)), rng.normal(size=(2 * chunks, DV)), 2


class Deep(np.ndarray):
    """An array that knows how many operations in a row have led to it."""

    depth = 0

    def __array_finalize__(self, source: Any) -> None:
        """A view is as deep as its source."""
        self.depth = getattr(source, "depth", 0)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = (), **options: Any) -> Any:
        """The operation, one deeper than its inputs."""
        depth = 1 + max(getattr(x, "depth", 0) for x in inputs)
        if out:
            options["out"] = tuple(plain(x) for x in out)
        result = getattr(ufunc, method)(*map(plain, inputs), **options)
        for x in out:
            x.depth = max(depth, getattr(x, "depth", 0))
        return out[0] if out else deep(result, depth)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        """The same for functions such as np.where and np.einsum."""
        found: list[int] = []
        args, options = stripped(args, found), stripped(options, found)
        return deep(function(*args, **options), 1 + max(found, default=0))


def plain(x: Any) -> Any:
    """An array without its depth."""
    return x.view(np.ndarray) if isinstance(x, Deep) else x


def stripped(x: Any, found: list[int]) -> Any:
    """Arguments without their depths, which are added to ``found``."""
    if isinstance(x, dict):
        return {name: stripped(item, found) for name, item in x.items()}
    if isinstance(x, tuple | list):
        return type(x)(stripped(item, found) for item in x)
    found.append(getattr(x, "depth", 0))
    return plain(x)


def deep(x: Any, depth: int) -> Any:
    """A result that knows its depth."""
    if isinstance(x, tuple | list):
        return type(x)(deep(item, depth) for item in x)
    if not isinstance(x, np.ndarray | np.generic):
        return x
    x = np.asarray(x).view(Deep)
    x.depth = depth
    return x


def chain(answer: Callable, library: str) -> float:
    """Operations in a row from the first values to the result, NumPy and PyTorch; JAX is not measured."""
    query, key, value, ck = long(CHUNKS)
    query, key, value = query[:2], key, value[:, :2]
    if library == "torch":
        import torch

        given = [torch.asarray(x.copy()) for x in (query, key, value)]
        return float(graph_depth(answer(given[0], given[1], given[2].requires_grad_(), ck).grad_fn))
    if library == "numpy":
        return float(getattr(answer(deep(query, 0), deep(key, 0), deep(value, 0), ck), "depth", 0))
    return 0.0


def graph_depth(node: Any) -> int:
    """The longest way through a PyTorch graph."""
    order, seen, todo = [], set(), [node]
    while todo:
        at = todo.pop()
        if at is None:
            continue
        if isinstance(at, tuple):
            order.append(at[0])
        elif at not in seen:
            seen.add(at)
            todo += [(at,), *(n for n, _ in at.next_functions)]
    depth: dict[Any, int] = {None: 0}
    for at in order:
        depth[at] = 1 + max((depth.get(n, 0) for n, _ in at.next_functions), default=0)
    return depth.get(node, 0)


EXERCISE = Exercise(
    lesson="05",
    stars=3,
    reference=tree_attention,
    cases=cases,
    costs=(
        Cost(
            peak(long, CHUNKS, N * (DV + 2)), 16,
            "with 64 chunks it held {found:.0f} times the size of a summary; log₂ 64 + 1 = 7 and some room to combine "
            "two make {limit}.",
        ),
        Cost(
            chain, 80,
            "with 64 chunks {found:.0f} operations follow from one another; in a tree of 6 levels there are fewer than "
            "{limit}.",
        ),
    ),
    hints=(
        "Write down what is alive after 1, 2, 3, 4 … chunks if two summaries of the same number of chunks are combined "
        "at once: 1; 2; 2 1; 4; 4 1; 4 2; 4 2 1; 8. These are the ones of a binary counter.",
        "Keep a list `live` of pairs (number of chunks, summary). A new chunk has number 1.",
        "while live and live[-1][0] == size: take the last one off, combine, double the size. Then append.",
        "At the end combine what is left in `live`, from the smallest to the largest, and divide once.",
    ),
    mistakes=(
        Mistake(
            "You make all M/Ck summaries first and combine them afterwards, so all leaves are alive at once. Combine "
            "as they come, as a binary counter carries: then log₂(M/Ck) + 1 are alive (eq. 5.9).",
            by(levels), by(recursive),
        ),
        Mistake(
            "This is a fold: one summary is alive, and each step waits for the one before, M/Ck in a row. In the tree "
            "log₂(M/Ck) steps follow from one another (eq. 5.9).",
            by(fold),
        ),
        Mistake(
            "Only the first 1, 2, 4 … chunks reach your result: a summary without a partner gets lost (zip stops at "
            "the shorter list), or of those alive at the end only the largest is used. Combine them all (eq. 5.9).",
            by(pairs_only), by(first_only),
        ),
        Mistake(
            "After the last chunk several summaries are alive, one for each binary one in M/Ck. You use only the last "
            "of them: combine them all (eq. 5.9).",
            by(last_only),
        ),
        Mistake(
            "You add o and l that are relative to different maxima. Multiply each side by e^(its m − the common m) "
            "first (eq. 5.4).",
            by(carried(added)),
        ),
        Mistake(
            "You rescale the older side only. Either side may have the smaller maximum, so both need a factor "
            "(eq. 5.4).",
            by(carried(newer_kept)),
        ),
        Mistake(
            "You divide each chunk and average the outputs. A chunk weighs as much as its sum of exponentials; divide "
            "once, at the end (eq. 5.5).",
            by(carried(halved)),
        ),
        Mistake(
            "The keys after the last full chunk are never read: there are ⌈M / Ck⌉ chunks (eq. 5.1).",
            by(carry, whole_chunks),
        ),
    ),
)
