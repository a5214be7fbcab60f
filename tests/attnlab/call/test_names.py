"""No name of a class has two meanings in the package."""

import ast
from collections import defaultdict
from pathlib import Path

import attnlab
from attnlab.core.arguments import LIBRARIES


def meaning(path):
    """The place of a class; the files of one folder that serve the three libraries are one place."""
    return path.parent if path.stem.partition("_")[0] in LIBRARIES else path


def with_two_meanings(*packages):
    """Names of classes that several places define, and where."""
    places = defaultdict(list)
    for path in sorted(path for package in packages for path in Path(package.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(path)
    return {name: found for name, found in places.items() if len({meaning(path) for path in found}) > 1}


def test_no_class_is_named_like_another_one():
    assert with_two_meanings(attnlab) == {}
