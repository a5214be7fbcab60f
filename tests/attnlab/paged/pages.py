"""Sequences, laid out in pages."""

import numpy as np

from tests.support import oracle
from tests.support.libraries import dtype


class Paged:
    """Random sequences of given lengths in pages in random order; what belongs to nobody holds NaN or nonsense."""

    def __init__(
        self, lengths, n, *, size, hq=2, hk=2, d=8, dv=8, kind="float32", spare=2, width=None, magnitude=1.0, seed=0,
        **options,
    ):  # fmt: skip
        random = np.random.default_rng(seed)
        counts = [-(-length // size) for length in lengths]
        pages, width = sum(counts) + spare, max(counts, default=0) + 1 if width is None else width
        self.options, self.kind = options, dtype(kind)
        query = magnitude * random.normal(size=(len(lengths), hq, n, d))
        self.parts = []
        self.key_pages, self.value_pages = (np.full((pages, hk, size, x), np.nan) for x in (d, dv))
        self.block_table = random.choice([-1, 10**9, 2**31 - 1], size=(len(lengths), width)).astype(np.int32)
        taken = iter(random.permutation(pages))
        for row, length, count in zip(self.block_table, lengths, counts):
            row[:count] = [next(taken) for _ in range(count)]
            part = magnitude * random.normal(size=(hk, length, d)), random.normal(size=(hk, length, dv))
            self.parts.append(tuple(x.astype(self.kind).astype(float) for x in part))
            for t in range(length):
                self.key_pages[row[t // size], :, t % size] = self.parts[-1][0][:, t]
                self.value_pages[row[t // size], :, t % size] = self.parts[-1][1][:, t]
        self.query = query.astype(self.kind)
        self.lengths = np.array(lengths, np.int32)

    @property
    def arrays(self):
        """The arrays of a call, NumPy."""
        pages = (x.astype(self.kind) for x in (self.key_pages, self.value_pages))
        return self.query, *pages, self.block_table, self.lengths

    def expected(self):
        """out and lse in float64, each sequence by itself over keys that were never in pages; and a bound of scores."""
        found = [
            oracle.attention(np.asarray(query, float), key, value, causal=True, **self.options)
            for query, (key, value) in zip(self.query, self.parts)
        ]
        return [np.stack([getattr(one, name) for one in found]) for name in ("out", "lse", "size")]
