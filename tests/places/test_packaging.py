"""Two distributions, a folder each: what it holds, that it works where only its dependencies are, and the extras."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import attnlab_course
import nbformat
import numpy as np
import pytest
from packaging.requirements import Requirement

import attnlab
from tests.support import ROOT, needs

PROJECT, COURSE = (
    tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"] for folder in (".", "notebooks")
)
EXTRAS = PROJECT["optional-dependencies"] | {"the course": COURSE["dependencies"]}
DEPENDENCIES = {Requirement(text).name for text in PROJECT["dependencies"]}
LESSONS = [*ROOT.glob("notebooks/solutions/*.ipynb"), *ROOT.glob("notebooks/[a-z]*.ipynb")]
OPTIONAL = {"jaxtyping"}  # checks shapes in tests; attnlab.core.shapes does without
PACKAGE, OF_COURSE = (
    {x.relative_to(package.parent).as_posix() for x in package.rglob("*") if x.is_file() and x.suffix != ".pyc"}
    for package in (ROOT / "attnlab", ROOT / "notebooks" / "attnlab_course")
)
PACKAGE -= {PROJECT["readme"]}  # in the metadata
BUILD = "import sys; from setuptools import build_meta; build_meta.build_{}(sys.argv[1])"
SMOKE = """
import importlib
import importlib.metadata
import importlib.util
import sys

import numpy as np

import attnlab

assert attnlab.__file__.startswith(sys.prefix), attnlab.__file__
others = "jax", "torch", "triton", "matplotlib", "jaxtyping", "tests", "tqdm", "notebooks", "attnlab_course"
assert not any(map(importlib.util.find_spec, others))
assert importlib.metadata.version("attnlab") == attnlab.__version__
query, key, value = np.random.default_rng(0).normal(size=(3, 8, 100, 16))
scores = query @ key.mT / 4
weights = np.exp(scores - scores.max(-1, keepdims=True))
expected = weights / weights.sum(-1, keepdims=True) @ value
for method in attnlab.METHODS:
    np.testing.assert_allclose(attnlab.attention(query, key, value, method), expected, rtol=1e-12, atol=1e-12)
attnlab.cache.KVCache.empty(key, value, capacity=100).attend(query, key, value)
assert attnlab.measure.extra_bytes(attnlab.tiled_attention, query, key, value) > 0
assert [room for room in attnlab.ROOMS if not hasattr(attnlab, room)] == ["compat"]  # PyTorch's own call
CALLS = (lambda: attnlab.check, lambda: attnlab.compat, lambda: importlib.import_module("attnlab.tiled.jax"))
for call in CALLS:
    try:
        call()
    except (AttributeError, ImportError) as error:
        print(error)
"""
WITH_COURSE = """
from attnlab_course import check, model, published

