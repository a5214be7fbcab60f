"""What the softmaxes, merge, dropout_mask and the NumPy backward refuse; and how far an error's traceback goes."""

import functools
from pathlib import Path

import numpy as np
import pytest

import attnlab
from attnlab.tiled.numpy import tiled_attention_backward
from tests.support import refused
from tests.support.libraries import LIBRARIES, to

HOME = Path(attnlab.__file__).parent
SOFTMAXES = ("naive_softmax", "safe_softmax", "online_softmax")


def array(library, *shape, kind=np.float32):
    """An array of zeros."""
    return to(library, np.zeros(shape, kind))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", SOFTMAXES)
def test_softmax(name, library):
    softmax = getattr(attnlab, name)
    for kind in (np.int32, np.bool_, np.complex64):
        refused(TypeError, f"x has dtype {np.dtype(kind).name}", softmax, array(library, 3, kind=kind))
    refused(ValueError, "x is a scalar", softmax, array(library))
    for x in ([1.0, 2.0], 1.0, None):
        refused(TypeError, f"x is of type {type(x).__name__}", softmax, x)


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
    refused(ValueError, "has shape", attnlab.merge, **{**parts, name: array(library)})
    refused(TypeError, f"{name} is of type list", attnlab.merge, **{**parts, name: [0.0]})
    if name != "out_a":
        other = LIBRARIES[LIBRARIES.index(library) - 1]
        refused(TypeError, f"{name} is a .* array", attnlab.merge, **{**parts, name: array(other, *MERGED[name])})


@pytest.mark.parametrize("library", LIBRARIES)
def test_merge_of_pairs(library):
    """Errors count the parts from 0."""
    a = array(library, 2, 5, 3), array(library, 2, 5)
    with pytest.raises(ValueError, match=r"out of part 2 has shape \(2, 5\); with out of part 0 .* \(2, 5, 3\)"):
        attnlab.merge(a, a, a[::-1])
    with pytest.raises(TypeError, match="out of part 1 has dtype int32"):
        attnlab.merge(a, (array(library, 2, 5, 3, kind=np.int32), a[1]))
    for wrong in (a[0], [*a], (*a, a[1]), None):
        refused(TypeError, r"part 1 is .*; every part is a tuple \(out, lse\)", attnlab.merge, a, wrong)
    for few in ((), a, a + a[:1]):
        refused(TypeError, "missing", attnlab.merge, *few)


@pytest.mark.parametrize(("seed", "shape", "p", "kind", "message"), [
    *((seed, (2, 3), 0.5, ValueError, "seed") for seed in (-1, 2**32)),
    *((seed, (2, 3), 0.5, TypeError, "seed") for seed in (1.5, None)),
    *((1, (2, 3), p, ValueError, "p is") for p in (-0.1, 1.1, np.nan)), (1, (2, 3), "1", TypeError, "p is"),
    *((1, shape, 0.5, ValueError, "shape") for shape in ((), (3,))),
])  # fmt: skip
def test_dropout_mask(seed, shape, p, kind, message):
    refused(kind, message, attnlab.dropout_mask, seed, shape, p)


BACKWARD = {
    "query": (4, 3, 5), "key": (2, 6, 5), "value": (2, 6, 7), "out": (4, 3, 7), "lse": (4, 3), "dout": (4, 3, 7),
    "dlse": (4, 3),
}  # fmt: skip


def backward(**changes):
    """A right call of the NumPy backward with some arguments changed."""
    return tiled_attention_backward(**{name: array("numpy", *shape) for name, shape in BACKWARD.items()} | changes)


@pytest.mark.parametrize("name", ["out", "lse", "dout", "dlse"])
def test_backward_arrays(name):
    shape = BACKWARD[name]
    for wrong in ((*shape, 1), shape[1:], (1, *shape[1:]), ()):
        refused(ValueError, f"{name} has shape", backward, **{name: array("numpy", *wrong)})
    for wrong in (array("numpy", *shape, kind=np.int32), array("torch", *shape), [0.0]):
        refused(TypeError, f"{name} (has dtype|is)", backward, **{name: wrong})


def test_backward_options():
    assert [grad.shape for grad in backward()] == [BACKWARD[name] for name in ("query", "key", "value")]
    for options, kind, message in (
        (dict(key=array("numpy", 2, 6, 4)), ValueError, "key has size"),
        (dict(value=array("numpy", 2, 6, 7, kind=np.float64)), TypeError, "value has dtype"),
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
        refused(kind, message, backward, **options)


def frames(call):
    """The functions of attnlab that an error's traceback shows."""
    with pytest.raises((TypeError, ValueError)) as caught:
        call()
    return [entry.name for entry in caught.traceback if HOME in entry.path.parents]


@pytest.mark.parametrize("library", LIBRARIES)
def test_an_error_ends_at_the_call(library):
    """The caller's own line and at most one of ours stand in the traceback of what attnlab refuses."""
    x, y = (array(library, 1, 2, 6, d) for d in (8, 4))
    cache = attnlab.cache.KVCache.empty(x, x, capacity=6)
    six = [functools.partial(attnlab.METHODS[name], x, y, x) for name in attnlab.METHODS]
    softmaxes = [functools.partial(getattr(attnlab, name), [1.0]) for name in SOFTMAXES]
    others = [
        lambda: attnlab.tiled_attention(x, x, x, casual=True), lambda: attnlab.safe_attention(x, x, x, dropout=2),
        lambda: attnlab.tiled_attention_backward(x, y, x, x, x, x), lambda: attnlab.rotary(x, base=-1),
        lambda: attnlab.merge((x, x), (x, x)), lambda: attnlab.linear.linear_attention(x, y, x),
        lambda: attnlab.linear.delta_attention(x, y, x, y), lambda: attnlab.linear.hedgehog_loss(x, y, None),
        lambda: cache.attend(x, y, x), lambda: cache.truncate(99), lambda: cache.empty(x, x, capacity=-1),
        lambda: attnlab.paged.paged_attention(x, x, x, x, x), lambda: attnlab.ring.ring_attention(x, y, x),
        lambda: attnlab.ring.tree_attention(x, y, x),
    ]
    for call in (*six, *softmaxes, *others):
        assert len(frames(call)) <= 1


def test_a_bug_keeps_all_its_frames(monkeypatch):
    x = array("numpy", 6, 8)
    monkeypatch.setattr("attnlab.core.dispatch.check_call", lambda *_, **__: 1 + None)
    assert frames(lambda: attnlab.safe_attention(x, x, x))[-1] == "run_attention"
    assert "linear_attention" in frames(lambda: attnlab.linear.linear_attention(x, x, x, features=lambda _: 1 + None))
