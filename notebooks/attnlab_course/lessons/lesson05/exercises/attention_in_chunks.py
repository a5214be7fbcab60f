"""Lesson 05, ★★: attention in chunks of queries and of keys, with ragged ends, in little memory."""

from functools import partial

import attnlab
from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Cost, Exercise, Mistake, but
from attnlab_course.checker.fingerprints import far_queries, last_key
from attnlab_course.checker.operations import exponentials_at_once
from attnlab_course.checker.promises import peak

import numpy as np

Array = np.ndarray
Triple = tuple[Array, Array, Array]


def attention_in_chunks(query: Array, key: Array, value: Array, Cq: int, Ck: int) -> Array:
    """Attention of query (N, D), key (M, D), value (M, Dv) in chunks of Cq queries and Ck keys."""

    def attend(q: Array) -> Array:
        chunks = [summary(q, key[c : c + Ck], value[c : c + Ck]) for c in range(0, len(key), Ck)]
        top = np.max([m for m, _, _ in chunks], axis=0)
        o = sum(np.exp(m - top)[:, None] * o for m, _, o in chunks)  # eq. 5.4
        l = sum(np.exp(m - top) * l for m, l, _ in chunks)
        return o / l[:, None]

    out = np.empty((len(query), value.shape[1]))
    for a in range(0, len(query), Cq):
        out[a : a + Cq] = attend(query[a : a + Cq])
    return out


def summary(q: Array, k: Array, v: Array) -> Triple:
    """(m, l, o) of a chunk, with one array of scores."""
    s = q @ k.T
    s /= np.sqrt(q.shape[1])
    m = s.max(1)
    s -= m[:, None]
    np.exp(s, out=s)
    return m, s.sum(1), s @ v


def safe(q: Array, key: Array, value: Array) -> Array:
    """Safe attention, with all scores of q alive."""
    s = q @ key.T / np.sqrt(q.shape[1])
    p = np.exp(s - s.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    return p @ value


def together(query: Array, key: Array, value: Array, Cq: int, Ck: int) -> Array:
    """Right, and jax.vmap has all query chunks alive at once."""
    import jax
    import jax.numpy as jnp

    n, (m, d) = len(query), key.shape

    def one(q: Array, chunks: Triple) -> Array:
        def part(chunk: Triple) -> Triple:
            k, v, seen = chunk
            s = jnp.where(seen, q @ k.T / d**0.5, -jnp.inf)
            top = s.max(1)
            p = jnp.exp(s - top[:, None])
            return p @ v, p.sum(1), top

        o, l, top = jax.lax.map(part, chunks)
        factor = jnp.exp(top - top.max(0))
        return jnp.einsum("cn,cnd->nd", factor, o) / (factor * l).sum(0)[:, None]

    @jax.jit  # compiled once a case, not once an operation
    def attend(query: Array, key: Array, value: Array) -> Array:
        rows = jnp.pad(query, ((0, -n % Cq), (0, 0))).reshape(-1, Cq, d)
        k, v = (jnp.pad(x, ((0, -m % Ck), (0, 0))).reshape(-1, Ck, x.shape[1]) for x in (key, value))
        seen = jnp.arange(k.shape[0] * Ck).reshape(-1, Ck) < m
        return jax.vmap(one, (0, None))(rows, (k, v, seen)).reshape(-1, v.shape[2])[:n]

    return attend(query, key, value)


def exchanged(query: Array, key: Array, value: Array, Cq: int, Ck: int) -> Array:
    """The package's attention, with its sizes exchanged."""
    return attnlab.chunked_attention(query, key, value, query_chunk_size=Ck, key_chunk_size=Cq)


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
        Case("a score of 0, then 400 of −7.5: together they weigh 0.22",
             (one, np.array([[0.0], *[[-7.5]] * 400]), np.array([[1.0], *[[0.0]] * 400]), 1, 40)),
        Case("HIGH, LOW: scores of thousands, of either sign", (40 * q, 40 * k, v, 2, 4)),
        *far_queries(lambda q, k: (q, k, v, 2, 4), q, k, "; the same chunks"),
        last_key(lambda q, k: (q, k, v, 2, 4), q, k, "; the same chunks"),
    ]


N, M, D, CQ, CK = 256, 4096, 32, 32, 128
BEST = 373  # √(M (D + 2))


