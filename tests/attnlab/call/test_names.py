"""No name of a class has two meanings in the package."""

import ast
from collections import defaultdict
from pathlib import Path

import attnlab
from attnlab.core.arguments import LIBRARIES

PACKAGE = Path(attnlab.__file__).parent


def meaning(path):
    """The place of a class; the files of one folder that serve the three libraries are one place."""
    return path.parent if path.stem.partition("_")[0] in LIBRARIES else path


def test_no_class_is_named_like_another_one():
    places = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(path)
    twice = {name: found for name, found in places.items() if len({meaning(path) for path in found}) > 1}
    assert not twice
