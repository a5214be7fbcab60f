"""Text is UTF-8 wherever it's read or written: Windows has another default, where a moving figure ended in an error."""

import ast

import pytest

from tests.support import ROOT

BINARY = {"rb", "wb", "ab"}
FILES = [path for folder in ("attnlab", "notebooks") for path in sorted((ROOT / folder).rglob("*.py"))]


def without_encoding(text):
    """Lines of calls that read or write text in whatever encoding the system has."""
    for node in ast.walk(ast.parse(text)):
        name = isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", None))
        if name not in ("open", "read_text", "write_text"):
            continue
        of = getattr(getattr(node.func, "value", None), "id", None)
        binary = BINARY & {getattr(x, "value", None) for x in node.args}
        named = "encoding" in {keyword.arg for keyword in node.keywords}
        if of not in ("os", "tarfile", "zipfile") and not binary and not named:
            yield node.lineno


@pytest.mark.parametrize("text", ["p.read_text()", "p.write_text('x')", "open('x')", "open('x', 'w')", "p.open()"])
def test_what_is_found(text):
    assert list(without_encoding(text)) == [1]


def test_text_is_utf8():
    found = {path: list(without_encoding(path.read_text(encoding="utf-8"))) for path in FILES}
    assert len(FILES) > 100
    assert not {str(path): lines for path, lines in found.items() if lines}
