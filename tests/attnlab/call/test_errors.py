"""Every rule of the contract refuses what breaks it, naming the argument, and nothing else."""

import functools
import importlib
import re
from fractions import Fraction

import jax
import ml_dtypes
import numpy as np
import pytest
import torch

import attnlab
from tests.support import refused
from tests.support.libraries import ALGORITHMS, EVERYWHERE, LIBRARIES, blocks_of, dtype, function, to

NAMES = {"numpy": "NumPy", "jax": "JAX", "torch": "PyTorch"}
SHAPES = {"query": (2, 4, 3, 5), "key": (2, 2, 6, 5), "value": (2, 2, 6, 7)}


class Array:
    """A description: becomes an array of zeros of the library under test, or of another one."""

    def __init__(self, *shape, kind="float32", other=False):
        self.shape, self.kind, self.other = shape, kind, other

    def build(self, library):
        if self.other:
            library = LIBRARIES[LIBRARIES.index(library) - 1]
        return to(library, np.zeros(self.shape, dtype(self.kind)))


def build(x, library):
    """Descriptions anywhere in x become arrays."""
    if isinstance(x, tuple | list):
        return type(x)(build(part, library) for part in x)
    return x.build(library) if isinstance(x, Array) else x


def attempt(library, algorithm, **changes):
    """A right call with some arguments changed."""
    arguments = {name: Array(*shape) for name, shape in SHAPES.items()} | changes
    return function(algorithm)(**{name: build(x, library) for name, x in arguments.items()})


TYPE_ERRORS = {
    "query is a list": (dict(query=[[1.0]]), "query is of type list"),
    "key of another library": (dict(key=Array(2, 2, 6, 5, other=True)), "key is a .* array; .* arrays only"),
    "value of another library": (dict(value=Array(2, 2, 6, 7, other=True)), "value is a .* array"),
    "mask of another library": (dict(mask=Array(6, kind="bool", other=True)), "mask is a .* array"),
    "bias of another library": (dict(bias=Array(6, other=True)), "bias is a .* array"),
    "mask is a list": (dict(mask=[True] * 6), "mask is of type list"),
    "bias is a number": (dict(bias=0.5), "bias is of type float"),
    "integers": ({name: Array(*shape, kind="int32") for name, shape in SHAPES.items()}, "query has dtype int32"),
    "complex": ({name: Array(*shape, kind="complex64") for name, shape in SHAPES.items()}, "query has .* complex64"),
    "an integer key": (dict(key=Array(2, 2, 6, 5, kind="int32")), "key has dtype int32"),
    "key in float16": (dict(key=Array(2, 2, 6, 5, kind="float16")), "key has dtype float16, query has float32"),
    "value in bfloat16": (dict(value=Array(2, 2, 6, 7, kind="bfloat16")), "value has dtype bfloat16"),
    "a mask of integers": (dict(mask=Array(6, kind="int32")), "mask has dtype int32.*mask != 0.*bias"),
    "a mask of floats": (dict(mask=Array(6)), "mask has dtype float32.*mask != 0.*bias"),
    "segments of floats": (dict(segments=(Array(3), Array(6, kind="int32"))), "query_segments has dtype float32"),
    "segments of booleans": (
        dict(segments=(Array(3, kind="int32"), Array(6, kind="bool"))), "key_segments has dtype bool.*integers"),
    "segments of another library": (
        dict(segments=(Array(3, kind="int32"), Array(6, kind="int32", other=True))), "key_segments is a .* array"),
    "segments in a list": (dict(segments=([0] * 3, [0] * 6)), "query_segments is of type list"),
    "segments of one kind alone": (dict(segments=(Array(3, kind="int32"), None)), "key_segments is of type NoneType"),
    "segments is a number": (dict(segments=1, query=Array(2, 4, 6, 5)), "segments is of type int"),
    "a bias of integers": (dict(bias=Array(6, kind="int32")), "bias has dtype int32"),
    "causal is 1": (dict(causal=1), "causal is 1"),
    "return_lse is 1": (dict(return_lse=1), "return_lse is 1"),
    "window is a word": (dict(window="3"), "window is '3'"),
    "window is not whole": (dict(window=2.5), "window is 2.5"),
    "a side of window is not whole": (dict(window=(2.5, 0)), "window is 2.5"),
    "scale is a word": (dict(scale="1"), "scale is '1'"),
    "scale is complex": (dict(scale=1j), "scale is 1j"),
    "dropout is a word": (dict(dropout="0.1", seed=1), "dropout is '0.1'"),
    "seed is not whole": (dict(dropout=0.1, seed=1.5), "seed is 1.5; it must be an integer"),
    "causal is an array": (dict(causal=Array(kind="bool")), "causal is an array; options are"),
    "window is an array": (dict(window=Array(2, kind="int32")), "window is an array"),
    "a side of window is an array": (dict(window=(Array(kind="int32"), 0)), "window is an array; options are"),
    "scale is an array": (dict(scale=Array()), "scale is an array; options are"),
    "dropout is an array": (dict(dropout=Array(), seed=1), "dropout is an array; options are"),
    "return_lse is an array": (dict(return_lse=Array(kind="bool")), "return_lse is an array; options are"),
    "offset is True": (dict(offset=True), "offset is True; it must be an integer"),
    "offset is not whole": (dict(offset=1.0), r"offset is 1\.0; it must be"),
    "offset is a word": (dict(offset="1"), "offset is '1'"),
    "offset is a number of NumPy's": (dict(offset=np.float32(1)), "offset is"),
    "offset is a pair": (dict(offset=(1, 2)), "offset is"),
    "offset is an array of floats": (dict(offset=Array()), "offset is a .* array"),
    "offset is an array of booleans": (dict(offset=Array(kind="bool")), "offset is a .* array"),
    "offset is an array of several": (dict(offset=Array(2, kind="int32")), "offset is a .* array"),
    "offset is an array of another library": (dict(offset=Array(kind="int32", other=True)), "offset is a .* array"),
    "seed is an array of floats": (dict(dropout=0.1, seed=Array()), "seed is a"),
    "seed is an array of several": (dict(dropout=0.1, seed=Array(2, kind="uint32")), "seed is a"),
}

