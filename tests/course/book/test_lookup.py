"""Pages on which something is looked up: errata have addresses, Recipes begin with names, lessons link the glossary."""

import importlib
import re

import nbformat
import pytest

from attnlab.core.other_names import BY_FUNCTION, OF_THE_SIX
from tests.support import ROOT

LESSONS = sorted(path.stem for path in (ROOT / "notebooks").glob("[0-9]*.ipynb"))
NEVER = ["code", "pre", "svg", "h1", "h2", "h3", "summary", "script", "style"]


def test_every_erratum_has_an_address(soup):
    cells = nbformat.read(ROOT / "notebooks/errata.ipynb", as_version=4).cells
    written = [x for cell in cells for x in re.findall(r"^\*\*(\d+)\. ", cell.source, re.MULTILINE)]
    page = soup("errata")
    assert [found["id"] for found in page.select("p[id^=erratum-]")] == [f"erratum-{n}" for n in written]
    assert len(written) > 15
    assert [link["href"] for link in page.select("article li a")] == [f"#erratum-{n}" for n in written]
    assert page.select(".cell_output")


def test_an_erratum_that_is_cited_is_linked(soup):
    links = soup("reproductions").select('a[href^="errata.html#erratum-"]')
    assert len(links) >= 3
    assert all(link["href"].endswith(re.search(r"\d+", link.text)[0]) for link in links)


def test_recipes_begin_with_names(soup):
    article = soup("recipes").select_one("article")
    first = article.select_one("table")
    assert first.select_one("th").text == "elsewhere"
    code = article.select_one(".cell_input")
    assert {"here", "you come from"} <= {cell.text for table in code.find_all_previous("table") for cell in table("th")}
    for name in re.findall(r"attnlab\.[\w.]+", first.text):
        module, _, what = name.rpartition(".")
        assert callable(getattr(importlib.import_module(module), what)), name
    table = first.find_next("table").text
    rows = [row for rows in (OF_THE_SIX, *BY_FUNCTION.values()) for row in rows]
    assert all(name in table for names, _ in rows for name in names.split())


def prose(article):
    """The pieces of text that may have links to the glossary, in order: with the link, or None."""
    for text in article.find_all(string=True):
        if not text.find_parent(NEVER) and not text.find_parent(class_="math"):
            link = text.find_parent("a")
            if link is None or "term" in link.get("class", []):
                yield " ".join(text.split()), link


@pytest.mark.thin(3)
@pytest.mark.parametrize("name", LESSONS)
def test_a_word_is_linked_to_the_glossary_where_it_is_used_first(soup, name):
    entries = {term["id"]: term.text.split(", ") for term in soup("glossary").select("dt[id]")}
    article = soup(name).select_one("article")
    pieces, words = [*prose(article)], [word for names in entries.values() for word in names]
    assert sum(link is not None for _, link in pieces) == len(article.select("a.term")) > 10
    before, linked = "", set()
    for piece, link in pieces:
        if link is None:
            before += f" | {piece}"
            continue
        names = entries[link["href"].removeprefix("glossary.html#")]
        term = next(word for word in names if piece.startswith((word, word.capitalize())))
        assert term not in linked
        linked.add(term)
        if not any(term in word and term != word for word in words):
            spelled = "|".join(map(re.escape, {term, term[0].upper() + term[1:]}))
            assert not re.search(rf"(?<![\w-])(?:{spelled})(?:s|es)?(?![\w-])", before), term
