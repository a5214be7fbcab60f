"""Where else the course opens: its cell for Google Colab, Binder's files and the dev container's."""

import json
import os
import re
import sys
import tomllib
from pathlib import Path

import nbformat
import pytest
from packaging.specifiers import SpecifierSet

from tests.course import test_build
from tests.course.test_build import build, make_course
from tests.support import ROOT

TEXT = "# Toy\n\n```{code-cell}\n6 * 7\n```\n\nThe end.\n"
URLS = '[project.urls]\nSource = "https://example.org/attnlab"\n'
WHEELS = "attnlab-1.2.3-py3-none-any.whl", "attnlab_course-1.2.3-py3-none-any.whl"
SOURCE = "git+https://example.org/attnlab"
FROM_WHEEL, FROM_SOURCE = " ".join(WHEELS), f"attnlab @ {SOURCE} attnlab-course @ {SOURCE}#subdirectory=notebooks"
IN_A_SHELL = """
import os
import sys
from pathlib import Path

from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
shell.system = lambda command: os.system(command.replace(sys.executable, "echo"))  # says what would be run
if sys.argv[2] == "colab":
    sys.modules["google.colab"] = sys
sys.exit(not shell.run_cell(Path(sys.argv[1]).read_text()).success)
"""
CPU = re.compile(r"--extra-index-url https://download\.pytorch\.org/whl/cpu\b")


def run(*command: object, cwd: Path, **env: object) -> str:
    """What a command says that must succeed."""
    status, said = test_build.run(*command, cwd=cwd, **env)
    assert status == 0, said
    return said


@pytest.mark.full
@pytest.mark.parametrize(("urls", "what"), [("", FROM_WHEEL), (URLS, FROM_SOURCE)], ids=["wheel", "address"])
def test_a_notebook_installs_the_course_on_colab_only(tmp_path, urls, what):
    course = make_course(tmp_path, TEXT)
    (course / "pyproject.toml").write_text(f'[project]\nname = "attnlab"\n{urls}')
    assert "2 notebooks built" in build(course)[1]
    assert build(course, "--check") == (0, "")
    for name in ("01_toy.ipynb", "solutions/01_toy.ipynb"):
        cells = nbformat.read(course / "notebooks" / name, as_version=4).cells
        assert [cell.id for cell in cells] == ["01-001", "01-colab", "01-002", "01-003"]
        cell = cells[1]
        assert cell.outputs == []
        assert cell.metadata == {"jupyter": {"source_hidden": True}, "tags": ["hide-input", "remove-cell"]}
    (course / "cell").write_text(cell.source)
    for wheel in WHEELS:
        (course / wheel).touch()  # as if it had been uploaded
    shell = (sys.executable, "-c", IN_A_SHELL, "cell")
    elsewhere, colab = (run(*shell, place, cwd=course, IPYTHONDIR=course) for place in ("elsewhere", "colab"))
    assert elsewhere == ""
    assert colab.splitlines()[0] == f"-m pip install --quiet {what}"


def test_binder_installs_the_pins_from_the_index_for_cpus():
    folder = ROOT / ".binder"
    options = [line for line in (folder / "requirements.txt").read_text().splitlines() if line[:1] != "#"]
    assert CPU.fullmatch(options[0])
    assert (folder / options[1].removeprefix("-r ")).resolve() == ROOT / "requirements.txt"
    name, version = (folder / "runtime.txt").read_text().strip().split("-")
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert name == "python"
    assert SpecifierSet(wanted).contains(version)


@pytest.mark.full
def test_binder_fills_work(tmp_path):
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin/python"
    fake.write_text(f'#!/bin/sh\ncase "$*" in "-m pip "*) echo "$*" ;; *) exec {sys.executable} "$@" ;; esac\n')
    fake.chmod(0o755)
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks/work.py").write_bytes((ROOT / "notebooks/work.py").read_bytes())
    toy = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "notebooks/01_toy.ipynb").write_text(json.dumps(toy))
    env = {"PATH": f"{fake.parent}:{os.environ['PATH']}", "JUPYTER_DATA_DIR": str(tmp_path)}
    said = run(ROOT / ".binder/postBuild", cwd=tmp_path, **env).splitlines()
    install = "-m pip install --no-cache-dir --no-deps --no-build-isolation -e . -e ./notebooks"
    assert said == [install, "New in work/: 01_toy.ipynb"]
    assert json.loads((tmp_path / "work/01_toy.ipynb").read_text())["cells"] == []


def test_the_dev_container_runs_the_set_up():
    container = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text())
    setup, fill = container["postCreateCommand"].split(" && ")
    assert re.search(rf"^{setup.removeprefix('make ')}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert fill == ".venv/bin/python notebooks/work.py fill"
    assert CPU.fullmatch(container["containerEnv"]["PIP_ARGS"])
    assert set(container["forwardPorts"]) == {int(port) for port in container["portsAttributes"]}
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert SpecifierSet(wanted).contains(container["image"].rpartition(":")[2])


def test_the_addresses_of_pytorch_are_the_same_everywhere():
    for name in ("README.md", "requirements.txt", ".github/workflows/ci.yml"):
        assert CPU.search((ROOT / name).read_text()), name
