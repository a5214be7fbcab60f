"""What the softmaxes, merge, dropout_mask and the NumPy backward refuse; and how far an error's traceback goes."""

import functools
import importlib
import inspect
import itertools
from pathlib import Path

import numpy as np
import pytest

import attnlab
from attnlab.core.other_names import ends_at_call
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
        refused(TypeError, "merge takes parts", attnlab.merge, *few)


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
    with pytest.raises(Exception) as caught:
        call()
    return [entry.name for entry in caught.traceback if HOME in entry.path.parents]


def public():
    """All functions and methods of the package that a person calls, by name."""
    rooms = [f"attnlab.{room}" for room in attnlab.ROOMS if room not in ("adapters", "measure")]
    homes = [attnlab, *map(importlib.import_module, rooms)]
    names = [(home, name) for home in homes for name in home.__all__]
    for method, library in itertools.product(attnlab.METHODS, LIBRARIES):
        names.append((importlib.import_module(f"attnlab.{method}.{library}"), f"{method}_attention"))
    for home, name in names:
        found = getattr(home, name)
        yield f"{home.__name__}.{name}", found
        for method in [x for x in dir(found) if x[0] != "_"] if isinstance(found, type) else ():
            yield f"{home.__name__}.{name}.{method}", getattr(found, method)


def test_every_public_function_ends_its_errors_at_the_call():
    covered = ends_at_call(lambda: None).__code__
    found = {name: getattr(f, "__func__", f) for name, f in public()}
    functions = {name: f for name, f in found.items() if inspect.isfunction(f)}
    assert len(functions) > 90
    assert [name for name, f in functions.items() if f.__code__ is not covered] == []


@pytest.mark.parametrize("library", LIBRARIES)
def test_an_error_ends_at_the_call(library):
    """The caller's own line and none of ours stand in the traceback of what attnlab refuses."""
    x, y = (array(library, 1, 2, 6, d) for d in (8, 4))
    cache = attnlab.cache.KVCache.empty(x, x, capacity=6)
    six = [functools.partial(attnlab.METHODS[name], x, y, x) for name in attnlab.METHODS]
    softmaxes = [functools.partial(getattr(attnlab, name), [1.0]) for name in SOFTMAXES]
    pages = attnlab.paged.PagedCache.empty(x, x, blocks=2, block_size=2)
    own = importlib.import_module(f"attnlab.tiled.{library}").tiled_attention
    others = [
        lambda: attnlab.attention(x, y, x), lambda: attnlab.attention(x, x, x, method="flash"), lambda: own(x, y, x),
        lambda: attnlab.dropout_mask(None, (1, 1), 2), lambda: attnlab.compat.scaled_dot_product_attention([], x, x),
        lambda: cache.select([9]), lambda: attnlab.ring.shard(x, 0), lambda: attnlab.ring.positions(4, 2, "spiral"),
        lambda: pages.attend(x, ["a"]), lambda: pages.attend(x, [], foo=1), lambda: pages.write([9], x, x),
        lambda: pages.manager.append("a", 1), lambda: attnlab.costs.forward("flash4", 1, 1, 1, 1),
        lambda: attnlab.measure.extra_bytes(sum), lambda: attnlab.conventions.of(sum), lambda: attnlab.tiled_atention,
        lambda: attnlab.tiled_attention(x, x, x, casual=True), lambda: attnlab.safe_attention(x, x, x, dropout=2),
        lambda: attnlab.tiled_attention_backward(x, y, x, x, x, x), lambda: attnlab.rotary(x, base=-1.0),
        lambda: attnlab.merge((x, x), (x, x)), lambda: attnlab.linear.linear_attention(x, y, x),
        lambda: attnlab.linear.delta_attention(x, y, x, y), lambda: attnlab.linear.hedgehog_loss(x, y, None),
        lambda: cache.attend(x, y, x), lambda: cache.truncate(99), lambda: cache.empty(x, x, capacity=-1),
        lambda: attnlab.paged.paged_attention(x, x, x, x, x), lambda: attnlab.ring.ring_attention(x, y, x),
        lambda: attnlab.ring.tree_attention(x, y, x),
    ]
    for call in (*six, *softmaxes, *others):
        assert frames(call) == []
    with pytest.raises(ValueError, match="cache is full") as caught:
        cache.attend(*[array(library, 1, 2, 7, 8)] * 3)
    assert not [at for at in caught.traceback if at.path.parent.name in ("lib", "_core", "utils")]  # of the libraries


def test_an_error_in_a_program_shows_its_line():
    def program(rank, x):
        yield from attnlab.ring.ring_attention(x, x[:, :2], x, group=rank)

    with pytest.raises(ValueError, match="key has size 2") as caught:
        attnlab.ring.Cluster(2).run(program, [array("numpy", 3, 4)] * 2)
    assert "program" in [entry.name for entry in caught.traceback]
    assert not [entry.name for entry in caught.traceback if HOME in entry.path.parents]


def test_a_line_of_the_callers_is_shown_where_it_called():
    """Also if a finally ran there since."""
    def features(x):
        try:
            return attnlab.tiled_attention(x, x, x, casual=True)
        finally:
            str(x)

    x = array("numpy", 6, 8)
    with pytest.raises(TypeError, match="did you mean causal") as caught:
        attnlab.linear.linear_attention(x, x, x, features=features)
    at = next(x._rawentry for x in caught.traceback if x.name == "features")
    *_, (_, _, start, _) = itertools.islice(features.__code__.co_positions(), at.tb_lasti // 2 + 1)
    assert start == len("            return ")


def test_a_bug_keeps_all_its_frames(monkeypatch):
    x = array("numpy", 6, 8)
    monkeypatch.setattr("attnlab.core.dispatch.check_call", lambda *_, **__: 1 + None)
    assert frames(lambda: attnlab.safe_attention(x, x, x))[-1] == "run_attention"
    assert "linear_attention" in frames(lambda: attnlab.linear.linear_attention(x, x, x, features=lambda _: 1 + None))
