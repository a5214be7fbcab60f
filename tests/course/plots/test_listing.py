"""Listings in notebooks: what a displayed function calls and its file defines is displayed as well."""

import ast
import re

import pytest
from attnlab_course.plots import listing

from attnlab.core.arguments import LIBRARIES
from tests.support import ROOT

LESSONS = (ROOT / "notebooks" / "lessons").glob("*.md")
TEXT = "\n".join(path.read_text(encoding="utf-8") for path in LESSONS)
CORES = [(f"{name}/{library}.py", [f"{name}_attention"], lambda name=name, library=library: listing.core(name, library))
         for name in sorted(set(re.findall(r'listing\.backends\("(\w+)"', TEXT))) for library in LIBRARIES]


def shown_by_functions(call, library, monkeypatch):
    """What ``listing.functions`` displays for one library, as (file, code)."""
    held = {}
    monkeypatch.setattr(listing, "fold", lambda listings, unfold: held.update(listings))
    listing.functions(*call)
    return held[library]


def calls_are_displayed(file, code, names):
    """Every function that the listing names and its file defines is in the listing."""
    defined = {node.name for node in ast.parse(listing.source(file)).body if isinstance(node, ast.FunctionDef)}
    displayed = {node.name for node in ast.parse(code).body if isinstance(node, ast.FunctionDef)}
    named = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
    assert set(names) <= displayed
    assert named & defined <= displayed
    assert all(part in listing.source(file) for part in code.split("\n\n\n"))  # never reworded


@pytest.mark.parametrize(("file", "names", "code"), CORES, ids=[file for file, *_ in CORES])
def test_a_core_is_displayed_with_what_it_calls(file, names, code):
    calls_are_displayed(file, code(), names)


NAMES = {"numpy": "backward", "jax": "flash_gradient", "torch": "backward"}
EXCERPTS = [(f"tiled/{library}_grad.py", name) for library, name in NAMES.items()]
FUNCTIONS = [re.findall(r'"(\w+)"', call) for call in re.findall(r"listing\.functions\((.+?)\)", TEXT)]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("call", FUNCTIONS, ids=" ".join)
def test_functions_are_displayed_with_what_they_call(call, library, monkeypatch):
    calls_are_displayed(*shown_by_functions(call, library, monkeypatch), call[1:])


@pytest.mark.parametrize(("file", "name"), EXCERPTS)
def test_an_excerpt_shows_what_it_calls(file, name):
    calls_are_displayed(file, listing.excerpt(file, name), [name])


def test_a_listing_is_folded_under_the_names_of_the_libraries(monkeypatch):
    import IPython.display

    shown = []
    monkeypatch.setattr(IPython.display, "display", shown.append)
    listing.backends("naive", unfold="jax")
    text = shown[0].data
    assert [text.index(f"<b>{name}</b>") for name in LIBRARIES.values()] == sorted(
        text.index(f"<b>{name}</b>") for name in LIBRARIES.values())
    assert text.count("<details open>") == 1
    assert "<details open><summary><b>JAX</b>" in text
