"""Lesson 05, ★★: attention in chunks of queries and of keys, with ragged ends, in little memory."""

from attnlab.check.promises import peak
from attnlab.check.exercise import Case, Cost, Exercise, Function, Mistake

import numpy as np

Array = np.ndarray
Triple = tuple[Array, Array, Array]


def attention_in_chunks(query: Array, key: Array, value: Array, Cq: int, Ck: int) -> Array:
    """Attention of query (N, D), key (M, D), value (M, Dv) in chunks of Cq queries and Ck keys."""
    out = np.empty((len(query), value.shape[1]))
    for a in range(0, len(query), Cq):
        q = query[a : a + Cq]
        chunks = [summary(q, key[c : c + Ck], value[c : c + Ck]) for c in range(0, len(key), Ck)]
        out[a : a + Cq] = combined(chunks)
    return out


def summary(q: Array, k: Array, v: Array) -> Triple:
    """(m, l, o) of a chunk, with one array of scores."""
    s = q @ k.T
    s /= np.sqrt(q.shape[1])
    m = s.max(1)
    s -= m[:, None]
    np.exp(s, out=s)
    return m, s.sum(1), s @ v


def combined(chunks: list[Triple]) -> Array:
    """All summaries brought to one maximum, added, divided."""
    top = np.max([m for m, _, _ in chunks], axis=0)
    o = sum(np.exp(m - top)[:, None] * o for m, _, o in chunks)
    return o / sum(np.exp(m - top) * l for m, l, _ in chunks)[:, None]


def variant(keys: Function | None = None, combine: Function | None = None) -> Function:
    """Attention in chunks with another choice of keys or another combination.

    ``keys``: from key, value and Ck to a list of pairs, the chunks.
    """

    def attempt(query: Array, key: Array, value: Array, Cq: int, Ck: int) -> Array:
        out = np.empty((len(query), value.shape[1]))
        pairs = (keys or ragged)(key, value, Ck)
        for a in range(0, len(query), Cq):
            out[a : a + Cq] = (combine or combined)([summary(query[a : a + Cq], k, v) for k, v in pairs])
        return out

    return attempt


def ragged(key: Array, value: Array, ck: int) -> list[tuple[Array, Array]]:
    """The right chunks."""
    return [(key[c : c + ck], value[c : c + ck]) for c in range(0, len(key), ck)]


def clamped(key: Array, value: Array, ck: int) -> list[tuple[Array, Array]]:
    """Wrong: the last chunk begins earlier, so that it is full."""
    ck = min(ck, len(key))
    starts = [min(c, len(key) - ck) for c in range(0, len(key), ck)]
    return [(key[c : c + ck], value[c : c + ck]) for c in starts]