VALUE_ERRORS = {
    "query of one axis": (dict(query=Array(5)), "query has shape \\(5,\\).*2 axes"),
    "key of fewer axes": (dict(key=Array(2, 6, 5)), "key has 3 axes, query has 4"),
    "another batch": (dict(key=Array(3, 2, 6, 5), value=Array(3, 2, 6, 7)), "key has batch axes \\(3,\\)"),
    "a batch that would broadcast": (dict(key=Array(1, 2, 6, 5), value=Array(1, 2, 6, 7)), "never broadcast"),
    "another D": (dict(key=Array(2, 2, 6, 4)), "key has size 4, query has 5"),
    "D of 1 that would broadcast": (dict(key=Array(2, 2, 6, 1)), "key has size 1, query has 5"),
    "another M": (dict(value=Array(2, 2, 5, 7)), "value has length 5, key has 6"),
    "a value of length 1": (dict(value=Array(2, 2, 1, 7)), "value has length 1, key has 6"),
    "heads that do not divide": (
        dict(query=Array(2, 8, 3, 5), key=Array(2, 6, 6, 5), value=Array(2, 6, 6, 7)),
        re.escape("key has 6 heads, which does not divide query's 8 (GQA needs Hq % Hk == 0)"),
    ),
    "no key heads": (dict(key=Array(2, 0, 6, 5), value=Array(2, 0, 6, 7)), "key has 0 heads"),
    "other value heads": (dict(value=Array(2, 4, 6, 7)), "value has 4 heads, key has 2"),
    "a transposed mask": (dict(mask=Array(6, 3, kind="bool")), "mask has shape \\(6, 3\\).*N, M"),
    "a mask for key heads": (dict(mask=Array(2, 2, 3, 6, kind="bool")), "mask has shape"),
    "a mask that adds an axis": (dict(mask=Array(1, 2, 4, 3, 6, kind="bool")), "mask has shape"),
    "a mask without elements": (dict(mask=Array(0, kind="bool")), "mask has shape"),
    "one array of segments for N and M": (
        dict(segments=Array(3, kind="int32")), "segments is one array for 3 queries and 6 keys.*pair"),
    "three arrays of segments": (dict(segments=(Array(3, kind="int32"),) * 3), "segments has 3 parts.*query_segments"),
    "segments of another length": (
        dict(segments=(Array(3, kind="int32"), Array(5, kind="int32"))),
        re.escape("key_segments has shape (5,), which does not broadcast to (..., M) = (2, 6)")),
    "segments the wrong way round": (
        dict(segments=(Array(6, kind="int32"), Array(3, kind="int32"))), r"query_segments has shape \(6,\).*\(2, 3\)"),
    "segments with an axis of heads": (
        dict(segments=(Array(2, 1, 3, kind="int32"), Array(6, kind="int32"))), "query_segments has shape"),
    "segments that enlarge the batch": (
        dict(segments=(Array(3, kind="int32"), Array(3, 6, kind="int32"))), "key_segments has shape \\(3, 6\\)"),
    "a transposed bias": (dict(bias=Array(6, 3)), "bias has shape \\(6, 3\\)"),
    "scale NaN": (dict(scale=float("nan")), "scale is nan.*finite"),
    "scale Inf": (dict(scale=float("inf")), "scale is inf.*finite"),
    "window −2": (dict(window=-2), "window is -2.*offset=0"),
    "a side of window −3": (dict(window=(0, -3)), "window is -3"),
    "window of three sides": (dict(window=(1, 2, 3)), "window has 3 sides"),
    "dropout −0.1": (dict(dropout=-0.1, seed=1), "dropout is -0.1"),
    "dropout 1.5": (dict(dropout=1.5, seed=1), "dropout is 1.5"),
    "dropout NaN": (dict(dropout=float("nan"), seed=1), "dropout is nan"),
    "dropout without a seed": (dict(dropout=0.5), "dropout is 0.5 but seed is None"),
    "seed −1": (dict(dropout=0.5, seed=-1), "seed is -1"),
    "seed 2³²": (dict(dropout=0.5, seed=2**32), "seed is 4294967296"),
}
ERRORS = {name: (TypeError, *rest) for name, rest in TYPE_ERRORS.items()}
ERRORS |= {name: (ValueError, *rest) for name, rest in VALUE_ERRORS.items()}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("algorithm", ["naive", "tiled"])
@pytest.mark.parametrize("name", ERRORS)
def test_what_is_refused(name, algorithm, library):
    kind, changes, message = ERRORS[name]
    with pytest.raises(kind, match=message) as error:
        attempt(library, algorithm, **changes)
    assert error.type is kind


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", ["causal", "window", "scale", "dropout", "return_lse"])
def test_advice_about_an_array_is_of_its_library(name, library):
    """JAX's static_argnames to nobody but its users; a scale that is learned belongs to the query."""
    with pytest.raises(TypeError, match=f"{name} is an array") as error:
        attempt(library, "tiled", **{name: Array()})
    assert (f"{name!r} in static_argnames" in str(error.value)) == (library == "jax")
    assert (".tolist()" in str(error.value)) == (library != "jax")
    assert ("multiply query by it" in str(error.value)) == (name == "scale")


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_an_offset_is_an_array_in_jax_alone(library):
    refused(TypeError, r"offset is a .* array", attempt, library, "tiled", offset=Array(kind="int32"))


