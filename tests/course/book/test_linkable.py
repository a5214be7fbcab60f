"""What a reader may want to cite has an address: equations, figures, headings, pages."""

import re
import runpy
from collections import Counter

import nbformat
import pytest

from tests.support import ROOT

LESSONS = sorted(path.stem for path in (ROOT / "notebooks").glob("[0-9]*.ipynb"))
TAG = re.compile(r"\\tag\{([\d.]+)\}")


@pytest.fixture(scope="module")
def soups(soup):
    """The pages of the lessons."""
    return {name: soup(name) for name in LESSONS}


def prose(name):
    """The text cells of a lesson."""
    cells = nbformat.read(ROOT / f"notebooks/{name}.ipynb", as_version=4).cells
    return "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


@pytest.mark.thin(3)
@pytest.mark.parametrize("name", LESSONS)
def test_every_equation_has_an_anchor(soups, name):
    anchors = Counter(found["id"] for found in soups[name].find_all(id=True))
    assert all(anchors[f"eq-{tag.replace('.', '-')}"] == 1 for tag in TAG.findall(prose(name)))


def test_every_citation_of_an_equation_is_a_link_to_it(soups):
    known = {tag for name in LESSONS for tag in TAG.findall(prose(name))}
    cited = re.compile(r"\((\d+\.\d+)\)")
    anchors = {name: {found["id"] for found in soup.find_all(id=True)} for name, soup in soups.items()}
    across = 0
    for name, soup in soups.items():
        for text in soup.select_one("article").find_all(string=cited):
            elsewhere = ["a", "pre", "code", "svg", "h1", "h2", "h3", "summary"]
            if not text.find_parent(elsewhere) and not text.find_parent(class_="math"):
                assert not known.intersection(cited.findall(text)), (name, text)
        for link in soup.select("a.eq"):
            tag = link.text.strip("()")
            page, _, anchor = link["href"].partition("#")
            assert anchor == f"eq-{tag.replace('.', '-')}"
            assert f">({tag})<" in link["data-formula"]
            assert anchor in anchors[page.removesuffix(".html") or name]
            across += bool(page)
    assert across > 20


@pytest.mark.parametrize("name", LESSONS)
def test_every_figure_has_a_number_and_a_caption(soups, name):
    soup, chapter = soups[name], int(name[:2])
    captions = [figure.select_one("figcaption") for figure in soup.select("article figure")]
    labels = [caption.select_one("a.number").text for caption in captions]
    assert labels == [f"Figure {chapter}.{n}" for n in range(1, len(labels) + 1)]
    assert len(labels) == len(soup.select(".cell_output :is(img, svg.drawn)"))
    assert all(len(caption.text) > len(label) + 20 and ".." not in caption.text.replace("...", "")
               for caption, label in zip(captions, labels))
    own = [[part for part in caption.find_all(string=True) if not part.find_parent("details")] for caption in captions]
    assert all(len("".join(said)) < 250 for said in own)


@pytest.mark.parametrize("name", LESSONS)
def test_a_page_says_elsewhere_what_it_is(soups, site, name):
    has = {meta.get("property", meta.get("name")): meta.get("content") for meta in soups[name].find_all("meta")}
    assert has["og:title"].startswith(f"{name[:2]} · ")
    assert len(has["description"]) > 100
    assert (site / has["og:image"]).stat().st_size > 5_000
    links = {link["rel"][0]: link["href"] for link in soups[name].select("nav.neighbors a")}
    at = LESSONS.index(name)
    assert at in (0, len(LESSONS) - 1) or links == {
        "prev": f"{LESSONS[at - 1]}.html", "next": f"{LESSONS[at + 1]}.html",
    }  # fmt: skip


def test_a_citation_shows_its_formula(page, phone, address):
    page.goto(f"{address}/08_tiled_attention.html", wait_until="load")
    link = page.locator("a.eq:visible").first
    link.hover()
    page.locator("#formula math").wait_for(state="visible")
    page.keyboard.press("Escape")
    page.locator("#formula").wait_for(state="hidden")
    link.focus()
    page.locator("#formula math").wait_for(state="visible")
    phone.goto(page.url)  # where the first tap shows and the second goes
    link = phone.locator("a.eq:visible").first
    link.tap()
    phone.locator("#formula math").wait_for(state="visible")
    link.tap()
    phone.wait_for_url("**/*#eq-*")


def test_the_sidebar_shows_what_is_read(page, address):
    page.goto(f"{address}/00_start_here.html", wait_until="load")
    assert page.locator(".sidebar-tree a.read").count() == 0
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    page.locator(".sidebar-tree .current-page a.read").wait_for(state="attached")
    page.goto(f"{address}/01_naive_attention.html", wait_until="load")
    assert page.locator(".sidebar-tree a.read").all_inner_texts() == ["00 · Start here"]
    page.goto(f"{address}/24_smaller_caches.html", wait_until="load")
    assert page.locator(".sidebar-tree .current-page > a").bounding_box()["y"] < 700  # it has been scrolled to


def test_a_figure_has_its_number_and_caption_in_the_learners_copy_too(soups):
    numbered = runpy.run_path(str(ROOT / "notebooks/work.py"))["numbered"]
    for name, soup in soups.items():
        stored = [nbformat.read(ROOT / f"notebooks/{place}{name}.ipynb", as_version=4) for place in ("", "solutions/")]
        texts = [cell["source"] for cell in numbered(*(book.cells for book in stored), int(name[:2]))]
        copied = [found for text in texts for found in re.findall(r"^\*Figure ([\d.]+)(?:: )?(.*)", text)]
        captions = soup.select("figcaption")
        assert [number for number, _ in copied] == [c.find(class_="number").text.split()[1] for c in captions]
        for (_, said), caption in zip(copied, captions):
            assert re.split(r"[*$\['’]", said)[0] in caption.text
