"""Lesson 19, ★★: the keys of a sequence, read through its table."""

from attnlab.check.exercise import Case, Cost, Exercise, Mistake, but
from attnlab.check.promises import growth

import numpy as np
from numpy import ndarray as Array


def gather(table: Array, length: int, pages: Array) -> Array:
    """The keys (length, D) of a sequence in the order of its tokens, from ``pages`` (P, S, D).

    ``table`` (T,): the pages of the sequence in order; entries beyond those that ``length`` tokens need may be
    anything, and so may pages and places that are not the sequence's.
    """
    size = pages.shape[1]
    used = table[: -(-length // size)]
    return pages[used].reshape(-1, pages.shape[2])[:length]  # eq. 19.2


def pool(
    length: int, size: int, entry: int = 10**9, other: float = np.nan, first: float = 0
) -> tuple[Array, int, Array]:
    """Pages in random order, ``other`` in what belongs to nobody, ``entry`` in the rest of the table.

    The first number of the first key is ``first``.
    """
    spare, width = 3, 3
    rng = np.random.default_rng(length + size)
    count = -(-length // size)
    pages = np.full((count + spare, size, width), other)
    table = np.full(count + spare, entry)
    table[:count] = rng.permutation(count + spare)[:count]
    for t in range(length):
        pages[table[t // size], t % size] = first + 10 * t + np.arange(width)
    return table, length, pages


def cases() -> list[Case]:
    """Lengths of S − 1, S and S + 1 tokens, several blocks, no token; NaN in what is not the sequence's."""
    return [
        Case("ONE: one token, pages of 4", pool(1, 4)),
        Case("S − 1 = 3 tokens, pages of 4", pool(3, 4)),
        Case("S = 4 tokens, pages of 4: one page, and no more", pool(4, 4)),
        Case("S + 1 = 5 tokens, pages of 4: a second page", pool(5, 4)),
        Case("18 tokens, pages of 4", pool(18, 4)),
        Case("12 tokens, pages of 3, −1 in the rest of the table", pool(12, 3, entry=-1)),
        Case("6 tokens, pages of one token", pool(6, 1)),
        Case("5 tokens, pages of 4, other numbers behind the last one", pool(5, 4, other=7.5)),
        Case("5 tokens, pages of 4, and the same table as before: other keys are written", pool(5, 4, first=0.5)),
        Case("18 tokens, the same table, other keys", (*pool(18, 4)[:2], 1000 + pool(18, 4)[2])),
        Case("EMPTY: no token", pool(0, 4)),
    ]


def many(pages: int) -> tuple[Array, int, Array]:
    """A sequence of four pages in a pool of any size."""
    return np.array([3, 1, 2, 0]), 60, np.zeros((pages, 16, 8))


def long_table(entries: int) -> tuple[Array, int, Array]:
    """A sequence of four pages, and a table of any length."""
    table = np.zeros(entries, int)
    table[:4] = 3, 1, 2, 0
    return table, 60, np.zeros((4, 16, 64))


READ = "pages[used].reshape(-1, pages.shape[2])"

EXERCISE = Exercise(
    lesson="19", stars=2, reference=gather, cases=cases, dtype=True,
    hints=(
        "Which entries of the table are the sequence's? As many as its tokens need: ⌈length / S⌉.",
        "pages[entries] has the pages in the order of the table, (blocks, S, D). Eq. 19.2 read backwards: which row is "
        "token t?",
        "Put the rows of all blocks one after another, reshape(−1, D), and cut at `length`: of the last block only a "
        "part is filled.",
    ),
    mistakes=(
        Mistake("You use one entry of the table too many. If the length is a multiple of the page, that entry is not "
                "the sequence's and may be anything: ⌈length / S⌉ entries, eq. 19.2.",
                but("-(-length // size)", "length // size + 1"), but("[: -(-length // size)]", "[:]")),
        Mistake("You lose the last page when it is partly filled: ⌈length / S⌉ entries, eq. 19.2.",
                but("-(-length // size)", "length // size")),
        Mistake("You return the whole last page. Behind the last token are places that nobody has written: cut at "
                "`length`, eq. 19.2.",
                but("[:length]", "[:]")),
        Mistake("You read the pages in the order in which they lie in memory, and not in the order of the table: "
                "eq. 19.2.",
                but("pages[used]", "pages[: len(used)]"),
                but(READ + "[:length]", "pages.reshape(-1, pages.shape[2])[np.sort(np.repeat(size * used, size)"
                    "[:length] + np.arange(length) % size)]")),
        Mistake("You have sorted the table. Its order is the order of the tokens: eq. 19.2.",
                but("pages[used]", "pages[np.sort(used)]")),
        Mistake("You take an entry of the table for the number of a slot. It is a page, of S slots: S · table[t // S] "
                "+ t mod S, eq. 19.2.",
                but(READ, "pages.reshape(-1, pages.shape[2])[np.repeat(used, size) + np.arange(len(used) * size) "
                    "% size]")),
        Mistake("Your rows go through the first places of all pages, then the second ones. Token t is in block t // S "
                "at place t mod S, and not the other way round: eq. 19.2.",
                but(READ, "pages[used].swapaxes(0, 1).reshape(-1, pages.shape[2])")),
        Mistake("You copy the whole pool, the pages of all other sequences too, to read one sequence. Pick the pages "
                "first, section 3.",
                but(READ, "np.concatenate([*pages]).reshape(pages.shape)[used].reshape(-1, pages.shape[2])")),
        Mistake("You read a page for every entry of the table, and then cut. Only the first ⌈length / S⌉ entries are "
                "the sequence's: eq. 19.2.",
                but("table[: -(-length // size)]", "np.clip(table, 0, len(pages) - 1)")),
        Mistake("Your rows are as many as the places without NaN. How many there are says `length`; what stands in "
                "other places may be any number: eq. 19.2.",
                but(READ, "np.array([x for x in pages[used].reshape(-1, pages.shape[2]) if not np.isnan(x).any()])"
                    ".reshape(-1, pages.shape[2])", "[:length]", "[:]")),
        Mistake("Page and place are exchanged: token t is in page table[t // S] at place t mod S, eq. 19.2.",
                but(READ + "[:length]", "np.array([pages[table[t % size], t // size] for t in range(length)])"
                    ".reshape(length, pages.shape[2])")),
        Mistake("You count with pages of 16 tokens. How many they have is pages.shape[1]: eq. 19.2.",
                but(READ + "[:length]", "np.array([pages[table[t // 16], t % 16] for t in range(length)])"
                    ".reshape(length, pages.shape[2])")),
    ),
    costs=(
        Cost(growth(many, 64, 1024), 1.1, "its memory grew {found:.1f}× when the pool had 16 times as many pages, and "
             "the sequence was the same."),
        Cost(growth(long_table, 4, 1024), 20, "its memory grew {found:.1f}× when the table had 1,024 entries in place "
             "of 4, and the sequence was the same."),
    ),
)
