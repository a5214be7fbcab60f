"""What the softmaxes, merge, dropout_mask and the NumPy backward refuse."""

import numpy as np
import pytest

import attnlab
from attnlab.tiled.numpy import tiled_attention_backward
from tests.support.libraries import LIBRARIES, to

SOFTMAXES = ("naive_softmax", "safe_softmax", "online_softmax")


def array(library, *shape, kind=np.float32):
    """An array of zeros."""
    return to(library, np.zeros(shape, kind))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", SOFTMAXES)
def test_softmax(name, library):
    softmax = getattr(attnlab, name)
    for kind in (np.int32, np.bool_, np.complex64):
        with pytest.raises(TypeError, match=f"x has dtype {np.dtype(kind).name}"):
            softmax(array(library, 3, kind=kind))
    with pytest.raises(ValueError, match="x is a scalar"):
        softmax(array(library))


@pytest.mark.parametrize("name", SOFTMAXES)
def test_softmax_of_no_array(name):
    for x in ([1.0, 2.0], 1.0, None):
        with pytest.raises(TypeError, match=f"x is of type {type(x).__name__}"):
            getattr(attnlab, name)(x)


MERGED = {"out_a": (2, 5, 3), "lse_a": (2, 5), "out_b": (2, 5, 3), "lse_b": (2, 5)}
WRONG_SHAPES = {"out_a": (2, 5, 4), "lse_a": (2, 1), "out_b": (1, 5, 3), "lse_b": (2, 5, 1)}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", MERGED)
def test_merge(name, library):
    parts = {key: array(library, *shape) for key, shape in MERGED.items()}
    attnlab.merge(**parts)
    for kind in (np.int32, np.bool_):
        with pytest.raises(TypeError, match=f"{name} has dtype"):
            attnlab.merge(**{**parts, name: array(library, *MERGED[name], kind=kind)})
    with pytest.raises(ValueError, match="has shape" if name == "out_a" else f"{name} has shape"):
        attnlab.merge(**{**parts, name: array(library, *WRONG_SHAPES[name])})
    with pytest.raises(ValueError, match="has shape"):
        attnlab.merge(**{**parts, name: array(library)})
    if name != "out_a":
        other = LIBRARIES[LIBRARIES.index(library) - 1]
        with pytest.raises(TypeError, match=f"{name} is a .* array"):
            attnlab.merge(**{**parts, name: array(other, *MERGED[name])})
        with pytest.raises(TypeError, match=f"{name} is of type list"):
            attnlab.merge(**{**parts, name: [0.0]})


@pytest.mark.parametrize("library", LIBRARIES)
def test_merge_of_pairs(library):
    """Errors count the parts from 0."""
    a = array(library, 2, 5, 3), array(library, 2, 5)
    with pytest.raises(ValueError, match=r"out of part 2 has shape \(2, 5\); with out of part 0 .* \(2, 5, 3\)"):
        attnlab.merge(a, a, a[::-1])
    with pytest.raises(TypeError, match="out of part 1 has dtype int32"):
        attnlab.merge(a, (array(library, 2, 5, 3, kind=np.int32), a[1]))
    for wrong in (a[0], [*a], (*a, a[1]), None):
        with pytest.raises(TypeError, match=r"part 1 is .*; every part is a tuple \(out, lse\)"):
            attnlab.merge(a, wrong)
    for few in ((), a, a + a[:1]):
        with pytest.raises(TypeError, match="missing"):
            attnlab.merge(*few)


def test_merge_of_no_array():
    with pytest.raises(TypeError, match="out_a is of type list"):
        attnlab.merge([1.0], [1.0], [1.0], [1.0])


@pytest.mark.parametrize(("seed", "kind"), [(-1, ValueError), (2**32, ValueError), (1.5, TypeError), (None, TypeError)])
def test_dropout_mask_seed(seed, kind):
    with pytest.raises(kind, match="seed"):
        attnlab.dropout_mask(seed, (2, 3), 0.5)


@pytest.mark.parametrize(("p", "kind"), [(-0.1, ValueError), (1.1, ValueError), (np.nan, ValueError), ("1", TypeError)])
def test_dropout_mask_p(p, kind):
    with pytest.raises(kind, match=r"dropout|\bp is"):
        attnlab.dropout_mask(1, (2, 3), p)


@pytest.mark.parametrize("shape", [(), (3,)])
def test_dropout_mask_shape(shape):
    with pytest.raises(ValueError, match="shape"):
        attnlab.dropout_mask(1, shape, 0.5)


BACKWARD = {
    "query": (4, 3, 5), "key": (2, 6, 5), "value": (2, 6, 7), "out": (4, 3, 7), "lse": (4, 3), "dout": (4, 3, 7),
    "dlse": (4, 3),
}  # fmt: skip


def backward(**changes):
    """A right call of the NumPy backward with some arguments changed."""
    return tiled_attention_backward(**{name: array("numpy", *shape) for name, shape in BACKWARD.items()} | changes)


def test_the_right_backward_is_not_refused():
    assert [grad.shape for grad in backward()] == [BACKWARD[name] for name in ("query", "key", "value")]
    assert backward(dlse=None, block_q=2, block_k=2, causal=True)[0].shape == (4, 3, 5)


@pytest.mark.parametrize("name", ["out", "lse", "dout", "dlse"])
def test_backward_arrays(name):
    shape = BACKWARD[name]
    for wrong in ((*shape, 1), shape[1:], (1, *shape[1:]), ()):
        with pytest.raises(ValueError, match=f"{name} has shape"):
            backward(**{name: array("numpy", *wrong)})
    for wrong in (array("numpy", *shape, kind=np.int32), array("torch", *shape), [0.0]):
        with pytest.raises(TypeError, match=f"{name} (has dtype|is)"):
            backward(**{name: wrong})


def test_backward_options():
    for options, kind, message in (
        (dict(causal=1), TypeError, "causal"),
        (dict(window=-2), ValueError, "window"),
        (dict(offset=0.5), TypeError, "offset"),
        (dict(dropout=0.5), ValueError, "seed"),
        (dict(mask=array("numpy", 6)), TypeError, "mask"),
        (dict(bias=array("numpy", 5)), ValueError, "bias"),
        (dict(block_q=0), ValueError, "block_q"),
        (dict(is_causal=True), TypeError, "is_causal"),
        (dict(query_chunk_size=3), TypeError, "query_chunk_size"),
    ):
        with pytest.raises(kind, match=message):
            backward(**options)


def test_backward_shapes():
    with pytest.raises(ValueError, match="key has size"):
        backward(key=array("numpy", 2, 6, 4))
    with pytest.raises(TypeError, match="value has dtype"):
        backward(value=array("numpy", 2, 6, 7, kind=np.float64))
