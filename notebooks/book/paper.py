"""The book on paper: every page of the course that the site's sidebar names becomes a chapter, printed by Chromium.

A lesson ends with its concept questions; solutions and answers are the last chapter. A link to another page of the book
leads to its chapter. That takes two steps: Chromium prints one chapter at a time and knows no other, so there the link
has an address of our own, and the bound book has the place of that name. A link to a page that isn't in the book is
plain text.
"""

import posixpath
import re
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path

from bs4 import BeautifulSoup, Tag
from pypdf import PdfReader, PdfWriter
from pypdf.generic import NameObject
from tqdm import tqdm

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPTIONS = ["--headless", "--no-sandbox", "--allow-file-access-from-files", "--no-pdf-header-footer"]
OUTLINE = "--generate-pdf-document-outline"
TITLE = "Attention without the matrix"
LAST = "Solutions and answers"
FRONT = 2
"""Pages before the first chapter: the title and the contents."""
PLACE = "book:"
DRAWING = Path(__file__).resolve().parents[1] / "figures/ladders.svg"
LEFT_OUT = "nav.neighbors, a.headerlink, .live, .setup, .tag_check, .about-page, .code-of-figure, .above-input, form"
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>attnlab</title>{styles}<script src="_static/book.js"></script>
<style>@page {{ size: A4; @top-right {{ content: "{title}"; }} }} html {{ counter-reset: page {before}; }}</style>
</head><body class="book" data-theme="light"><article>{text}</article></body></html>"""
COVER = """
<div class="title-page"><p>attnlab {version}</p><p class="big">{title}</p>{claim}<img alt="" src="{drawing}"></div>
<div class="chapters"><p class="big">Contents</p>{contents}</div>"""
LINE = f'<a href="{PLACE}{{}}"><span>{{}}</span><span>{{}}</span></a>'
SEE = f'<p class="see"><a href="{PLACE}{{}}">Solution at the end of the book</a></p>'
ASKED = "Each question has one right option; the answers are at the end of the book."
SELF = '<a href="#{}"></a>'
NAMED = '<span id="{0}"></span><a href="#{0}"></a>'
"""Chromium notes only places that a link on the same page leads to, and none of a heading."""


def bind(site: Path, only: int | None = None) -> Path:
    """Print the first ``only`` pages, by default all, into attnlab.pdf; a page takes some seconds.

    Raises SystemExit where there is no Chromium.
    """
    if not (browser := next(filter(None, map(shutil.which, BROWSERS)), None)):
        raise SystemExit(f"a PDF is printed by Chromium: install one of {', '.join(BROWSERS)}")
    first, book = read(site / "index.html"), PdfWriter()
    styles = "".join(map(str, first.select("head > link[rel=stylesheet], head > style")))
    entries = [entry for entry in first.select(".sidebar-tree :is(.caption, a)") if "/" not in entry.get("href", "")]
    names = [entry["href"] for entry in entries if entry.name == "a"][:only]
    bound = {*names, *(f"questions/{name[:2]}.html" for name in names)}
    page, printed = site / "attnlab-printed.html", site / "attnlab-printed.pdf"
    contents, last = "", f"{NAMED.format(key(LAST))}<h1>{LAST}</h1>"

    def add(title: str, text: str, at: int | None = None) -> None:
        before = FRONT + len(book.pages)
        page.write_text(PAGE.format(title=title, styles=styles, before=before, text=text), encoding="utf-8")
        command = [browser, *OPTIONS, OUTLINE, f"--print-to-pdf={printed}", page.as_uri()]
        subprocess.run(command, check=True, capture_output=True)
        book.merge(at, PdfReader(printed))

    for entry in tqdm(entries, unit="page", disable=None):
        if entry.name == "p":
            contents += f"<p>{entry.text}</p>"
        elif (name := entry["href"]) in names:
            contents += LINE.format(key(name), entry.text, FRONT + len(book.pages) + 1)
            text, solved = lesson(site, name, bound)
            add(entry.text, text)
            last += solved and f"<h2>{entry.text}</h2>{solved}"
    contents += LINE.format(key(LAST), LAST, FRONT + len(book.pages) + 1)
    add(LAST, last)
    claim = first.select_one(".claim > p:not(.big)")
    drawn = {"claim": claim, "drawing": DRAWING.as_uri(), "contents": contents}
    add("", COVER.format(title=TITLE, version=version("attnlab"), **drawn), at=0)
    link(book)
    book.add_metadata({"/Title": f"attnlab: {TITLE}"})
    book.compress_identical_objects()
    book.write(site / "attnlab.pdf")
    page.unlink()
    printed.unlink()
    return site / "attnlab.pdf"


def link(book: PdfWriter) -> None:
    """Let each link with an address of our own lead to the place of that name."""
    places = {name.removeprefix("/"): place for name, place in book.named_destinations.items()}
    for page in book.pages:
        for annotation in [entry.get_object() for entry in page.get("/Annots", ())]:
            address = annotation.get("/A", {}).get("/URI", "")
            if address.startswith(PLACE):
                del annotation["/A"]
                annotation[NameObject("/Dest")] = places[address.removeprefix(PLACE)].dest_array


def lesson(site: Path, name: str, bound: set[str]) -> tuple[str, str]:
    """A page with its concept questions, and what was taken out of it: its solutions and answers."""
    page, solved = article(site, name, bound), ""
    if asked := page.find("a", href=PLACE + key(f"questions/{name[:2]}.html")):
        questions = article(site, f"questions/{name[:2]}.html", bound)
        for heading in questions.select("h1, h2"):
            heading.name = "h3" if heading.name == "h2" else "h2"
        questions.h2.string = "Concept questions"
        questions.select_one("h2 + p").string = ASKED
        asked.parent.replace_with(questions)
        questions.unwrap()
    for number, folded in enumerate(page.select("details")):
        answer = folded.summary.text.strip() == "Answer"
        if answer or "solution" in folded.get("class", ()):
            place, title = f"{key(name)}.solution-{number}", folded.find_previous("h3" if answer else "strong").text
            inside = folded.select_one(".sd-summary-content") or folded
            folded.replace_with("" if answer else BeautifulSoup(SEE.format(place), "html.parser"))
            folded.summary.extract()
            solved += f"{NAMED.format(place)}<h3>{title.lstrip('★ ')}</h3>{inside.decode_contents()}"
    return page.decode_contents(), solved


def article(site: Path, name: str, bound: set[str]) -> Tag:
    """What a page says, without what needs a screen, in which the name of each place begins with the page's."""
    made = read(site / name).article
    for part in [*made.select(LEFT_OUT), *(cell for cell in made.select(".cell") if "not attempted" in cell.text)]:
        part.decompose()
    for part in made.find_all(True):
        part.attrs.pop("data-formula", None)
        for point, said in [*part.attrs.items()]:
            if point in ("id", "for"):
                part[point] = f"{key(name)}.{said}"
            elif part.name == "a" and point == "href":
                part[point] = leading(name, said, bound)
            elif point == "xlink:href" or "url(#" in said:
                part[point] = re.sub(r"^#|(?<=url\()#", f"#{key(name)}.", said)
    for part in made.select('a[href=""]'):
        del part["href"]
    places = [SELF.format(part["id"]) for part in made.find_all(id=True) if not part.find_parent("svg")]
    made.insert(0, BeautifulSoup(NAMED.format(key(name)) + "".join(places), "html.parser"))
    return made


def leading(name: str, address: str, bound: set[str]) -> str:
    """Where a link on a page leads: to another site, to a place in the book, or nowhere if that isn't in it."""
    if re.match(r"\w+:", address):
        return address
    page, _, place = address.partition("#")
    page = posixpath.normpath(posixpath.join(posixpath.dirname(name), page)) if page else name
    if page not in bound:
        return ""
    return PLACE + key(page) + (place and f".{place}")


def key(name: str) -> str:
    """What a page, or a chapter, is called in the book."""
    return "on-" + name.removesuffix(".html").replace("/", "-").replace(" ", "-")


def read(page: Path) -> BeautifulSoup:
    """A page of the site."""
    return BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")
