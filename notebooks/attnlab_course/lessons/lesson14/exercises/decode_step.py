"""Lesson 14, ★: one token of decoding with a preallocated cache."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Cost, Exercise, Function, Mistake, but
from attnlab_course.checker.fingerprints import far_queries, large_key
from attnlab_course.checker.library import precise, to_library, to_numpy
from attnlab_course.checker.promises import Measure, growth, peak

import numpy as np
from numpy import ndarray as Array

Step = tuple[Array, Array, Array]


def decode_step(q: Array, k: Array, v: Array, keys: Array, values: Array, t: int) -> Step:
    """Token t: q and k (D,), v (Dv,); keys (slots, D) and values (slots, Dv) hold t tokens → (out, keys, values)."""
    keys[t], values[t] = k, v
    s = keys[: t + 1] @ q / q.size**0.5
    p = np.exp(s - s.max())
    return p @ values[: t + 1] / p.sum(), keys, values


def call(t: int, capacity: int, d: int, dv: int = 0, times: float = 1.0, tail: float = np.nan) -> tuple:
    """Arguments for token t, EYE values if dv is 0; keys are multiplied by ``times``, slots from t on hold ``tail``."""
    rng = np.random.default_rng(t + 100 * capacity)
    keys = times * rng.normal(size=(capacity, d))
    values = rng.normal(size=(capacity, dv)) if dv else np.eye(capacity)
    q, k, v = rng.normal(size=d), keys[t].copy(), values[t].copy()
    keys[t:] = values[t:] = tail
    return q, k, v, keys, values, t


def cases() -> list[Case]:
    """From the first token to the last slot; NaN, or old numbers, in slots that are not filled."""
    q, k, v, keys, values, t = call(5, 9, 4, 3)
    keys[t] = k
    large, larger = large_key(q[None], keys, t)
    newest, newer = (large[0], larger[t]), (larger, values)
    alone = call(300, 512, 4, 3)
    alone[0][:], alone[1][0] = (2.0, 0.0, 0.0, 0.0), 0.0
    alone[3][:300, 0] = 0.0
    alone[3][7, 0] = 8.0
    return [
        Case("POISON: the first token, t = 0, of two slots; NaN where nothing is kept yet", call(0, 2, 1)),
        Case("EYE, POISON: t = 1 of four slots, the values are the identity", call(1, 4, 2)),
        Case("EYE: t = 3 of six slots; those behind it hold 5, from another text", call(3, 6, 2, 0, 1.0, 5.0)),
        Case("POISON: t = 5 of nine slots, D = 4, Dv = 3", call(5, 9, 4, 3)),
        Case("the last slot: t = 7 of eight, D = 4, Dv = 3", call(7, 8, 4, 3)),
        Case("GROW: keys 1000 times as large, t = 5 of nine slots", call(5, 9, 4, 3, 1000.0)),
        *far_queries(lambda q, keys: (q[0], keys[t], v, keys, values, t), q[None], keys, "; t = 5 of nine slots"),
        Case("HIGH: the new key alone has a score near 100000; t = 5 of nine slots", (*newest, v, *newer, t)),
        Case("t = 300 of 512 slots: one old key has a score of 8, all others have 0", alone),
        Case("t = 700 of 1024 slots, D = 16, Dv = 8", call(700, 1024, 16, 8)),
    ]


def copies(answer: Function, library: str) -> float | None:
    """How many of the two arrays that come back are not those that were given, in double or single precision; in JAX
    the compiler decides."""
    if library == "jax":
        return None
    with precise(library):
        found = 0
        for dtype in (np.float64, np.float32):
            args = to_library((*(x.astype(dtype) for x in call(5, 64, 4, 3)[:5]), 5), library)
            _, *kept = answer(*args)
            found = max(found, sum(not np.shares_memory(to_numpy(x), to_numpy(y)) for x, y in zip(kept, args[3:5])))
    return found


def beside(measure: Measure) -> Measure:
    """A measure of memory in which the two arrays are no result; in JAX the compiler decides what is copied."""
    return lambda answer, library: None if library == "jax" else measure(lambda *args: answer(*args)[0], library)


WRITE, SEEN = "keys[t], values[t] = k, v", "[: t + 1]"

EXERCISE = Exercise(
    lesson="14", stars=1, reference=decode_step, where="eq. 14.2", cases=cases, writes=(3, 4),
    hints=(
        "Two things happen: the new key and value go to slot t, and then the query meets the filled slots.",
        "Write first. Now slots 0 … t are filled, so use keys[: t + 1]; what comes after can be anything: eq. 14.2.",
        "The rest is one row of safe attention, scale 1/√D. Return the output and the two arrays you were given. In "
        "JAX: keys.at[t].set(k).",
    ),
    without={"q.size ** 0.5": phrases.unscaled("eq. 14.2"), "s.max()": phrases.unshifted("lesson 02, section 2")},
    mistakes=(
        Mistake("A query doesn't see its own key. The comparison is ≤, not <: query t sees j ≤ t, appended first (eq. "
                "14.2).",
                but(SEEN, "[:t]"), but(SEEN, "[: max(t, 1)]")),
        Mistake("You read slots that aren't filled. A preallocated cache has capacity slots, of which 0 … t are "
                "filled; NaN in the others shows that you read them: eq. 14.2.",
                but(SEEN, ""),
                but("@ values[: t + 1]", "@ values", "s = keys[: t + 1] @ q / q.size**0.5",
                    "s = np.where(np.arange(len(keys)) <= t, keys @ q / q.size**0.5, -np.inf)")),
        Mistake("You write into the wrong slot. Tokens are counted from 0, so t tokens fill slots 0 … t − 1, and the "
                "new one goes to slot t: eq. 14.2.",
                but(WRITE, "keys[(t + 1) % len(keys)], values[(t + 1) % len(keys)] = k, v"),
                but(WRITE, "keys[t - 1], values[t - 1] = k, v"),
                but(WRITE, "keys[max(t - 1, 0)], values[max(t - 1, 0)] = k, v")),
        Mistake("You don't keep what's new: the cache you return lacks token t's key, its value, or both, and the next "
                "query will miss it (eq. 14.2).",
                but(WRITE, "old, olds = keys.copy(), values.copy(); keys[t], values[t] = k, v", "keys, values\n",
                    "old, olds\n"),
                but(WRITE, "keys[t] = k"), but(WRITE, "values[t] = v")),
        Mistake("You make a new cache at every step, by concatenation or by a copy. That moves all that was there, "
                "although only one slot is new (section 2): write into slot t of the arrays you were given, eq. 14.2.",
                but(WRITE, "keys, values = np.concatenate([keys[:t], k[None]]), np.concatenate([values[:t], v[None]])"),
                but(WRITE, "keys, values = keys.copy(), values.copy(); keys[t], values[t] = k, v")),
    ),
    costs=(
        Cost(copies, 0, "of the two arrays that come back, {found:.0f} are others than those that were given: the "
             "whole cache is copied at every step."),
        Cost(beside(growth(lambda slots: call(100, slots, 64, 64), 256, 4096)), 1.5, "its memory grew {found:.1f}× "
             "with 4096 slots in place of 256, for the same 100 tokens: it reads slots that are not filled."),
        Cost(beside(peak(lambda slots: call(700, slots, 64, 64), 1024, 701 * 64)), 1.5, "with 700 tokens it held "
             "{found:.1f} times the size of all their keys beside the cache: the old ones are copied at every step."),
    ),
)
