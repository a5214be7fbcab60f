"""Lesson 10, ★★: which weights of a tile dropout keeps, the same for every tiling."""

import gc
import tracemalloc

from attnlab.core.dropout.numpy import threefry
from attnlab_course.checker.exercise import Case, Cost, Exercise, Function, Mistake, but

import numpy as np


def keep_mask(seed: int, head: int, i: np.ndarray, j: np.ndarray, p: float | int) -> np.ndarray:
    """Boolean (R, C), True = kept: queries at positions i (R,), keys at positions j (C,); a fraction p is dropped."""
    rows, cols = np.uint32(i)[:, None], np.uint32(j)
    words = threefry(np.uint32(seed), np.uint32([[head]]), rows, cols)
    return words >= np.uint64(round(p * 2**32))  # eq. 10.9


def cases() -> list[Case]:
    """Single positions, tiles that overlap, other heads and seeds, all and nothing dropped."""
    i, j = tile = np.arange(3, 7), np.arange(8, 14)
    first = np.arange(4), np.arange(6)
    word = int(threefry(np.uint32(7), np.uint32([[5]]), np.uint32([[3]]), np.uint32([9]))[0, 0])
    top = 542_367, 0, np.arange(4, 8), np.arange(20, 24)
    return [
        Case("ONE: seed 7, head 5, query 3, key 9", (7, 5, i[:1], j[1:2], 0.5)),
        Case("the tile that begins at query 0 and key 0", (7, 5, *first, 0.5)),
        Case("BLOCK: the tile of queries 3 to 6 and keys 8 to 13", (7, 5, *tile, 0.5)),
        Case("BLOCK: the same positions in another tile, from query 2 on", (7, 5, i - 1, j, 0.5)),
        Case("another head", (7, 6, *tile, 0.5)),
        Case("another seed", (8, 5, *tile, 0.5)),
        Case("p is the word of query 3 and key 9, divided by 2³²: a word equal to p·2³² is kept",
             (7, 5, i[:2], j[1:3], word / 2**32)),
        Case("p is that word plus 1, divided by 2³²: a word one below p·2³² is dropped",
             (7, 5, i[:2], j[1:3], (word + 1) / 2**32)),
        Case("p = 0: nothing is dropped", (7, 5, *first, 0.0)),
        Case("p = 1: everything is dropped", (7, 5, *first, 1.0)),
        Case("TOP: p = 1, and query 6 and key 22 have the largest word, 2³² − 1", (*top, 1.0)),
        Case("TOP: p = 1 − 2⁻³², and of the same positions the one with the largest word is kept", (*top, 1 - 2**-32)),
        Case("p = 0.1, a tile of 40 by 50, far down", (2**32 - 1, 0, np.arange(250, 290), np.arange(50), 0.1)),
        Case("head 256", (7, 256, *first, 0.5)),
        Case("queries from 65536 on", (7, 5, 2**16 + first[0], first[1], 0.5)),
        Case("keys from 65536 on", (7, 5, first[0], 2**16 + first[1], 0.5)),
    ]


def stored(answer: Function, library: str) -> float | None:
    """Bytes that are held after the calls for eight tiles, for each of their weights."""
    if library != "numpy":
        return None
    tiles = [(7, 5, np.arange(32) + 32 * t, np.arange(16), 0.5) for t in range(8)]
    answer(*tiles[0])  # a first call also allocates what is kept for good
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for tile in tiles:
            answer(*tile)
        gc.collect()
        return (tracemalloc.get_traced_memory()[0] - before) / (8 * 32 * 16)
    finally:
        tracemalloc.stop()


DRAWN = "words >= np.uint64(round(p * 2**32))", "np.random.default_rng(seed).random((len(i), len(j))) >= p"
KEY = "np.uint32(seed), np.uint32([[head]])"

EXERCISE = Exercise(
    lesson="10", stars=2, reference=keep_mask, where="eq. 10.9", cases=cases,
    hints=(
        "Eq. 10.9: a weight is kept where its word is at least p·2³². threefry of section 5 computes the words.",
        "threefry(seed, head, i, j) broadcasts: give it i[:, None]. i and j count in the whole matrix.",
        "p = 1 needs the threshold 2³², which no uint32 can hold: compare with np.uint64(round(p * 2**32)).",
    ),
    mistakes=(
        Mistake("You draw from a generator that's seeded per tile, so a different tiling drops different weights. "
                "Compute each from its own position (i, j): eq. 10.9.",
                *(but(*DRAWN, "rng(seed)", f"rng({s})") for s in
                  ("seed", "seed + head", "[seed, head]", "[seed, head, i[0], j[0]]", "[seed, i[0], j[0]]"))),
        Mistake("You number the positions within the tile, so a different tiling drops different weights. The counter "
                "is a pair, the query and the key, counted in the whole matrix (eq. 10.9).",
                but("(i)", "(range(len(i)))", "(j)", "(range(len(j)))"),
                but("(i)", "(i - i.min())", "(j)", "(j - j.min())"),
                but("rows, cols)", "np.uint32([[0]]), rows * np.uint32(len(j)) + cols)")),
        Mistake("Which weights are kept is the wrong way around. True means kept, p is the fraction that's dropped, "
                "and the forward pass keeps the words at or above p·2³², not those below (1 − p)·2³² (eq. 10.9).",
                but(">=", "<"), but("round(p", "round((1 - p)"), but(">=", "<", "round(p", "round((1 - p)")),
        Mistake("The key is the pair (seed, head), in this order. Without the head, all heads drop the same; if you "
                "add the two, head 6 with seed 7 drops what head 7 with seed 6 does (eq. 10.9).",
                but("[[head]]", "[[0]]"), but(KEY, "np.uint32(seed ^ head), np.uint32([[0]])"),
                but(KEY, "np.uint32((seed + head) % 2**32), np.uint32([[0]])"),
                but(KEY, "np.uint32(head), np.uint32([[seed]])")),
        Mistake("With p = 1, the threshold is 2³², one more than the largest 32-bit number. Compare with a 64-bit "
                "number; then no word reaches it, and everything is dropped (eq. 10.9).",
                but("uint64", "uint32"), but("uint64(round(p * 2**32))", "uint64(round(p * 2**32) % 2**32)"),
                but("round(p * 2**32)", "min(round(p * 2**32), 2**32 - 1)")),
    ),
    costs=(
        Cost(stored, 0.5, "After the calls for eight tiles it holds {found:.1f} bytes for each of their weights. "
             "Nothing is stored: a word is computed anew from seed, head and position (eq. 10.9)."),
    ),
)