def floored(key: Array, value: Array, ck: int) -> list[tuple[Array, Array]]:
    """Wrong: the rest of the keys is left out."""
    return [(key[c * ck : c * ck + ck], value[c * ck : c * ck + ck]) for c in range(len(key) // ck)]


def floored_once(key: Array, value: Array, ck: int) -> list[tuple[Array, Array]]:
    """Wrong: as above, with one chunk at least."""
    return floored(key, value, min(ck, len(key)))


def padded(key: Array, value: Array, ck: int) -> list[tuple[Array, Array]]:
    """Wrong: the last chunk is filled up with keys of zeros."""
    extra = ((0, -len(key) % ck), (0, 0))
    return ragged(np.pad(key, extra), np.pad(value, extra), ck)


def mean(chunks: list[Triple]) -> Array:
    """Wrong: the plain mean of the chunks' outputs."""
    return np.mean([o / l[:, None] for _, l, o in chunks], axis=0)


def unshifted(chunks: list[Triple]) -> Array:
    """Wrong: the sums are added although each was taken relative to its own maximum."""
    return sum(o for _, _, o in chunks) / sum(l for _, l, _ in chunks)[:, None]


def half_shifted(chunks: list[Triple]) -> Array:
    """Wrong: o is brought to the common maximum, l is not."""
    top = np.max([m for m, _, _ in chunks], axis=0)
    return sum(np.exp(m - top)[:, None] * o for m, _, o in chunks) / sum(l for _, l, _ in chunks)[:, None]


def upside_down(chunks: list[Triple]) -> Array:
    """Wrong: the inverse factor."""
    top = np.max([m for m, _, _ in chunks], axis=0)
    o = sum(np.exp(top - m)[:, None] * o for m, _, o in chunks)
    return o / sum(np.exp(top - m) * l for m, l, _ in chunks)[:, None]


def few_queries(query: Array, key: Array, value: Array, Cq: int, Ck: int) -> Array:
    """Wrong: the rest of the queries is left out."""
    whole = len(query) // Cq * Cq
    out = np.zeros((len(query), value.shape[1]))
    out[:whole] = attention_in_chunks(query[:whole], key, value, Cq, Ck)
    return out


def stacked(chunks: list[Triple]) -> Array:
    """Right, and every summary is held twice or three times."""
    m, l, o = (np.stack(part) for part in zip(*chunks))
    factor = np.exp(m - m.max(0))
    return (factor[..., None] * o).sum(0) / (factor * l).sum(0)[:, None]


def stacked_once(chunks: list[Triple]) -> Array:
    """Right, and every summary is held twice."""
    m, l, o = (np.stack(part) for part in zip(*chunks))
    factor = np.exp(m - m.max(0))
    return np.einsum("cn,cnd->nd", factor, o) / (factor * l).sum(0)[:, None]


def only_queries(query: Array, key: Array, value: Array, Cq: int, Ck: int) -> Array:
    """Right, and it holds Cq rows of scores."""
    return attention_in_chunks(query, key, value, Cq, len(key))


def only_queries_plainly(query: Array, key: Array, value: Array, Cq: int, Ck: int) -> Array:
    """Right, and it holds two or three arrays of Cq rows of scores."""
    rows = [safe(query[a : a + Cq], key, value) for a in range(0, len(query), Cq)]
    return np.concatenate(rows)


def safe(q: Array, key: Array, value: Array) -> Array:
    """Safe attention, written plainly."""
    s = q @ key.T / np.sqrt(q.shape[1])
    p = np.exp(s - s.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    return p @ value


def only_keys(query: Array, key: Array, value: Array, Cq: int, Ck: int) -> Array:
    """Right, and it holds the summaries of all queries."""
    return attention_in_chunks(query, key, value, len(query), Ck)


def whole(query: Array, key: Array, value: Array, Cq: int, Ck: int) -> Array:
    """Right, and it holds all scores."""
    return safe(query, key, value)


def together(query: Array, key: Array, value: Array, Cq: int, Ck: int) -> Array:
    """Right, and jax.vmap has all query chunks alive at once."""
    import jax
    import jax.numpy as jnp

    n, (m, d) = len(query), key.shape
    rows = jnp.pad(query, ((0, -n % Cq), (0, 0))).reshape(-1, Cq, d)
    seen = jnp.arange(-(-m // Ck) * Ck).reshape(-1, Ck) < m
    k, v = (jnp.pad(x, ((0, -m % Ck), (0, 0))).reshape(-1, Ck, x.shape[1]) for x in (key, value))

    def one(q: Array) -> Array:
        def part(chunk: Triple) -> Triple:
            k, v, seen = chunk
            s = jnp.where(seen, q @ k.T / d**0.5, -jnp.inf)
            top = s.max(1)
            p = jnp.exp(s - top[:, None])
            return p @ v, p.sum(1), top

        o, l, top = jax.lax.map(part, (k, v, seen))
        factor = jnp.exp(top - top.max(0))
        return jnp.einsum("cn,cnd->nd", factor, o) / (factor * l).sum(0)[:, None]

    return jax.vmap(one)(rows).reshape(-1, v.shape[2])[:n]


def cases() -> list[Case]:
    """One chunk, whole chunks, ragged chunks; the same data where only the chunks differ."""
    rng = np.random.default_rng(52)
    q, k, v = (2 * rng.normal(size=shape) for shape in ((5, 4), (10, 4), (10, 3)))
    order = rng.permutation(10)
    one = np.ones((1, 1))
    return [
        Case("ONE: one query, one key: the output is its value", (one, one, 3 * one, 1, 1)),
        Case("ONES: two chunks of two keys, every value is 1", (q[:2], k[:4], np.ones((4, 1)), 1, 2)),
        Case("two chunks of one key each, scores 0 and 2", (one, one * [[0], [2]], one * [[0], [1]], 1, 1)),
        Case("EYE: values are the identity, so the result is P; two chunks of two", (q[:2], k[:4], np.eye(4), 2, 2)),
        Case("RAGGED keys: 3 in chunks of 2, values the identity", (q[:1], k[:3], np.eye(3), 1, 2)),
        Case("RAGGED queries: 3 in chunks of 2", (q[:3], k[:4], v[:4], 2, 2)),
        Case("RAGGED: 10 keys in chunks of 4, 5 queries in chunks of 2", (q, k, v, 2, 4)),
        Case("BLOCK: the same in chunks of 3 queries and 7 keys", (q, k, v, 3, 7)),
        Case("PERM: the same with the keys in another order", (q, k[order], v[order], 3, 7)),
        Case("chunks longer than the sequences: 10 keys, Ck = 16; 5 queries, Cq = 8", (q, k, v, 8, 16)),
        Case("HIGH: scores of thousands", (40 * q, 40 * k, v, 2, 4)),
    ]


N, M, D, CQ, CK = 1024, 4096, 32, 128, 128
FORMULA = CQ * CK + CQ * (M // CK) * (D + 2)


def many(n: int) -> tuple:
    """Arguments of a call with n queries."""
    rng = np.random.default_rng(n)
    return rng.normal(size=(n, D)), rng.normal(size=(M, D)), rng.normal(size=(M, D)), CQ, CK

EXERCISE = Exercise(
    lesson="05",
    stars=2,
    reference=attention_in_chunks,
    cases=cases,
    costs=(
        Cost(
            peak(many, N, FORMULA), 2.5,
            "With 8 chunks of 128 queries and 32 chunks of 128 keys, Dv = 32, it held {found:.1f} times what eq. 5.7 "
            "gives for one chunk of queries; the limit is {limit} times.",
        ),
        Cost(
            peak(many, CQ, FORMULA), 1.5,
            "With a single chunk of 128 queries and 32 chunks of 128 keys, Dv = 32, it held {found:.1f} times what "
            "eq. 5.7 gives; the limit is {limit} times.",
        ),
    ),
    hints=(
        "Two loops. Outer: a slice of Cq queries. Inner: a list with the summary of each slice of Ck keys.",
        "range(0, M, Ck) gives the starts, and slices end by themselves: key[c : c + Ck] is shorter at the end.",
        "The common maximum is np.max([m for …], axis=0). Multiply each o and l by e^(m_c − m) (eq. 5.4).",
        "Add o_c to a running sum in a loop: np.stack(list_of_o) is a copy of all summaries, beside the list.",
    ),
    mistakes=(
        Mistake(
            "Your last chunk begins earlier so that it is full: keys that the chunk before has read are read again "
            "and vote twice. The last chunk must be shorter, or its surplus masked; see eq. 5.1 and section 8.",
            variant(clamped),
        ),
        Mistake(
            "M // Ck rounds down, so the keys after the last full chunk are never read. There are ⌈M / Ck⌉ chunks, the "
            "last one shorter (eq. 5.1).",
            variant(floored), variant(floored_once),
        ),
        Mistake(
            "You fill the last chunk up with zeros. A key of zeros has score 0, and e⁰ votes. Make the last chunk "
            "shorter, or give its surplus the score −∞ (eq. 5.1).",
            variant(padded),
        ),
        Mistake(
            "You average the outputs of the chunks as if all weighed the same. A chunk weighs as much as its share of "
            "the sum of exponentials, e^(m_c − m) l_c (eq. 5.5).",
            variant(combine=mean),
        ),
        Mistake(
            "You add sums that were taken relative to different maxima. Bring all chunks to one maximum first: "
            "multiply o_c and l_c by e^(m_c − m) (eq. 5.4).",
            variant(combine=unshifted),
        ),
        Mistake("You rescale o and not l. Both are sums of the same exponentials: the same factor (eq. 5.4).",
                variant(combine=half_shifted)),
        Mistake("Your factor is upside down: e^(m_c − m) is at most 1, as m is the largest of the m_c (eq. 5.4).",
                variant(combine=upside_down)),
        Mistake(
            "The queries after the last full chunk get no result. There are ⌈N / Cq⌉ chunks of queries (eq. 5.1).",
            few_queries,
        ),
        Mistake(
            "Only the queries are chunked: Cq rows of all M scores are alive, which doubles with the number of keys. "
            "Chunk the keys, too (eq. 5.7).",
            only_queries, only_queries_plainly,
        ),
        Mistake(
            "Only the keys are chunked: the summaries of all N queries are alive. Loop over chunks of queries, and "
            "write each result to its place before the next begins (eq. 5.7).",
            only_keys,
        ),
        Mistake("This is the standard formula: all N·M scores are alive. Chunk queries and keys (eq. 5.7).", whole),
        Mistake(
            "vmap does all query chunks at the same time, so the summaries of all of them are alive. Go through them "
            "one after the other, for example by jax.lax.map (eq. 5.7).",
            together,
        ),
        Mistake(
            "np.stack copies the summaries beside the list that holds them, so they are held twice, and their rescaled "
            "copies once more. Add them up in a loop (eq. 5.4).",
            variant(combine=stacked), variant(combine=stacked_once),
        ),
    ),
)
