"""Sphinx extension: whatever a reader may want to cite has an address.

On every page, once its HTML is made,

- a formula in a line stays with the comma after it;
- "(8.4)" in prose, on any page, becomes a link to the equation that carries the formula, which book.js shows on hover
  or tap;
- a figure gets a number, the anchor ``fig-8-2`` and a caption: the words in italics below it, or else the first
  sentence of its alternative text; the code that draws it folds into the caption (a drawing: see pictures.py);
- the neighbors stand at the top, too, what isn't text says what it is, and long names in tables may break;
- the set-up of a lesson, a first cell that is folded and shows nothing, hangs on the box that runs the page;
- code whose lines are short is as wide as the text, and other code as wide as the page;
- in a table of results a column of words begins at the left;
- where a page can be filtered (book.js), there is a place for the field, so that nothing jumps;
- "erratum 3" becomes a link to it, "lesson 05" does on the page of errata, and so does in a lesson the first use of
  each word that the glossary explains (terms.py).
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
from bs4 import BeautifulSoup, NavigableString, Tag
from docutils import nodes
from formulas import TAG, typeset
from pictures import SHADES, inline
from sphinx.application import Sphinx
from terms import Terms, address

DISPLAYED = re.compile(r"\$\$(.+?)\$\$|(\\begin\{(align\*?)\}.+?\\end\{\3\})", re.DOTALL)
CITED = re.compile(r"\(((?:\d{1,2}|R)\.\d{1,2})\)")
LEAVE_ALONE = ["a", "code", "pre", "script", "style", "svg", "h1", "h2", "h3", "summary"]
FIGURES = re.compile(r"(\d\d)_|(reproductions)$")
ERRATUM = re.compile(r"[Ee]rratum (\d+)")
LESSON = re.compile(r"[Ll]esson (\d\d)")
OPENING, CLOSING = re.compile(r"[(\[“]*$"), re.compile(r"[,.;:!?)\]”’]*")
SIGN = '<span aria-hidden="true">&lt;/&gt;</span><span class="only-said">{}</span>'
PRELOAD = '<link rel="preload" href="{}" as="font" type="font/woff2" crossorigin>'
FACES = ["source-sans-3-latin-wght-normal", "source-sans-3-latin-wght-italic", "source-code-pro-latin-wght-normal"]
SENTENCE = re.compile(r".{,180}?\.(?=\s|$)|.+?(?=[:.](?:\s|$))", re.DOTALL)  # of a long one not the data after a colon
NUMBER = re.compile(r"[^\w\s]*(?:\d|nan|inf)")
SHORT = 68  # columns of code that the column of text has room for
FILTERED = ("glossary", "reproductions", "recipes")


def collect(app: Sphinx) -> None:
    """Note for each tag of an equation its page and its TeX; the lessons by number; the words of the glossary."""
    app.equations, app.lessons = {}, {}
    app.terms = Terms(Path(app.srcdir) / "glossary.md")
    for path in sorted(Path(app.srcdir).glob("*.ipynb")):
        app.lessons[path.stem[:2]] = path.stem
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "markdown":
                for formula in DISPLAYED.finditer(cell.source):
                    tex = formula[1] or formula[2]
                    app.equations |= dict.fromkeys(TAG.findall(tex), (path.stem, tex))


def rework(app: Sphinx, name: str, template: str, context: dict[str, Any], page: nodes.document | None) -> None:
    """Called by Sphinx before it writes a page."""
    faces = [*FACES, "stix-two-math"] if "<math" in context.get("body", "") else FACES
    fonts = [PRELOAD.format(context["pathto"](f"_static/fonts/{face}.woff2", resource=True)) for face in faces]
    context["metatags"] = context.get("metatags", "") + "".join(fonts)
    if page is None:
        return
    body = BeautifulSoup(context["body"], "html.parser")
    say_what_it_is(body)
    keep_together(body)
    part_names(body)
    fold_setup(body)
    fit_code(body)
    align_words(body)
    if name in FILTERED:
        body.h1.insert_after(body.new_tag("div", attrs={"class": "filter", "hidden": ""}))
    if found := FIGURES.match(name):
        number_figures(body, str(int(found[1])) if found[1] else "R")
    link_citations(body, app, name)
    if name == "glossary":
        for term in body.select("dt:not(:has(.math))"):
            if re.search(r"\w", term.text):
                term["id"] = address(term.text)
    if name != "index" and (at_top := neighbors(body, context)):
        body.insert(0, at_top)
    context["body"] = str(body)
    menu = context["furo_navigation_tree"]
    context["furo_navigation_tree"] = menu.replace('role="heading"', 'role="heading" aria-level="2"')


def say_what_it_is(body: BeautifulSoup) -> None:
    """For a screen reader: an empty head is no head, a fold has its own name, a moving figure its line of words."""
    for head in body.find_all("th"):
        if not head.get_text(strip=True):
            head.name = "td"
    for caption in body.find_all(role="heading"):
        caption["aria-level"] = "2"
    for summary in body.find_all("summary"):
        del summary["aria-label"]
    for moving in body.find_all(class_="attnlab-moving"):
        for drawing in moving.find_all("svg"):
            del drawing["role"]
            drawing["aria-hidden"] = "true"


def keep_together(body: BeautifulSoup) -> None:
    """A formula in a line stays with the sign before and the sign after it."""
    for formula in body.find_all("span", class_="math"):
        before, after = formula.previous_sibling, formula.next_sibling
        left = OPENING.search(before)[0] if isinstance(before, NavigableString) else ""
        right = CLOSING.match(after)[0] if isinstance(after, NavigableString) else ""
        if left or right:
            kept = formula.wrap(body.new_tag("span", attrs={"class": "kept"}))
            kept.insert(0, left)
            kept.append(right)
            if left:
                before.replace_with(before.removesuffix(left))
            if right:
                after.replace_with(after.removeprefix(right))


def part_names(body: BeautifulSoup) -> None:
    """In a narrow column a long name breaks after its dots and underscores."""
    names = body.select("td code, .conventions td:last-child")
    for text in [text for name in names for text in name.find_all(string=True)]:
        first, *more = re.split(r"(?<=[._])(?=\w)", text)
        text.replace_with(first, *(part for name in more for part in (body.new_tag("wbr"), NavigableString(name))))


def fold_setup(body: BeautifulSoup) -> None:
    """Where a page runs, put its set-up below the box that runs it."""
    box, cell = body.find(class_="live"), body.find(class_="cell")
    if box and cell and "tag_hide-input" in cell["class"] and not cell.find(class_="cell_output"):
        cell["class"].append("setup")
        for title, said in zip(cell.find("summary")("p"), ("Its set-up", "Hide its set-up")):
            title.string = said
        box.insert_after(cell.extract())


def fit_code(body: BeautifulSoup) -> None:
    """Mark the code that the column of text has room for."""
    for code in body.select(".cell_input pre, div[class*=highlight-] pre"):
        if max(map(len, code.text.split("\n"))) <= SHORT:
            (code.find_parent(class_="cell_input") or code.find_parent(class_="highlight"))["class"].append("short")


def align_words(body: BeautifulSoup) -> None:
    """In tables of results, whose columns are set to the right, set those without a number to the left."""
    for table in body.select("table.results"):
        for column in zip(*(row(["td", "th"]) for row in table("tr"))):
            if not any(NUMBER.match(cell.text) for cell in column[1:]):
                for cell in column:
                    cell["style"] = "text-align:left"


def relink(body: BeautifulSoup, pattern: re.Pattern[str], link: Callable[[re.Match[str]], Tag | None]) -> None:
    """Put in the place of what is found in prose the link that is made of it, if one is."""
    for text in body.find_all(string=pattern):
        if text.find_parent(LEAVE_ALONE) or text.find_parent(class_="math"):
            continue
        made, at = [], 0
        for found in pattern.finditer(text):
            if new := link(found):
                new.string = found[0]
                made += [NavigableString(text[at : found.start()]), new]
                at = found.end()
        if made:
            text.replace_with(*made, NavigableString(text[at:]))


def link_citations(body: BeautifulSoup, app: Sphinx, name: str) -> None:
    """Make links of the equations and errata that prose cites; where nothing else is read, of lessons as well."""

    def to(page: str, anchor: str = "", **attributes: str) -> Tag:
        address = "" if page == name else app.builder.get_relative_uri(name, page)
        return body.new_tag("a", href=f"{address}#{anchor}" if anchor else address, attrs=attributes)

    def equation(found: re.Match[str]) -> Tag | None:
        page, tex = app.equations.get(found[1], (None, ""))
        if page is None:
            return None
        return to(page, f"eq-{found[1].replace('.', '-')}", **{"class": "eq", "data-formula": typeset(tex)})

    relink(body, CITED, equation)
    relink(body, ERRATUM, lambda found: to("errata", f"erratum-{found[1]}"))
    if name == "errata":
        relink(body, LESSON, lambda found: to(app.lessons[found[1]]))
    if name[:2].isdigit():
        link_terms(body, app.terms, lambda term: to("glossary", app.terms.home[term], **{"class": "term"}))


def link_terms(body: BeautifulSoup, terms: Terms, to: Callable[[str], Tag]) -> None:
    """Make a link of each word of the glossary where the page uses it first."""
    seen = set()

    def first(found: re.Match[str]) -> Tag | None:
        if (term := terms.name(found[0])) in seen:
            return None
        seen.add(term)
        link = to(term)
        if terms.said[term]:
            link["title"] = terms.said[term]
        return link

    relink(body, terms.pattern, first)


def number_figures(body: BeautifulSoup, chapter: str) -> None:
    """Number the figures of a page, and give each its caption."""
    for number, image in enumerate(body.select(".cell_output img"), 1):
        label = f"{chapter}.{number}"
        figure = body.new_tag("figure", id=f"fig-{label.replace('.', '-')}")
        image.replace_with(figure)
        figure.append(image)
        caption = body.new_tag("figcaption")
        figure.append(caption)
        link = body.new_tag("a", href=f"#{figure['id']}", attrs={"class": "number"})
        link.string = f"Figure {label}"
        caption.extend([link, " ", *words(image)])
        before = figure.find_parent(class_="cell").find_previous_sibling("p")
        if SHADES.search(f"{image['alt']} {caption.text} {before and before.text}"):
            figure["class"] = "as-drawn"
        inline(image, figure["id"])
        if code := folded(figure):
            caption.extend([" ", code])


def words(image: Tag) -> list[Any]:
    """The caption: the italics that begin the paragraph after the cell, or the alternative text's first sentence."""
    cell = image.find_parent(class_="cell")
    after = cell.find_next_sibling()
    first = next(iter(after.contents), None) if isinstance(after, Tag) and after.name == "p" else None
    if not isinstance(first, Tag) or first.name != "em":
        return [SENTENCE.match(image["alt"].rstrip(".") + ".")[0].rstrip(".") + "."]
    said = list(first.extract().contents)
    if not after.get_text(strip=True):
        after.decompose()
    return said


