"""A sequence, cut for the ranks of a ring, and what one device makes of it."""

import functools

import numpy as np

from attnlab.ring import Schedule, positions, shard, unshard
from tests.support import oracle
from tests.support.libraries import dtype

ANSWERS = {}


def answer(name, **arguments):
    """What the oracle says, once for all ranks and layouts."""
    key = name, *((k, x.tobytes() if isinstance(x, np.ndarray) else x) for k, x in arguments.items())
    if key not in ANSWERS:
        ANSWERS[key] = getattr(oracle, name)(**arguments)
    return ANSWERS[key]


class Sequence:
    """Random queries, keys and values of ``length`` tokens: batch 2, 4 heads on 2, D = 8, Dv = 5."""

    def __init__(self, length, devices, layout="contiguous", *, kind="float64", magnitude=1.0, **options):
        random = np.random.default_rng(length)
        self.length, self.devices, self.layout, self.options = length, devices, layout, options
        shapes = {"query": (2, 4, length, 8), "key": (2, 2, length, 8), "value": (2, 2, length, 5)}
        self.whole = {name: random.normal(size=shape) for name, shape in shapes.items()}
        self.whole["query"] *= magnitude
        self.dout, self.dlse = random.normal(size=(2, 4, length, 5)), random.normal(size=(2, 4, length))
        self.whole = {name: x.astype(dtype(kind)) for name, x in self.whole.items()}
        self.dout = self.dout.astype(dtype(kind))
        self.dlse = self.dlse.astype("float64" if kind == "float64" else "float32")

    def shards(self, x, axis=-2):
        """The shards of an array, NaN where they hold no token."""
        found = shard(x, self.devices, self.layout, axis=axis)
        for one, slots in zip(found, positions(self.length, self.devices, self.layout)):
            one[(..., np.array(slots, int) == -1, *[slice(None)] * (-1 - axis))] = np.nan
        return found

    @functools.cached_property
    def arrays(self):
        """Shards of query, key and value, one list each."""
        return [self.shards(x) for x in self.whole.values()]

    @functools.cached_property
    def cotangents(self):
        """Shards of dout and dlse."""
        return [self.shards(self.dout), self.shards(self.dlse, -1)]

    def joined(self, shards, axis=-2):
        """The tokens of all shards in their order; padding must be as an empty row is."""
        slots = [np.array(slots, int) == -1 for slots in positions(self.length, self.devices, self.layout)]
        empty = {0.0, -np.inf} if axis == -1 else {0.0}
        for one, padding in zip(shards, slots):
            assert set(np.unique(np.compress(padding, one, axis))) <= empty
        return unshard(list(shards), self.length, self.layout, axis=axis)

    def expected(self):
        """out and lse of the definition, in float64."""
        return answer("attention", **self.whole, **self.options)[:2]

    def gradients(self):
        """dq, dk and dv of the definition."""
        return answer("gradients", **self.whole, dout=self.dout, dlse=self.dlse, **self.options)[:3]

    @property
    def schedule(self):
        """The ring of the call."""
        left, right = oracle.sides(self.options.get("window"))
        right = right if not self.options.get("causal") else 0
        return Schedule(self.length, self.devices, self.layout, left, right)
