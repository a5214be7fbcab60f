"""The same names, in the same order, with the same defaults, everywhere; and documented."""

import importlib
import inspect
import pathlib
import pkgutil
import re

import numpy as np
import pytest

import attnlab
from tests.support import needs, typechecker
from tests.support.libraries import ALGORITHMS, EVERYWHERE, LIBRARIES, blocks_of, to

OPTIONS = {
    "causal": False, "window": None, "offset": None, "mask": None, "bias": None, "segments": None, "scale": None,
    "dropout": 0.0, "seed": None, "return_lse": False,
}  # fmt: skip
def expected(algorithm):
    """Parameter names and defaults, in order."""
    blocks = blocks_of(algorithm, (None, None)) | ({"block_mask": None} if algorithm == "tiled" else {})
    return [*[(name, inspect.Parameter.empty) for name in ("query", "key", "value")], *{**OPTIONS, **blocks}.items()]


def backend(algorithm, library):
    """The function in the library's own file."""
    return getattr(importlib.import_module(f"attnlab.{algorithm}.{library}"), f"{algorithm}_attention")


@pytest.mark.parametrize("library", [None, *LIBRARIES])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_parameters(algorithm, library):
    f = backend(algorithm, library) if library else getattr(attnlab, f"{algorithm}_attention")
    parameters = inspect.signature(f).parameters.values()
    assert [(p.name, p.default) for p in parameters] == expected(algorithm)
    kinds = [p.kind for p in parameters]
    assert kinds[:3] == [inspect.Parameter.POSITIONAL_OR_KEYWORD] * 3
    assert set(kinds[3:]) == {inspect.Parameter.KEYWORD_ONLY}


@EVERYWHERE
def test_arrays_by_name_and_the_public_backend(algorithm, library):
    """Positional or by name, through the package or through the library's own file: one function."""
    x = dict(zip(("query", "key", "value"), (to(library, np.eye(3, dtype=np.float32) * k) for k in (1, 2, 3))))
    one = getattr(attnlab, f"{algorithm}_attention")(**x)
    other = backend(algorithm, library)(*x.values())
    np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_method_chooses_the_algorithm(algorithm, monkeypatch):
    x = np.eye(3, dtype=np.float32)
    seen = []
    monkeypatch.setitem(attnlab.METHODS, algorithm, lambda *args, **options: seen.append((args, options)))
    attnlab.attention(x, x, x, method=algorithm, causal=True)
    assert seen == [((x, x, x), {"causal": True})]
    attnlab.attention(x, x, x)
    assert len(seen) == 1 + (algorithm == "tiled")  # the default


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_docstrings(algorithm):
    """Shapes, dtypes, alignment of causal, errors, source and memory are told where help() looks."""
    text = getattr(attnlab, f"{algorithm}_attention").__doc__
    shapes = "(..., Hq, N, D)", "(..., Hk, M, D)", "(..., Hk, M, Dv)"
    words = "float16", "bottom right", "is_causal", "Raises TypeError", "ValueError", "Extra memory"
    for word in (*shapes, *words, *OPTIONS, *blocks_of(algorithm, (1, 1))):
        assert word in text, word
    assert re.search(r"\b20\d\d\b", text), "no paper is named as the source"


def test_each_backend_has_the_documentation():
    for algorithm in ALGORITHMS:
        first = getattr(attnlab, f"{algorithm}_attention").__doc__.splitlines()[0]
        for library in LIBRARIES:
            assert inspect.getdoc(backend(algorithm, library)).startswith(first)


def modules(package):
    """Every module of a package."""
    names = [module.name for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    return [name for name in names if not name.endswith("__main__")]


TRITON = [name for name in modules(attnlab) if name.startswith("attnlab.kernels.triton.") and not name.endswith(".gpu")]
TRITON += ["attnlab.tiled.triton"]
NEEDS = dict.fromkeys(TRITON, "triton") | {f"attnlab.adapters.{name}": name for name in ("transformers", "equinox")}


@pytest.mark.parametrize("name", modules(attnlab))
def test_modules_and_public_functions_have_docstrings(name):
    if name in NEEDS:
        needs(NEEDS[name])
    assert importlib.import_module(name).__doc__
    assert undocumented(name) == []


def undocumented(name):
    """The public functions of a module that have no docstring."""
    functions = [item for item in vars(importlib.import_module(name)).values() if inspect.isfunction(item)]
    own = [item for item in functions if item.__module__ == name and not item.__name__.startswith("_")]
    return [item.__name__ for item in own if not item.__doc__]


def check_imports(package, first):
    """Read from the source: a backend's file names no other backend's module and no other library."""
    for name in modules(package):
        if name.rpartition(".")[2].partition("_")[0] == first:
            source = inspect.getsource(importlib.import_module(name))
            for other in set(LIBRARIES) - {first}:
                assert f".{other} import" not in source, name
                assert f"import {other}\n" not in source, name


@pytest.mark.parametrize("first", LIBRARIES)
def test_files_of_different_backends_never_import_one_another(first):
    check_imports(attnlab, first)


def annotating_shapes(package):
    """The modules of a package that annotate shapes."""
    folder = pathlib.Path(package.__file__).parent
    paths = [path for path in folder.rglob("*.py") if re.search(r"\b(Float|Bool|UInt32)\[Array", path.read_text())]
    return [".".join(path.relative_to(folder.parent).with_suffix("").parts) for path in paths]


def test_every_annotated_shape_is_checked():
    checked = tuple(typechecker.modules())
    names = set(annotating_shapes(attnlab)) - {"attnlab.core.shapes"}
    assert len(names) > 20
    assert [name for name in names if not name.startswith(checked)] == []


APART = {"device", "buffer", "factor"}  # where an array lies, memory that is there already, what is left of a scale


def helpers(room, library):
    """The parameters of each function that a room's file defines, without those that one library alone needs."""
    module = importlib.import_module(f"{room}.{library}")
    found = {name: inspect.unwrap(x) for name, x in vars(module).items() if callable(x) and not isinstance(x, type)}
    own = {name: f for name, f in found.items() if inspect.isfunction(f) and f.__module__ == module.__name__}
    return {name: [p for p in inspect.signature(f).parameters if p not in APART] for name, f in own.items()}


SERVED = ["core.arrays", "core.dropout", "core.scores", "softmax", "linear", "rotation", "cache", "paged"]


def check_parameters(room):
    """Functions of one name in the files of a room have the same parameters."""
    by_library = {library: helpers(room, library) for library in LIBRARIES}
    for name in {name for found in by_library.values() for name in found}:
        signatures = {library: found[name] for library, found in by_library.items() if name in found}
        assert len({tuple(s) for s in signatures.values()}) == 1, f"{room}.{name}: {signatures}"


@pytest.mark.parametrize("room", SERVED)
def test_helpers_of_one_name_have_the_same_parameters(room):
    check_parameters(f"attnlab.{room}")


CORES = [f"{name}/{library}" for name in ALGORITHMS for library in LIBRARIES]


def comments_of(file):
    """The comments at the ends of a file's lines."""
    return re.findall(r"  # (.*)", (pathlib.Path(attnlab.__file__).parent / f"{file}.py").read_text())


@pytest.mark.parametrize("file", CORES)
def test_a_core_tells_its_shapes(file):
    assert any("(..., Hk, G" in comment for comment in comments_of(file))