def folded(figure: Tag) -> Tag | None:
    """The closed code of the figure's cell, if this is the cell's first figure, behind </> in place of a line."""
    code = figure.find_parent(class_="cell").find("details", class_="above-input", recursive=False)
    if code is not None:
        code["class"] = ["hide", "code-of-figure"]
        summary = code.find("summary")
        summary.clear()
        summary["title"] = said = "the code that draws this figure"
        summary.append(BeautifulSoup(SIGN.format(said), "html.parser"))
        code.extract()
    return code


def neighbors(body: BeautifulSoup, context: dict[str, Any]) -> Tag | None:
    """Links to the previous and the next page."""
    found = [*sides(context)]
    if not found:
        return None
    nav = body.new_tag("nav", attrs={"class": "neighbors", "aria-label": "previous and next page"})
    for side, page, text in found:
        link = body.new_tag("a", href=page["link"], rel=side)
        link.append(BeautifulSoup(text.format(page["title"]), "html.parser"))
        nav.append(link)
    return nav


def sides(context: dict[str, Any]) -> Iterator[tuple[str, dict[str, str], str]]:
    """Which neighbors a page has, and how they're written."""
    if context.get("prev"):
        yield "prev", context["prev"], "←\N{NO-BREAK SPACE}{}"
    if context.get("next"):
        yield "next", context["next"], "{}\N{NO-BREAK SPACE}→"


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("builder-inited", collect)
    app.connect("html-page-context", rework, priority=900)  # after the theme, which makes the sidebar
    return {"parallel_read_safe": True, "parallel_write_safe": True}
