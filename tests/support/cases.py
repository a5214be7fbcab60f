"""The calls that every algorithm of every library must answer alike, drawn from a seed per case."""

import zlib
from dataclasses import dataclass, field

import numpy as np

from tests.support import oracle
from tests.support.libraries import STORE, accumulation, dtype, to, view

CASES = {}


@dataclass(frozen=True, eq=False)
class Case:
    """One call. ``stored`` holds the arrays as they lie in memory, NumPy, in their final dtype."""

    name: str
    stored: dict
    options: dict
    layout: str = "contiguous"
    sizes: tuple = (3, 4)
    safe_only: bool = False
    answer: list = field(default_factory=list)

    def arrays(self, library):
        """query, key, value and where given mask and bias, as arrays of the library in the case's layout."""
        return {name: self.array(library, name, x) for name, x in self.stored.items()}

    def array(self, library, name, x):
        """One array; a mask or bias of fewer than 2 axes has no layout to speak of."""
        x = to(library, x)
        return view(x, self.layout) if name in ("query", "key", "value") or x.ndim > 2 else x

    def expected(self):
        """The oracle's answer, computed once."""
        if not self.answer:
            with np.errstate(all="ignore"):
                self.answer.append(oracle.attention(**self.arrays("numpy"), **self.options))
        return self.answer[0]

    def cotangents(self):
        """Gradients by out and lse that a loss could send back, NumPy, in the dtypes of out and lse."""
        random = np.random.default_rng(len(self.name))
        expected, kind = self.expected(), self.stored["query"].dtype
        dlse = random.normal(size=expected.lse.shape).astype(accumulation(kind.name))
        return random.normal(size=expected.out.shape).astype(kind), dlse


def make(name, shape=(2, 4, 7, 5), m=10, hk=None, dv=3, kind="float32", draw=None, hurt=None, **rest):
    """Add a case: query of ``shape``, key and value with M = m, Hk = hk and Dv = dv.

    ``draw(random, shape)`` draws query and key; ``hurt(arrays)`` changes them afterward. Options that
    are functions are drawn with the case's random numbers.
    """
    random = np.random.default_rng(zlib.crc32(name.encode()))
    draw = draw or (lambda random, shape: random.normal(size=shape))
    *batch, n, d = shape
    heads = (*batch[:-1], batch[-1] if hk is None else hk) if batch else ()
    stored = {"query": draw(random, shape), "key": draw(random, (*heads, m, d))}
    stored["value"] = random.normal(size=(*heads, m, dv))
    stored = {key: x.astype(dtype(kind)) for key, x in stored.items()}
    fields = {key: rest.pop(key) for key in ("layout", "sizes", "safe_only") if key in rest}
    for key in ("mask", "bias", "query_segments", "key_segments"):
        if key in rest:
            stored[key] = np.asarray(rest.pop(key)(random))
    if hurt is not None:
        hurt(stored)
    layout = fields.get("layout", "contiguous")
    stored = {k: STORE[layout](x) if k in ("query", "key", "value") or x.ndim > 2 else x for k, x in stored.items()}
    assert name not in CASES, f"two cases are named {name}"
    CASES[name] = Case(name, stored, rest, **fields)


def mask(*shape, share=0.6):
    """A random mask."""
    return lambda random: random.random(shape) < share


def bias(*shape, kind="float32", hide=0.0):
    """A random bias, −∞ with chance ``hide``."""

    def draw(random):
        x = 2 * random.normal(size=shape)
        return np.where(random.random(shape) < hide, -np.inf, x).astype(dtype(kind))

    return draw


def given(x, kind=None):
    """This very mask or bias."""
    return lambda random: np.asarray(x, kind and dtype(kind))


def whole(low, high):
    """Draws whole numbers, whose products float32 holds exactly."""
    return lambda random, shape: random.integers(low, high + 1, size=shape).astype(float)


# Shapes and block sizes

