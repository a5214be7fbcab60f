"""The package as type checkers see it: what users write passes, and what is wrong is found."""

import inspect
import json
import os
import re
import subprocess
import sys

import pytest

import attnlab
from attnlab.core.signature import Options
from tests.support import ROOT, needs

USE = ROOT / "tests/places/typed_use.py"
WRONG = {number for number, line in enumerate(USE.read_text().splitlines(), 1) if line.endswith("# wrong")}


def test_the_options_are_those_of_the_functions():
    named = [set(inspect.signature(method).parameters) for method in attnlab.METHODS.values()]
    assert set.union(*named) == {"query", "key", "value", "return_lse"} | set(Options.__annotations__)


def report(name, *arguments):
    """What a checker prints about the file."""
    needs(name)
    command = [sys.executable, "-m", name, *map(str, arguments), str(USE)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=os.environ, timeout=600).stdout


@pytest.mark.full
def test_mypy(tmp_path):
    said = report("mypy", "--strict", "--follow-imports=silent", "--show-column-numbers", "--cache-dir", tmp_path)
    found = {int(number) for number in re.findall(r"typed_use\.py:(\d+):\d+: error", said)}
    assert found == WRONG, said


def test_pyright():
    said = report("pyright", "--outputjson", "--pythonpath", sys.executable)
    errors = [x for x in json.loads(said)["generalDiagnostics"] if x["severity"] == "error"]
    assert {x["range"]["start"]["line"] + 1 for x in errors} == WRONG, said