assert published.load("rs_table2").rows
assert len(model.load().generate(model.excerpt()[:50], 5)) == 5
assert check.find("online_stats").hints
"""
PATTERN = r"pip install '?([\w\[\]-]+)'?(?:; |$)"


def run(*command: object, cwd: Path) -> str:
    """The output of a command that must succeed, in an environment without settings for Python and pip."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_"))}
    done = subprocess.run([*map(str, command)], cwd=cwd, env={**kept, "PIP_CONFIG_FILE": os.devnull},
                          stdout=-1, stderr=-2, text=True, timeout=600, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Wheels and sdists of both, by kind and name, built in a copy: setuptools leaves files where it builds."""
    copy, dist = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("dist")
    litter = shutil.ignore_patterns("__pycache__", "*.ipynb", "*.egg-info")
    for name in ("attnlab", "tests", "notebooks", ".ci"):
        shutil.copytree(ROOT / name, copy / name, ignore=litter)
    for name in ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "Makefile", "requirements.txt"):
        shutil.copy(ROOT / name, copy)
    for folder in (".", "notebooks"):
        for kind in ("wheel", "sdist"):
            run(sys.executable, "-c", BUILD.format(kind), dist, cwd=copy / folder)
    kinds = {".whl": "wheel", ".gz": "sdist"}
    return {f"{kinds[path.suffix]} of {path.name.partition('-')[0]}": path for path in dist.iterdir()}


@pytest.mark.parametrize(("which", "files", "licenses", "license"), [
    ("attnlab", PACKAGE, ["LICENSE"], "MIT"),
    ("attnlab_course", OF_COURSE, ["LICENSE", "LICENSE.excerpt"], "MIT AND PSF-2.0"),
])  # fmt: skip
def test_a_wheel_holds_its_part_and_nothing_else(built, which, files, licenses, license):
    archive = zipfile.ZipFile(built[f"wheel of {which}"])
    names = archive.namelist()
    assert {name for name in names if ".dist-info/" not in name} == files
    assert sorted(name.partition("/licenses/")[2] for name in names if "/licenses/" in name) == licenses
    metadata = archive.read(next(name for name in names if name.endswith("/METADATA"))).decode()
    assert f"\nVersion: {attnlab.__version__}\n" in metadata
    assert f"\nLicense-Expression: {license}\n" in metadata


def test_the_page_of_the_package_stands_alone():
    """What an index shows: links and pictures that are not absolute would lead nowhere."""
    page = (ROOT / PROJECT["readme"]).read_text(encoding="utf-8")
    assert "attnlab" in page.splitlines()[0]
    assert [link for link in re.findall(r"\]\(([^)]*)\)|<img|src=", page) if not link.startswith("https://")] == []
    for room in re.findall(r"`attnlab\.(\w+)`", page):
        assert hasattr(attnlab, room) or (ROOT / f"attnlab/{room}").exists(), room


def test_one_version():
    """The course wants the functions of its own version; citation and changelog name it."""
    assert attnlab_course.__version__ == attnlab.__version__
    wanted = next(Requirement(text) for text in COURSE["dependencies"] if text.startswith("attnlab"))
    assert str(wanted.specifier) == f"=={attnlab.__version__}"
    assert f"\nversion: {attnlab.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## {attnlab.__version__}, " in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize(("which", "files"), [
    ("attnlab", {*PACKAGE, "pyproject.toml", "MANIFEST.in", "README.md", "attnlab/README.md", "LICENSE"}),
    ("attnlab_course", {*OF_COURSE, "pyproject.toml", "README.md", "LICENSE", "LICENSE.excerpt"}),
])  # fmt: skip
def test_an_sdist_holds_what_the_wheel_is_built_from(built, which, files):
    with tarfile.open(built[f"sdist of {which}"]) as archive:
        names = {entry.name.partition("/")[2] for entry in archive if entry.isfile()}
    made = {name for name in names if name in ("PKG-INFO", "setup.cfg") or name.startswith(f"{which}.egg-info/")}
    assert names - made == files


@pytest.mark.full
def test_the_wheel_of_the_sdist_works_where_only_its_dependencies_are(built, tmp_path):
    with tarfile.open(built["sdist of attnlab"]) as archive:
        archive.extractall(tmp_path, filter="data")
    run(sys.executable, "-c", BUILD.format("wheel"), tmp_path, cwd=next(tmp_path.glob("attnlab-*")))
    wheel = tmp_path / built["wheel of attnlab"].name
    assert contents(wheel) == contents(built["wheel of attnlab"])

    venv.create(tmp_path / "venv")
    python = tmp_path / "venv/bin/python"
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path).strip()
    for name in DEPENDENCIES:
        for path in Path(np.__file__).parents[1].glob(f"{name}*"):  # and its dynamic libraries
            Path(site, path.name).symlink_to(path)
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    run(*pip, "install", "--no-index", wheel, cwd=tmp_path)
    missing = run(python, "-I", "-W", "error", "-c", SMOKE, cwd=tmp_path).splitlines()
    wanted = ["attnlab-course", "attnlab[torch]", "attnlab[jax]"]
    assert [re.search(PATTERN, line)[1] for line in missing] == wanted
    run(*pip, "install", "--no-index", "--no-deps", built["wheel of attnlab_course"], cwd=tmp_path)
    run(python, "-I", "-W", "error", "-c", WITH_COURSE, cwd=tmp_path)


def contents(wheel: Path) -> dict[str, int]:
    """The files of a wheel and their checksums; those of its record follow from them."""
    return {entry.filename: entry.CRC for entry in zipfile.ZipFile(wheel).infolist()}


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_pins_satisfy_an_extra(extra):
    text = (ROOT / "requirements.txt").read_text() + (ROOT / ".ci/run").read_text()
    pins = {canonical(name): version for name, version in re.findall(r"([\w.-]+)==([\w.]+)", text)}
    wanted = [Requirement(text) for text in (*PROJECT["dependencies"], *EXTRAS[extra])]
    for requirement in wanted:
        if requirement.name == PROJECT["name"]:
            assert requirement.extras <= set(PROJECT["optional-dependencies"])
        else:
            assert [bound.operator for bound in requirement.specifier] == [">="], requirement
            assert requirement.specifier.contains(pins[canonical(requirement.name)]), requirement


def test_the_extras_are_what_the_package_imports():
    imported = {name for path in ROOT.glob("attnlab/**/*.py") for name in imports(path.read_text())}
    extras = {Requirement(text).name for texts in PROJECT["optional-dependencies"].values() for text in texts}
    extras -= {"ml_dtypes"}  # JAX does, for bfloat16
    assert imported - sys.stdlib_module_names == {*DEPENDENCIES, *extras, *OPTIONAL, "attnlab"}


def test_the_extras_name_what_the_course_imports():
    cells = [cell.source for path in LESSONS for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]
    code = [re.sub(r"(?m)^( *)%", r"\1pass  #", cell) for cell in cells]  # %pip is no Python
    code += [path.read_text() for path in ROOT.glob("notebooks/attnlab_course/**/*.py")]
    imported = {name for text in code for name in imports(text)}
    wanted = [*EXTRAS.values(), *COURSE["optional-dependencies"].values()]
    named = {canonical(Requirement(text).name) for texts in wanted for text in texts}
    named |= DEPENDENCIES | {"attnlab", "attnlab-course"}
    assert {canonical(name) for name in imported - sys.stdlib_module_names} <= named


def imports(code: str) -> set[str]:
    """The packages that code imports."""
    nodes = [*ast.walk(ast.parse(code))]
    direct = {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    return {name.split(".")[0] for name in direct | {n.module for n in nodes if isinstance(n, ast.ImportFrom)}}


def canonical(name: str) -> str:
    """The name of a package as indexes spell it."""
    return name.lower().replace("_", "-")


def packages(extra: str) -> set[str]:
    """What an extra wants, and the extras that it names."""
    wanted = [Requirement(text) for text in EXTRAS[extra]]
    inner = [packages(name) for requirement in wanted for name in requirement.extras]
    return {requirement.name for requirement in wanted if requirement.name != "attnlab"}.union(*inner)


@pytest.mark.full
@pytest.mark.parametrize("extra", EXTRAS)
def test_pip_finds_an_extra(built, tmp_path, extra):
    needs(*sorted(packages(extra) - packages("the course")))  # which requirements.txt has
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    ours, course = built["wheel of attnlab"], built["wheel of attnlab_course"]
    what = [ours, course] if extra == "the course" else [f"{ours}[{extra}]"]
    said = run(*pip, "install", "--dry-run", "--no-index", *what, cwd=tmp_path)
    assert "does not provide the extra" not in said
    found = ["attnlab", "attnlab-course"][: len(what)]
    assert said.splitlines()[-1] == f"Would install {' '.join(f'{name}-{attnlab.__version__}' for name in found)}"