def formula(ck: int) -> int:
    """Numbers held by eq. 5.7."""
    return CQ * (ck + -(-M // ck) * (D + 2))


def many(n: int, ck: int = CK) -> tuple:
    """Arguments of a call with n queries."""
    rng = np.random.default_rng(n)
    return rng.normal(size=(n, D)), rng.normal(size=(M, D)), rng.normal(size=(M, D)), CQ, ck


def single() -> tuple:
    """Arguments of a call with two queries, one at a time, and 1024 keys in chunks of 64."""
    query, key, value, _, _ = many(2)
    return query, key[:1024], value[:1024], 1, 64


KEYS, QUERIES = "range(0, len(key), Ck)", "range(0, len(query), Cq)"
ADD_O = "sum(np.exp(m - top)[:, None] * o for m, _, o in chunks)"
STACKED = (
    "top = np.max([m for m, _, _ in chunks], axis=0)",
    "m, l, o = (np.stack(x) for x in zip(*chunks)); factor = np.exp(m - m.max(0))",
    "sum(np.exp(m - top) * l for m, l, _ in chunks)", "(factor * l).sum(0)",
)

EXERCISE = Exercise(
    lesson="05", stars=2, reference=attention_in_chunks, cases=cases,
    costs=(
        Cost(
            peak(many, CQ, formula(CK)), 1.7,
            "With a single chunk of 32 queries and 32 chunks of 128 keys, Dv = 32, it held {found:.1f} times what "
            "eq. 5.7 gives; the limit is {limit} times. Most of it is summaries: don't copy them (np.stack does).",
        ),
        Cost(
            peak(partial(many, ck=BEST), CQ, formula(BEST)), 2.1,
            "With a single chunk of 32 queries and chunks of 373 keys, the best size by eq. 5.8, it held {found:.1f} "
            "times what eq. 5.7 gives; the limit is {limit} times. More than three arrays as large as a "
            "tile are alive: a loop keeps those of the last round until it overwrites them.",
        ),
        Cost(
            peak(many, N, formula(CK)), 2.5,
            "With 8 chunks of 32 queries and 32 chunks of 128 keys, Dv = 32, it held {found:.1f} times what eq. 5.7 "
            "gives for one chunk of queries; the limit is {limit} times. Drop the "
            "summaries of one chunk of queries before you make those of the next.",
        ),
        Cost(
            exponentials_at_once(single, 64), 1.5,
            "With chunks of one query and of 64 keys it computed {found:.1f} × 64 exponentials at once: does it read "
            "Cq queries and Ck keys at a time?",
        ),
    ),
    hints=(
        "Two loops. Outer: a slice of Cq queries. Inner: a list with the summary of each slice of Ck keys.",
        "range(0, M, Ck) gives the starts, and slices end by themselves: key[c : c + Ck] is shorter at the end.",
        "The common maximum is np.max([m for …], axis=0). Multiply each o and l by e^(m_c − m) (eq. 5.4).",
        "Add o_c to a running sum in a loop: np.stack(list_of_o) is a copy of all summaries, on top of the list.",
    ),
    mistakes=(
        Mistake("Your last chunk begins earlier to be full, so keys from the chunk before are read again and count "
                "twice. The last chunk must be shorter, or its surplus masked; see eq. 5.1 and section 8.",
                but(KEYS, f"[min(c, max(len(key) - Ck, 0)) for c in {KEYS}]")),
        Mistake(phrases.last_one("eq. 5.1", what="The keys", block="chunk"),
                but(KEYS, "range(0, len(key) // Ck * Ck, Ck)"), but(KEYS, "range(0, max(len(key) // Ck, 1) * Ck, Ck)")),
        Mistake(phrases.hidden_zero("eq. 5.1", what="The keys of zeros that pad the last chunk"),
                but("out =", "key, value = (np.pad(x, ((0, -len(x) % Ck), (0, 0))) for x in (key, value)); out =")),
        Mistake(phrases.averages("eq. 5.5"),
                but("o / l[:, None]", "np.mean([o / l[:, None] for _, l, o in chunks], axis=0)")),
        Mistake(phrases.different_maxima("eq. 5.4"),
                but("np.exp(m - top) * l", "l", "np.exp(m - top)[:, None] * o", "o")),
        Mistake(phrases.rescales_one("eq. 5.4", one="o", other="l"), but("np.exp(m - top) * l", "l")),
        Mistake(phrases.upside_down("eq. 5.4", factor="e^(m_c − m)"), but("m - top", "top - m")),
        Mistake(phrases.one_maximum("eq. 5.3"), but("axis=0", "axis=None")),
        Mistake(phrases.last_one("eq. 5.1", what="The queries", block="chunk"),
                but("np.empty", "np.zeros", QUERIES, "range(0, len(query) // Cq * Cq, Cq)")),
        Mistake("You chunk only the queries: Cq rows of all M scores are alive, and they double with the number of "
                "keys. Chunk the keys, too (eq. 5.7).",
                but("out = np", "Ck = len(key); out = np"),
                but("attend(query[a : a + Cq])", "safe(query[a : a + Cq], key, value)")),
        Mistake("You chunk only the keys: the summaries of all N queries are alive. Loop over chunks of queries, and "
                "write each result to its place before the next begins (eq. 5.7).",
                but("out = np", "Cq = len(query); out = np")),
        Mistake(phrases.starts_at_number("eq. 5.2"),
                *(but("np.max([m for", f"np.max([0 * chunks[0][0] + {start}] + [m for")
                  for start in ("0", "-1e3", "-1e4"))),
        Mistake("You've swapped Cq and Ck: queries are cut into chunks of Cq, keys of Ck (eq. 5.1). The values are "
                "right, but the memory is that of the swapped sizes (eq. 5.7).",
                but("out = np", "Cq, Ck = Ck, Cq; out = np"), exchanged),
        Mistake(phrases.all_scores("eq. 5.7", piece="chunk of queries and one of keys"),
                but("out = np", "Cq = len(query); out = np", "attend(query[a : a + Cq])", "safe(query, key, value)")),
        Mistake("vmap processes all query chunks at the same time, so the summaries of all of them are alive. Go "
                "through them one at a time, for example with jax.lax.map (eq. 5.7).",
                together),
        Mistake("np.stack copies the summaries while the list still holds them, so they're held twice, and their "
                "rescaled copies once more. Add them up in a loop (eq. 5.4).",
                but(*STACKED, ADD_O, "(factor[..., None] * o).sum(0)"),
                but(*STACKED, ADD_O, "np.einsum('cn,cnd->nd', factor, o)")),
    ),
)
