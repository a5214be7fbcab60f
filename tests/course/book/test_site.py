"""The book is complete, its links lead somewhere, and it needs nothing from the network."""

import importlib
import platform
import re
import tempfile
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import pytest
from bs4 import BeautifulSoup

from tests.support import ROOT

LESSONS = sorted(path.stem for path in (ROOT / "notebooks").glob("[0-9]*.ipynb"))
ROOMS = ("adapters.flax", "adapters.onnx", "cache", "compat", "conventions", "costs", "linear", "paged", "ring")
OF_COURSE = ("instruments.machine", "model", "plots", "serve")
PUBLIC = ("attnlab", *(f"attnlab.{room}" for room in ROOMS), *(f"attnlab_course.{room}" for room in OF_COURSE))


class Links:
    """What a page refers to, what it loads, and its anchors."""

    def __init__(self, text):
        soup = BeautifulSoup(text, "html.parser")
        self.to = [link["href"] for link in soup("a", href=True)]
        self.loads = [link["href"] for link in soup("link", href=True) if link.get("rel") != ["search"]]
        self.loads += [found["src"] for found in soup(src=True)]
        self.anchors = {"", *(found["id"] for found in soup(id=True))}


@pytest.fixture(scope="module")
def pages(site):
    """The pages of the site by path."""
    return {path: Links(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def target(page, link):
    """The file and the anchor that a link leads to; None if it leads out of the site."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    return (page.parent / unquote(parts.path)).resolve() if parts.path else page, unquote(parts.fragment)


def dead(pages):
    """The links that lead nowhere, and what is loaded from elsewhere."""
    for page, links in pages.items():
        for link in [*links.to, *links.loads]:
            found = target(page, link)
            if found is None:
                if link in links.loads and not link.startswith("data:"):
                    yield f"{page.name} loads {link[:60]}"
            elif not found[0].is_file() or (found[0] in pages and found[1] not in pages[found[0]].anchors):
                yield f"{page.name} refers to {link}"


def test_no_link_is_dead(pages):
    assert sum(len(links.to) for links in pages.values()) > 1000
    assert not [*dead(pages)]


@pytest.mark.parametrize(("html", "wrong"), [
    ('<a href="b.html">', ["a.html refers to b.html"]),
    ('<a href="#b">', ["a.html refers to #b"]),
    ('<h1 id="b"><a href="#b"><a href="a.html#b"><a href="https://example.org">', []),
    ('<img src="b.png">', ["a.html refers to b.png"]),
    ('<script src="https://example.org/x.js">', ["a.html loads https://example.org/x.js"]),
    ('<link rel="stylesheet" href="//example.org/x.css">', ["a.html loads //example.org/x.css"]),
    ('<img src="data:image/png;base64,">', []),
])
def test_a_dead_link_is_noticed(tmp_path, html, wrong):
    (page := tmp_path / "a.html").write_text(html)
    assert [*dead({page: Links(html)})] == wrong


def test_every_page_of_the_course_is_there(site):
    contents = (site / "index.html").read_text(encoding="utf-8")
    games = ["attention_puzzles", "guess_the_bug", "memory_golf", "your_own_engine"]
    for name in [*LESSONS, *games, "recipes", "libraries", "reproductions", "errata", "reference/index"]:
        assert (site / f"{name}.html").is_file()
        assert f'href="{name}.html"' in contents
    glyphs = re.findall(r'<svg [^>]*class="glyph".*?</svg>', contents)  # on a card for each lesson
    assert len(set(glyphs)) == len(glyphs) == contents.count("sd-card-title") == len(LESSONS)


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_has_its_solutions_its_listings_and_its_figures(site, name):
    page = (site / f"{name}.html").read_text(encoding="utf-8")
    cells = nbformat.read(ROOT / f"notebooks/{name}.ipynb", as_version=4).cells
    exercises = sum("exercise" in cell.metadata.get("tags", []) for cell in cells)
    assert exercises > 0
    assert page.count('<span class="sd-summary-text">Solution</span>') == exercises
    for part in page.split('class="cell tag_check')[1:]:  # what helps stands below the cell that checks
        below = part.partition("tag_exercise")[0]
        assert 0 < below.index("<summary>Hint 1 of ") < below.index(">Solution</span>")
    assert page.count("not attempted<") == page.count("not attempted yet") == 0
    assert page.count(": right, on ") >= exercises
    solved = {cell.id: cell for cell in nbformat.read(ROOT / f"notebooks/solutions/{name}.ipynb", as_version=4).cells}
    cells = [solved[cell.id] if "predict" in cell.metadata.get("tags", []) else cell for cell in cells]
    outputs = [output.get("data", {}) for cell in cells for output in cell.get("outputs", [])]
    shown = len(re.findall(r'<img alt=|<svg [^>]*class="drawn"', page))
    assert shown == sum("<img alt=" in data.get("text/html", "") for data in outputs)
    folds = [data.get("text/markdown", "") for data in outputs]
    listings = sum("<summary><b>JAX</b> &nbsp; <code>" in text and text.count("<summary><b>") > 1 for text in folds)
    assert len(re.findall(r'class="sd-tab-label"[^>]*>\s*JAX', page)) == listings
    assert "SOLUTION" not in page


@pytest.mark.parametrize("package", PUBLIC)
def test_the_reference_has_every_public_function(site, package):
    pages = [path.read_text(encoding="utf-8") for path in (site / "reference").glob("*.html")]
    found = [anchor.split(".") for page in pages for anchor in Links(page).anchors if anchor and "." in anchor]
    module = importlib.import_module(package)
    wanted = {name for name in module.__all__ if callable(getattr(module, name))}
    assert wanted <= {name for *prefix, name in found if ".".join(prefix).startswith("attnlab")}


def test_nothing_names_this_machine(site):
    private = {str(ROOT), str(Path.home()), tempfile.gettempdir()}
    places = re.compile("|".join(rf"(?<![\w.]){re.escape(place)}(?![\w.-])" for place in private - {"/", "/root"}))
    host = platform.node()
    for path in {*site.rglob("*.html"), *site.rglob("*.js")} - {*site.glob("_static/pyodide/*")}:
        text = re.sub(r"base64,[A-Za-z0-9+/=]+", "", path.read_text(encoding="utf-8"))
        assert not places.search(text), path
        assert len(host) < 5 or host.isalpha() or host not in text, path


@pytest.mark.parametrize(("name", "math"), [("index", False), ("03_online_softmax", True)])
def test_only_a_page_with_formulas_asks_for_their_font_at_once(soup, name, math):
    assert bool(soup(name).select('link[rel="preload"][href*="stix"]')) == math