DRAWN = {
    "numpy": (lambda: np.random.default_rng(0), "int(rng.integers(2**32))"),
    "jax": (lambda: jax.random.key(0), 'jax.random.bits(key, (), "uint32")'),
    "torch": (lambda: torch.Generator(), "int(torch.randint(2**32, ()))"),
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_seed_that_is_none_says_how_to_draw_one(library):
    """The line in the message gives a seed that is taken."""
    generator, line = DRAWN[library]
    for seed in (generator(), Array(2, kind="uint32"), Array(), 1.5):
        with pytest.raises(TypeError, match=r"seed is .*uint32 scalar|seed is .*an integer in") as error:
            attempt(library, "tiled", dropout=0.5, seed=seed)
        assert line in str(error.value)
    with pytest.raises(ValueError, match="seed is None") as error:
        attempt(library, "tiled", dropout=0.5)
    assert line in str(error.value)
    names = {"rng": np.random.default_rng(0), "key": jax.random.key(0), "jax": jax, "torch": torch}
    attempt(library, "tiled", dropout=0.5, seed=eval(line, names))


def test_a_key_of_jax_is_no_array_of_numbers():
    """Its dtype is none of NumPy's; the message is ours even so."""
    with pytest.raises(TypeError, match="query has dtype key<fry>"):
        attnlab.tiled_attention(*[jax.random.split(jax.random.key(0), (3, 3))] * 3)


@EVERYWHERE
def test_the_right_call_is_not_refused(algorithm, library):
    assert tuple(attempt(library, algorithm).shape) == (2, 4, 3, 7)


BLOCKS = [(algorithm, name) for algorithm in ALGORITHMS for name in blocks_of(algorithm, (1, 1))]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(("algorithm", "name"), BLOCKS)
def test_block_sizes(algorithm, name, library):
    wrong = [(0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError), ("4", TypeError)]
    for size, kind in [*wrong, (Array(kind="int32"), TypeError)]:
        refused(kind, f"{name} is ", attempt, library, algorithm, **{name: size})
    for size in (1, 2, 1000, np.int64(2), None):
        attempt(library, algorithm, **{name: size})


@EVERYWHERE
def test_a_backend_refuses_arrays_of_another_library(algorithm, library):
    module = importlib.import_module(f"attnlab.{algorithm}.{library}")
    for other in set(LIBRARIES) - {library}:
        x = Array(3, 3).build(other)
        with pytest.raises(TypeError, match=f"query is a {NAMES[other]} array.*{NAMES[library]} arrays only"):
            getattr(module, f"{algorithm}_attention")(x, x, x)


@pytest.mark.parametrize("wrap", [lambda x: x.view(np.matrix), np.ma.masked_array], ids=["matrix", "masked"])
def test_numpy_subclasses_with_a_meaning_of_their_own(wrap):
    x = np.zeros((3, 3), np.float32)
    refused(TypeError, "query is of type", attnlab.safe_attention, wrap(x), x, x)
    refused(TypeError, "key", attnlab.safe_attention, x, wrap(x), x)


@pytest.mark.parametrize("name", ["key", "value", "mask", "bias"])
def test_devices_differ(name):
    shape, kind = SHAPES.get(name, (6,)), torch.bool if name == "mask" else torch.float32
    elsewhere = torch.zeros(shape, dtype=kind, device="meta")
    refused(ValueError, f"{name} is on device meta, query is on cpu", attempt, "torch", "tiled", **{name: elsewhere})


@pytest.mark.parametrize(("library", "kind"), [
    ("numpy", ml_dtypes.float8_e4m3fn), ("jax", ml_dtypes.float8_e5m2), ("numpy", np.longdouble)])  # fmt: skip
def test_exotic_floats(library, kind):
    refused(TypeError, "query has dtype float", attnlab.safe_attention, *[to(library, np.zeros((3, 3), kind))] * 3)


TRACED = {
    "causal": True, "window": 2, "scale": 0.5, "dropout": 0.5, "return_lse": True, "block_q": 2, "block_k": 2,
}  # fmt: skip


@pytest.mark.parametrize("name", TRACED)
def test_a_traced_option_names_static_argnames(name):
    x = [Array(*shape).build("jax") for shape in SHAPES.values()]
    with pytest.raises(TypeError, match=f"{name} is an array.*'{name}' in static_argnames"):
        jax.jit(functools.partial(attnlab.tiled_attention, seed=1))(*x, **{name: TRACED[name]})


def test_a_traced_side_of_the_window():
    x = [Array(*shape).build("jax") for shape in SHAPES.values()]
    refused(TypeError, r"window is an array; options are", jax.jit(attnlab.tiled_attention), *x, window=(1, 2))


def test_unknown_method():
    x = np.zeros((3, 3), np.float32)
    for method in ("flash", None, 3):
        refused(ValueError, f"method is {method!r}.*{'.*'.join(ALGORITHMS)}", attnlab.attention, x, x, x, method=method)


ACCEPTED = {
    "a NumPy boolean": dict(causal=np.bool_(True)),
    "a NumPy window": dict(window=np.int32(2)),
    "a window in a list": dict(window=[1, 2]),
    "sides of NumPy": dict(window=(np.int64(1), None)),
    "a NumPy scale": dict(scale=np.float32(0.5)),
    "an integer scale": dict(scale=2),
    "a fraction": dict(scale=Fraction(1, 3)),
    "a NumPy seed": dict(dropout=np.float64(0.5), seed=np.uint32(7)),
    "a seed without dropout": dict(seed=3),
    "an offset of few bits": dict(window=(200, 0), offset=np.int8(2)),
    "the largest seed": dict(dropout=0.5, seed=2**32 - 1),
    "segments": dict(segments=(Array(3, kind="int32"), Array(6, kind="int32"))),
    "segments of each batch": dict(segments=(Array(2, 3, kind="int16"), Array(1, 6, kind="uint8"))),
    "scalar segments": dict(segments=[Array(kind="int32"), Array(1, kind="int32")]),
    "a scalar mask": dict(mask=Array(kind="bool")),
    "a scalar bias": dict(bias=Array()),
    "a bias of another dtype": dict(bias=Array(3, 6, kind="float16")),
    "a mask of four axes": dict(mask=Array(1, 4, 1, 6, kind="bool")),
}


@pytest.mark.thin(12)
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("algorithm", ["naive", "tiled"])
@pytest.mark.parametrize("name", ACCEPTED)
def test_what_is_not_refused(name, algorithm, library):
    assert tuple(attempt(library, algorithm, **ACCEPTED[name]).shape) == (2, 4, 3, 7)


@pytest.mark.filterwarnings("ignore:(overflow|invalid value):RuntimeWarning")
@EVERYWHERE
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_inf_are_not_refused(bad, algorithm, library):
    x = to(library, np.full((3, 3), bad, np.float32))
    assert np.isnan(np.asarray(function(algorithm)(x, x, x))).all()