make("2-D", (7, 5))
make("2-D, one token", (1, 4), m=1)
make("3-D", (3, 7, 5))
make("4-D", (2, 3, 7, 5))
make("5-D", (2, 2, 2, 5, 3), m=6)
make("more queries than keys", (2, 9, 4), m=5)
make("more keys than queries", (2, 3, 4), m=17)
make("Dv greater than D", (2, 5, 2), dv=9)
make("D = Dv = 1", (2, 5, 1), dv=1)
make("one query against many keys", (2, 2, 1, 4), m=19)
make("many queries against one key", (2, 2, 9, 4), m=1)
make("no queries", (2, 2, 0, 4), m=5)
make("no keys", (2, 2, 5, 4), m=0)
make("neither queries nor keys", (2, 2, 0, 4), m=0)
make("batch of none", (0, 2, 5, 4), m=5)
make("batch of none, mask and bias", (0, 2, 3, 4), m=3, mask=mask(0, 2, 3, 3), bias=bias(0, 2, 3, 3))
make("no heads, mask and bias", (2, 0, 3, 4), m=3, mask=mask(2, 0, 3, 3), bias=bias(2, 0, 3, 3))
make("heads of no size, causal", (2, 3, 0), m=4, causal=True)
make("values of no size", (2, 4, 3, 5), m=6, hk=2, dv=0, scale=2.0)
make("no queries, causal, dropout", (2, 0, 4), m=3, causal=True, dropout=0.5, seed=1)
for q, k in ((1, 1), (2, 5), (7, 10), (16, 16), (4, 1), (1, 4)):
    make(f"blocks of {q} by {k}", (2, 7, 5), sizes=(q, k))
make("blocks of 2 by 5, causal", (2, 7, 5), sizes=(2, 5), causal=True)
make("one past a block", (2, 9, 4), m=13, sizes=(4, 4), causal=True)
make("blocks of any size", (2, 33, 4), m=41, sizes=(None, None), causal=True)

# Heads

make("GQA, 2 heads of 4", hk=2)
make("MQA", (2, 3, 7, 5), hk=1)
make("GQA, one new query", (2, 4, 1, 5), m=11, hk=2, causal=True)
make("GQA, causal", hk=2, causal=True)
make("GQA, a mask for each head", hk=2, mask=mask(4, 7, 10))
make("GQA, a padding mask", hk=2, mask=mask(2, 1, 1, 10))
make("GQA, a bias for each head", hk=2, bias=bias(4, 1, 10))
make("GQA, everything given", hk=2, mask=mask(2, 4, 7, 10), bias=bias(2, 4, 7, 10))
make("GQA, no keys", (2, 4, 5, 4), m=0, hk=2)

# Causal and windows

make("causal", (2, 2, 8, 4), m=8, causal=True)
make("causal with N < M", (2, 2, 4, 4), m=11, causal=True)
make("causal with N > M", (2, 2, 11, 4), m=4, causal=True)
make("causal, one new query", (2, 1, 4), m=9, causal=True)
WINDOWS = (2, 0, -1, (2, 1), (0, 3), (None, 1), (1, None), (-1, 0), (0, -1), (None, None), (100, 100), (3, 100))
for window in WINDOWS:
    make(f"window {window}", (2, 9, 4), m=9, window=window)
for window in (2, (1, None), (-1, 2), (100, 100), (0, 0)):
    make(f"window {window}, causal, N < M", (2, 6, 4), m=13, window=window, causal=True)
make("window (1, 1), N > M", (2, 12, 4), m=5, window=(1, 1))
make("window 3 in blocks of 2", (2, 13, 4), m=17, window=3, sizes=(2, 2))

# Where the queries stand

for offset in (0, 3, -1, -4, -9, 9, 10, 25):
    make(f"offset {offset}, causal", (2, 7, 4), causal=True, offset=offset)
for offset in (0, 4, -2, 12):
    make(f"offset {offset}, window (2, 1)", (2, 7, 4), window=(2, 1), offset=offset)
make("offset without causal or window", (2, 7, 4), offset=-3)
make("offset, one new query of a cache", (2, 4, 1, 5), m=11, hk=2, causal=True, window=(5, 0), offset=6)
make("offset beyond what the window reaches", (2, 1, 4), m=6, window=(5, None), offset=11)
make("offset, everything given, GQA", hk=2, mask=mask(7, 10), bias=bias(4, 1, 10, hide=0.2), causal=True, window=4,
     offset=1, dropout=0.3, seed=8)  # fmt: skip
make("offset of 32 bits and more", (2, 5, 4), m=6, window=(2**40, 0), offset=2**40 + 1)
for offset in (2**31 - 1, -(2**31)):
    make(f"offset {offset}", (2, 5, 4), m=6, window=(2**31 - 3, 2**31 - 2), offset=offset)
make("offset in blocks that divide", (2, 8, 4), m=12, sizes=(4, 4), causal=True, offset=-2)

# Masks and biases, in every shape that broadcasts to (2, 4, 7, 10)

SHAPES = (
    (), (10,), (1,), (7, 10), (1, 10), (7, 1), (1, 1), (4, 1, 10), (4, 7, 1), (4, 7, 10), (4, 1, 1), (1, 7, 10),
    (2, 1, 1, 10), (2, 1, 7, 10), (2, 4, 7, 10), (2, 4, 1, 1), (2, 1, 7, 1), (2, 1, 1, 1), (1, 4, 7, 10),
    (1, 1, 1, 1),
)  # fmt: skip
for shape in SHAPES:
    make(f"mask {shape}", mask=mask(*shape))
for shape in ((), (10,), (7, 10), (7, 1), (1, 1), (4, 1, 10), (4, 7, 1), (2, 1, 7, 10), (2, 1, 1, 10), (2, 4, 7, 10)):
    make(f"bias {shape}", bias=bias(*shape))
make("mask of one row, 5-D", (2, 2, 2, 5, 3), m=6, mask=mask(2, 1, 1, 1, 6))
make("mask that hides nothing", (2, 7, 5), mask=given(np.ones((7, 10), bool)))
make("bias of −∞ here and there", bias=bias(7, 10, hide=0.4))
make("bias of −∞ on whole keys", bias=bias(2, 1, 1, 10, hide=0.4))
for other in ("float16", "bfloat16", "float64"):
    make(f"bias in {other}", bias=bias(7, 10, kind=other, hide=0.2))
make("float16 with a float32 bias", kind="float16", bias=bias(7, 10))
BIG = np.zeros((7, 10))
BIG[:, 3] = BIG[2, :] = -1e30
make("a very negative bias is a shift", bias=given(BIG, "float32"), safe_only=True)
BIG = np.zeros((7, 10))
BIG[:, 3] = -1e300
make("a bias below float32 is a shift", bias=given(BIG))
make("mask and bias", mask=mask(2, 1, 7, 10), bias=bias(4, 1, 10))
make("mask, bias, causal", mask=mask(2, 1, 1, 10), bias=bias(7, 10, hide=0.2), causal=True)
make("mask, bias, causal, window, GQA", hk=2, mask=mask(7, 10), bias=bias(4, 7, 1), causal=True, window=4)

# Rows that see nothing


def rows_hidden(*hidden, n=7, m=10):
    """A mask that hides every key from some queries."""
    x = np.ones((n, m), bool)
    x[list(hidden)] = False
    return given(x)


def keys_hidden(first, last, m=10):
    """A mask that hides some keys from every query."""
    return given([(j < first or j >= last) for j in range(m)])


make("rows that see nothing", mask=rows_hidden(0, 4, 6))
make("all masked", mask=given(False))
make("all masked by bias", bias=given([-np.inf], "float32"))
make("a head that sees nothing", mask=given(np.array([1, 0, 1, 1], bool)[:, None, None]))
make("the first tiles masked", mask=keys_hidden(0, 5))
make("the last tiles masked", mask=keys_hidden(3, 10))
make("a tile in the middle masked", mask=keys_hidden(4, 8))
make("each rule hides a part", mask=keys_hidden(0, 4), bias=bias(7, 10, hide=0.5), causal=True, window=(2, 0))
make("a mask of disjoint rules", mask=given(np.tri(7, 10, 2, bool)), window=(-1, -1), bias=given(
    np.where(np.tri(7, 10, 2), -np.inf, 0), "float32"))  # fmt: skip

# Segments

PACKED, UNSORTED = [0, 0, 0, 1, 1, 2, 2], [7, -3, 7, 2, -3, 5, 7]


def segments(queries, keys, kind="int32"):
    """Which segment each query and each key belongs to."""
    return dict(query_segments=given(queries, kind), key_segments=given(keys, kind))


make("segments, packed", **segments(PACKED, [0, 0, 0, 0, 1, 1, 1, 2, 2, 2]))
make("segments, 2-D", (7, 5), **segments(PACKED, [0, 1, 1, 1, 2, 2, 2, 2, 2, 2], "int64"))
make("segments, unsorted", **segments(UNSORTED, [5, 7, 7, 2, -3, 4, 7, 2, 5, -3]))
make("segments of each batch", **segments([PACKED, UNSORTED], [[0] * 5 + [2] * 5, [7, 2] * 5]))
make("segments, one row for all, causal", causal=True, **segments([UNSORTED], [[5, 7, 7, 2, -3, 4, 7, 2, 5, -3]] * 2))
make("segments, padding of queries and keys", **segments([1] * 5 + [-1] * 2, [1] * 6 + [-2] * 4))
make("segments, a number for all queries", **segments([[1], [0]], [0] * 4 + [1] * 6, "int8"))
make("segments, every tile hidden but one", (2, 9, 4), m=12, **segments([0] * 3 + [5] * 6, [1] * 4 + [0] * 4 + [2] * 4))
make("segments that nothing shares", **segments([0] * 7, [1] * 10, "uint8"))
make("segments of a range that others lie in", **segments([0, 9] * 3 + [0], [4] * 5 + [9, 0] * 2 + [5]))
make("segments, 5-D, GQA", (2, 2, 4, 5, 3), m=6, hk=2, **segments(
    np.arange(20).reshape(2, 2, 5) // 3, np.arange(24).reshape(2, 2, 6) // 4))  # fmt: skip
make("segments, everything given, GQA", hk=2, mask=mask(2, 1, 7, 10), bias=bias(4, 1, 10, hide=0.1), causal=True,
     window=6, offset=2, dropout=0.3, seed=9, **segments(PACKED, [0, 0, 0, 1, 0, 1, 1, 2, 2, 1]))  # fmt: skip
for kind in ("float16", "bfloat16", "float64"):
    make(f"segments, {kind}", kind=kind, causal=True, **segments(PACKED, [0, 0, 0, 0, 1, 1, 1, 2, 2, 2]))

# Scores

make("scores in the thousands", draw=whole(-30, 30), scale=1.0, safe_only=True)
make("scores in the thousands, drawn at will", draw=lambda r, s: 30 * r.normal(size=s), safe_only=True)
make("every score −5000", (2, 5, 4), draw=lambda r, s: np.full(s, 5.0), scale=-50.0, safe_only=True)
make("rising scores", (5, 1), draw=lambda r, s: np.arange(1.0, s[-2] + 1)[:, None], scale=10.0, safe_only=True)
make("falling scores", (5, 1), draw=lambda r, s: np.arange(1.0, s[-2] + 1)[:, None], scale=-10.0, safe_only=True)
make("equal scores", draw=lambda r, s: np.ones(s))
make("scale 0", scale=0.0)
make("scale −1", scale=-1)
make("scale 10", scale=10, draw=lambda r, s: 0.5 * r.normal(size=s))


def low_key(arrays):
    """The key 2 has −∞ in one component: its score is −∞ with any positive query."""
    arrays["query"][...] = np.abs(arrays["query"])
    arrays["key"][..., 2, 0] = -np.inf


make("a score of −∞ from the data", hurt=low_key)
make("scores of −∞ alone in a tile", (2, 5, 4), m=3, sizes=(2, 1), hurt=low_key)

# Dropout

for p in (0.1, 0.5, 1.0):
    make(f"dropout {p}", dropout=p, seed=7)
make("dropout, GQA", hk=2, dropout=0.3, seed=11)
make("dropout, 5-D, GQA", (2, 2, 4, 5, 3), m=6, hk=2, dropout=0.3, seed=12)
make("dropout, mask, bias, window", dropout=0.3, seed=15, mask=mask(7, 10), bias=bias(4, 1, 10), window=(3, 4))
make("dropout, seed 0", (2, 5, 4), dropout=0.5, seed=0)
make("dropout, seed 2³² − 1", (2, 5, 4), dropout=0.5, seed=2**32 - 1)
make("dropout 1, rows that see nothing", dropout=1, seed=3, mask=rows_hidden(1, 2))

# Dtypes

for kind in ("float16", "bfloat16", "float64"):
    make(f"{kind}", kind=kind)
    make(f"{kind}, causal, GQA", kind=kind, hk=2, causal=True)
    make(f"{kind}, mask, bias", kind=kind, mask=mask(7, 10), bias=bias(4, 1, 10, kind=kind, hide=0.2))
    make(f"{kind}, dropout, window", kind=kind, dropout=0.3, seed=5, window=3)
    make(f"{kind}, no keys", (2, 5, 4), m=0, kind=kind)
    make(f"{kind}, scores in the hundreds", kind=kind, draw=whole(-8, 8), scale=1.0, safe_only=True)
make("float64, scores in the thousands", kind="float64", draw=whole(-30, 30), scale=1.0, safe_only=True)

# Memory layout

for layout in ("transposed", "strided", "reversed", "expanded", "read-only"):
    make(f"{layout}", (3, 4, 7, 5), layout=layout)
    given_too = dict(mask=mask(3, 1, 7, 10), bias=bias(3, 4, 7, 10))
    make(f"{layout}, GQA, mask, bias", (3, 4, 7, 5), hk=2, layout=layout, **given_too)

# NaN and Inf where nobody looks


def poison(**places):
    """Put NaN, and Inf in the last component, at the given places (indices of all axes but the last)."""

    def hurt(arrays):
        for name, index in places.items():
            arrays[name][(*index, slice(None))] = np.nan
            arrays[name][(*index, -1)] = np.inf

    return hurt


TAIL = poison(key=(..., slice(7, None)), value=(..., slice(7, None)))
make("NaN in padding", mask=keys_hidden(7, 10), hurt=TAIL)
make("NaN in padding, dropout", mask=keys_hidden(7, 10), hurt=TAIL, dropout=0.3, seed=2)
make("NaN behind a bias of −∞", bias=given([0.0] * 7 + [-np.inf] * 3, "float32"), hurt=TAIL)
make("NaN in padding, float16", kind="float16", mask=keys_hidden(7, 10), hurt=TAIL)
make("NaN in padding of one batch", mask=given(np.arange(10) < np.array([10, 6])[:, None, None, None]), hurt=poison(
    key=(1, slice(None), slice(6, None)), value=(1, slice(None), slice(6, None))))  # fmt: skip
make("NaN in a key of one group", hk=2, mask=given(np.array([1, 1, 0, 0], bool)[:, None, None] | (np.arange(10) != 4)),
     hurt=poison(key=(slice(None), 1, 4), value=(slice(None), 1, 4)))  # fmt: skip
make("NaN left of the window", (2, 3, 4), m=12, window=(2, 0), hurt=poison(
    key=(..., slice(0, 7)), value=(..., slice(0, 7))))  # fmt: skip
make("NaN right of the window", (2, 9, 4), m=12, window=(None, -1), mask=keys_hidden(11, 12, m=12), hurt=poison(
    key=(..., 11), value=(..., 11)))  # fmt: skip
make("NaN in the unused tail of a cache", (2, 3, 4), m=12, causal=True, offset=4, hurt=poison(
    key=(..., slice(7, None)), value=(..., slice(7, None))))  # fmt: skip
make("NaN in queries before the first key", (2, 6, 4), m=5, causal=True, offset=-2, hurt=poison(
    query=(..., slice(0, 2))))  # fmt: skip
make("NaN in queries that see nothing", mask=rows_hidden(0, 4), hurt=poison(query=(..., [0, 4])))
make("NaN in queries above the diagonal", (2, 9, 4), m=5, causal=True, hurt=poison(
    query=(..., slice(0, 4))))  # fmt: skip
make("NaN everywhere, all masked", mask=given(False), hurt=poison(
    query=(...,), key=(...,), value=(...,)))  # fmt: skip


def other_documents(arrays):
    """Keys and values hold NaN and Inf where no query of their batch is in their segment."""
    for b, keys in enumerate(arrays["key_segments"]):
        alone = ~np.isin(keys, arrays["query_segments"][b])
        arrays["key"][b][:, alone], arrays["value"][b][:, alone] = np.nan, np.inf


make("NaN in other documents", hk=2, hurt=other_documents, **segments(
    [PACKED, [3] * 7], [[0, 9, 9, 9, 9, 2, 2, 0, 1, 9], [4] * 4 + [3] * 6]))  # fmt: skip
make("NaN in a query without a document", hurt=poison(query=(..., 0)), **segments(
    [6, *PACKED[1:]], [0, 0, 0, 0, 1, 1, 1, 2, 2, 2]))  # fmt: skip
