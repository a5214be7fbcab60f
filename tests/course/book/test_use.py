"""Readers can use the book: find a word, choose a library, open a solution, read in the dark, do without a mouse."""

import re

import pytest

from tests.support import ROOT


@pytest.mark.parametrize("served", [True, False], ids=["from a server", "from a folder"])
def test_search_finds_the_lesson(page, site, address, served):
    from playwright.sync_api import expect

    page.goto(f"{address if served else site.as_uri()}/index.html")
    page.get_by_placeholder("Search").fill("butterfly")
    page.keyboard.press("Enter")
    hit = page.get_by_role("main").get_by_role("link", name="11 · Block-sparse attention", exact=True)
    if served:  # a page in a folder can't read another
        found = page.locator("#search-results p.context").first
        found.wait_for()
        assert not re.search(r"\\[()]|Run this lesson", found.inner_text())
    hit.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("11 · Block-sparse attention")


def test_search_shows_headings_first(page, address):
    page.goto(f"{address}/search.html?q=best+chunk")
    first = page.locator("#search-results li a").first
    first.wait_for()
    assert first.inner_text() == "05 · Chunked attention > 3. What it holds, and the best chunk"
    first.click()
    assert page.locator("section:target > h2").inner_text().startswith("3. What it holds")


def test_tabs_switch_together(page, address):
    page.goto(f"{address}/02_safe_softmax.html")
    tabs = page.locator(".sd-tab-label", has_text="JAX")
    codes = page.get_by_text("safe_softmax", exact=False)
    assert tabs.count() >= 2
    shown = page.locator(".sd-tab-content:visible .caption-text")
    assert {text.rsplit("/")[-1] for text in shown.all_inner_texts()} == {"numpy.py"}
    assert codes.count() > 0
    tabs.first.click()
    assert {text.rsplit("/")[-1] for text in shown.all_inner_texts()} == {"jax.py"}
    page.keyboard.press("ArrowRight")
    assert "torch.py" in {text.rsplit("/")[-1] for text in shown.all_inner_texts()}


def test_a_solution_opens(page, address):
    page.goto(f"{address}/01_naive_attention.html")
    solution = page.locator("details.solution").first
    assert not solution.get_by_text("attention_row: right").is_visible()
    solution.locator("summary").focus()
    page.keyboard.press("Enter")
    assert solution.get_by_text("attention_row: right").is_visible()
    assert "def attention_row(" in solution.inner_text()


BRIGHTNESS = """element => getComputedStyle(element).backgroundColor.match(/\\d+/g).slice(0, 3)
    .reduce((a, b) => +a + +b) / 3"""
FILTER = "element => getComputedStyle(element).filter"


def test_light_and_dark(page, address):
    page.emulate_media(color_scheme="dark")
    page.goto(f"{address}/19_paged_attention.html")
    assert page.locator("body").evaluate(BRIGHTNESS) < 50
    assert page.locator("figure.as-drawn svg.drawn").first.evaluate(FILTER).startswith("brightness")
    assert page.locator("figure:not(.as-drawn) svg.drawn").first.evaluate(FILTER).startswith("invert")
    page.get_by_role("button", name=re.compile("color mode|theme", re.IGNORECASE)).first.click()
    assert page.locator("body").get_attribute("data-theme") == "light"
    assert page.locator("body").evaluate(BRIGHTNESS) > 200
    assert {*page.locator("figure svg.drawn").evaluate_all(f"all => all.map({FILTER})")} == {"none"}


def test_all_links_are_reached_by_the_keyboard(page, address):
    page.goto(f"{address}/01_naive_attention.html")
    links = page.locator("a[href]:visible")
    wanted = set(links.evaluate_all("links => links.filter(link => link.offsetParent).map(link => link.href)"))
    page.keyboard.press("Tab")
    assert page.locator(":focus").inner_text() == "Skip to content"
    reached = set()
    for _ in range(400):
        page.keyboard.press("Tab")
        at = page.evaluate("document.activeElement.href ?? document.activeElement.tagName")
        if at == "BODY":
            break
        reached.add(at)
    assert at == "BODY"
    assert wanted <= reached, wanted - reached
    assert {"INPUT", "SUMMARY", "BUTTON"} <= reached
    page.reload()
    for key in ("Tab", "Enter", "Tab"):  # skips to the text
        page.keyboard.press(key)
    assert page.locator("article :focus").count() == 1


@pytest.mark.parametrize("served", [True, False], ids=["from a server", "from a folder"])
def test_text_and_drawings_have_the_font_that_the_site_brings(page, site, address, served):
    page.goto(f"{address if served else site.as_uri()}/06_gradients_and_checkpointing.html", wait_until="load")
    page.evaluate("document.fonts.ready.then(() => 0)")
    loaded = "[...document.fonts].filter(font => font.status == 'loaded').map(font => font.family)"
    assert {"Source Sans 3", "Source Code Pro"} <= {name.strip('"') for name in page.evaluate(loaded)}
    for seen in ("article p", "svg.drawn text"):
        style = page.locator(seen).first.evaluate("shown => getComputedStyle(shown).fontFamily")
        assert style.startswith('"Source Sans 3"')
    assert drawn_with(page, "article p").startswith("Source Sans 3")


def drawn_with(page, seen):
    """The font that the browser took for an element: a page may name one and not wait for it."""
    asked = page.context.new_cdp_session(page)
    for domain in ("DOM", "CSS"):
        asked.send(f"{domain}.enable")
    root = asked.send("DOM.getDocument")["root"]["nodeId"]
    node = asked.send("DOM.querySelector", {"nodeId": root, "selector": seen})
    return asked.send("CSS.getPlatformFontsForNode", node)["fonts"][0]["familyName"]


def test_a_wide_formula_becomes_smaller_on_a_phone(phone, address):
    phone.goto(f"{address}/26_guess_and_verify.html", wait_until="load")
    sizes = "all => all.map(formula => formula.style.fontSize).filter(size => size)"
    phone.wait_for_function("document.querySelector('div.math[style]')")
    found = {int(size.removesuffix("%")) for size in phone.locator("div.math").evaluate_all(sizes)}
    assert 80 in found <= {*range(80, 100)}
    alone = """all => all.filter(formula => /^[,.;:)]/.test(formula.nextSibling?.textContent ?? "")
        && !formula.parentElement.matches(".kept")).length"""
    assert phone.locator("article span.math").evaluate_all(alone) == 0  # a formula and its comma stay together
    assert phone.locator("article span.kept").count() > 10


def test_formulas_side_by_side_stand_below_one_another_on_a_phone(phone, address):
    phone.goto(f"{address}/03_online_softmax.html", wait_until="load")
    wide = "all => all.filter(formula => formula.scrollWidth > formula.clientWidth).length"
    assert phone.locator("div.math:has(math + math)").count() > 4
    assert phone.locator("div.math").evaluate_all(wide) == 0
    phone.goto(f"{address}/09_counting_bytes.html", wait_until="load")
    gaps = phone.locator(".beside math + math").evaluate_all("""all => all
        .map(part => [part.previousElementSibling, part].map(part => part.getBoundingClientRect()))
        .filter(([one, other]) => one.left >= other.left)
        .map(([one, other]) => other.top - one.bottom)""")
    assert gaps
    assert min(gaps) > 0


EDGES = """() => {
    const left = document.querySelector("article h1 + p").getBoundingClientRect().left;
    const text = "article section > :is(p, ul, blockquote, details:not([open])), .live, figcaption, nav.neighbors";
    const number = "div.math:not(.wide) > .number, div.cell > .short", wide = "div.cell > .cell_input:not(.short)";
    const edge = part => Math.round(part.getBoundingClientRect().right - left);
    const edges = (which, seen) => [...document.querySelectorAll(which)].filter(seen).map(edge);
    const shown = part => part.offsetWidth && !part.closest("details > *");
    const starts = [...document.querySelectorAll(`${text}, ${wide}, article table`)].filter(shown);
    return {
        starts: starts.map(part => Math.round(part.getBoundingClientRect().left - left)),
        text: edges(text, shown), fitted: edges(number, shown), wide: edges(wide, shown),
    };
}"""


def test_a_page_has_one_left_edge_and_two_right_ones(page, address):
    page.goto(f"{address}/05_chunked_attention.html", wait_until="load")
    found = page.evaluate(EDGES)
    assert {*found["starts"]} == {0}
    assert len({*found["fitted"]}) == len({*found["wide"]}) == 1
    assert max(found["text"]) == found["fitted"][0] < found["wide"][0] - 300


@pytest.mark.parametrize("width", [390, 1100, 1280])
def test_the_neighbors_do_not_touch_the_top(page, address, width):
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(f"{address}/05_chunked_attention.html", wait_until="load")
    header = page.locator(".mobile-header").evaluate("header => header.getBoundingClientRect().bottom")
    assert page.locator("nav.neighbors a").first.bounding_box()["y"] >= header + 8


def test_a_column_of_words_begins_at_the_left(soup):
    places = soup("your_own_engine").select("table.results tr:nth-child(3) td")
    assert "left" in places[1]["style"]
    assert "right" in soup("09_counting_bytes").select("table.results tr:nth-child(2) td")[1]["style"]


def test_a_line_that_is_cut_fades(phone, address):
    phone.goto(f"{address}/05_chunked_attention.html", wait_until="load")
    local = "all => all.map(code => getComputedStyle(code).backgroundAttachment.startsWith('local'))"
    assert {*phone.locator("article .highlight pre").evaluate_all(local)} == {True}


def test_the_tab_key_shows_a_button_that_waits_for_the_pointer(page, address):
    page.goto(f"{address}/05_chunked_attention.html", wait_until="load")
    page.locator("button.copybtn").first.focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    button = page.locator("button.copybtn:focus")
    page.wait_for_function("getComputedStyle(document.querySelector('button.copybtn:focus')).opacity == 1")
    assert button.evaluate("button => getComputedStyle(button).outlineStyle") == "solid"


def test_choices_that_no_function_makes_say_so(page, address):
    page.goto(f"{address}/libraries.html", wait_until="load")
    count, choices = page.locator(".conventions output"), page.locator(".conventions fieldset")
    every = int(count.inner_text().split(" of ")[1])
    choices.nth(0).get_by_label("bottom right").check()
    assert 0 < int(count.inner_text().split(" of ")[0]) < every
    choices.nth(1).get_by_label("refused").check()
    assert count.inner_text().startswith(f"None of {every}: choose")


def test_what_stays_of_the_table_of_libraries_hides_what_passes(page, phone, address):
    for narrow, window in enumerate((page, phone)):
        window.goto(f"{address}/libraries.html", wait_until="load")
        row = window.locator(".conventions tbody tr").nth(9)
        row.evaluate("row => scrollTo({ top: row.getBoundingClientRect().top + scrollY - 90, behavior: 'instant' })")
        row.evaluate("row => { row.closest('.output').scrollLeft = 200; }")
        stays = row.locator("td").first if narrow else window.locator(".conventions thead th").nth(3)
        box, ground = stays.bounding_box(), stays.evaluate("cell => getComputedStyle(cell).backgroundColor")
        assert min(box["x"], box["y"]) >= 0
        assert ground == window.evaluate("getComputedStyle(document.body).backgroundColor")


def test_the_number_of_a_wide_formula_stands_beside_it(page, address):
    page.goto(f"{address}/08_tiled_attention.html", wait_until="load")
    page.wait_for_function("document.querySelector('div.math.wide')")
    gaps = page.locator("div.math.wide").evaluate_all("""all => all.map(formula => {
        const [drawn, number] = [...formula.children].map(part => part.getBoundingClientRect());
        return number.left - drawn.right;
    })""")
    assert gaps
    assert max(gaps) < 40


def test_the_first_page_fills_a_phone(phone, address):
    phone.goto(f"{address}/index.html", wait_until="load")
    text = phone.locator("article").bounding_box()
    for part in (".band", ".cards .sd-card"):
        box = phone.locator(part).first.bounding_box()
        assert (box["x"], box["width"]) == pytest.approx((text["x"], text["width"]), abs=1)


NAMELESS = """() => ({
    heads: document.querySelectorAll("th:empty, th > p:only-child:empty").length,
    levels: document.querySelectorAll("[role=heading]:not([aria-level])").length,
    asides: document.querySelectorAll("aside:not([aria-label])").length,
    pictures: document.querySelectorAll("svg[role=img]:not([aria-label])").length,
    renamed: document.querySelectorAll("summary[aria-label]").length,
    twice: (all => all.length - new Set(all.map(element => element.id)).size)(
        [...document.querySelectorAll("[id]")]),
})"""


@pytest.mark.parametrize("name", ["index", "08_tiled_attention", "recipes", "glossary"])
def test_everything_has_a_name_for_those_who_hear_the_page(page, address, name):
    page.goto(f"{address}/{name}.html", wait_until="load")
    assert {*page.evaluate(NAMELESS).values()} == {0}, page.evaluate(NAMELESS)


def place(slide):
    """The number of the slide that is shown, and how many there are."""
    return slide.get_by_label("all slides").evaluate("list => [list.selectedIndex + 1, list.length]")


def test_a_lesson_is_shown_as_slides(page, address):
    page.goto(f"{address}/03_online_softmax.html", wait_until="load")
    figures = page.locator("article figure").count()
    page.keyboard.press("p")
    slide, seen = page.locator("#slide"), set()
    assert slide.get_by_role("heading").inner_text() == "03 · Online softmax"
    count = place(slide)[1]
    for _ in range(count - 1):
        page.keyboard.press("ArrowRight")
        shown = slide.locator(".on-slide")
        seen |= {*shown.evaluate_all("all => all.map(part => part.tagName)")}
        assert slide.evaluate("all => all.scrollWidth <= all.clientWidth && all.scrollHeight <= all.clientHeight")
        if shown.count() and "tag_predict" in shown.get_attribute("class"):  # with its question, and code not cut
            assert slide.locator("h2 + p, h1 + p").inner_text().startswith("Predict, then run.")
            assert shown.locator("pre").first.evaluate("code => code.scrollWidth <= code.clientWidth")
    assert place(slide) == [count, count]
    assert {"FIGURE", "DIV", "BLOCKQUOTE", "P"} <= seen
    page.reload()  # which a presenter's key for the start does
    assert place(slide) == [count, count]
    slide.get_by_label("the slide before").click()
    slide.get_by_label("all slides").select_option(index=1)
    assert place(slide) == [2, count]
    page.get_by_label("end the slides").click()
    assert not slide.is_visible()
    page.keyboard.press("p")
    assert place(slide) == [2, count]  # it begins where the reader is
    page.keyboard.press("Escape")
    assert not slide.is_visible()
    assert page.locator("article figure").count() == figures
    assert page.locator(".on-slide").count() == 0


def test_what_is_on_a_slide_can_be_used(page, address):
    page.goto(f"{address}/08_tiled_attention.html#present-2", wait_until="load")
    slide = page.locator("#slide")
    film, button = slide.locator(".controls > input"), slide.locator(".controls > button")
    slide.locator(".words").click()
    button.focus()
    page.keyboard.press("Space")
    assert button.inner_text() == "❚❚ pause"
    film.click()
    assert place(slide)[0] == 2
    assert int(film.input_value()) > 1
    page.keyboard.press("ArrowRight")  # who took the slider with the mouse goes on with the keys
    assert place(slide)[0] == 3
    page.keyboard.press("ArrowLeft")
    film.focus()
    page.keyboard.press("ArrowRight")
    assert place(slide)[0] == 2
    page.keyboard.press("PageDown")  # a presenter's key
    assert place(slide)[0] == 3
    while not slide.locator("p a.eq[href^='#']").count():
        page.keyboard.press("PageDown")
    cited = slide.locator("p a.eq[href^='#']").first
    number = cited.inner_text()
    cited.click()
    assert slide.locator(".on-slide .number").inner_text() == number


def test_a_finger_wipes_slides(phone, address):
    phone.goto(f"{address}/03_online_softmax.html#present", wait_until="load")
    touch, slide = phone.context.new_cdp_session(phone), phone.locator("#slide")
    for start, end, shown in ((300, 100, 2), (300, 100, 3), (100, 300, 2)):
        for kind, points in (("Start", [start]), ("Move", [end]), ("End", [])):
            at = [{"x": x, "y": 300} for x in points]
            touch.send("Input.dispatchTouchEvent", {"type": f"touch{kind}", "touchPoints": at})
        phone.wait_for_url(f"**#present-{shown}")
        phone.wait_for_timeout(500)  # in which a browser would go back to the page before
        assert place(slide)[0] == shown
    phone.touchscreen.tap(350, 300)
    assert place(slide)[0] == 2


SHIFT = """() => new Promise(tell => {
    let sum = 0;
    const add = list => list.getEntries().forEach(entry => { sum += entry.hadRecentInput ? 0 : entry.value; });
    new PerformanceObserver(add).observe({ type: "layout-shift", buffered: true });
    setTimeout(() => tell(sum), 2000);
})"""


@pytest.mark.parametrize("name", [
    "index", "03_online_softmax", "05_chunked_attention", "09_counting_bytes", "glossary", "libraries",
])  # fmt: skip
def test_a_page_does_not_jump_while_it_loads(page, address, name):
    page.goto(f"{address}/{name}.html", wait_until="load")
    assert page.evaluate(SHIFT) < (0.005 if name == "index" else 0.025)


def test_the_field_of_a_filter_has_its_place(page, address):
    page.goto(f"{address}/glossary.html", wait_until="load")
    below = page.locator("div.filter + p").bounding_box()["y"]
    page.route("**/book.js*", lambda route: route.abort())
    page.reload(wait_until="load")
    assert page.locator("input.filter").count() == 0
    assert page.locator("div.filter + p").bounding_box()["y"] == below


PRINTED = """() => ({
    cut: [...document.querySelectorAll("article pre")].filter(code => code.scrollWidth > code.clientWidth + 1).length,
    over: [...document.querySelectorAll(".skip-to-content, .live, .solution, nav.neighbors, button, fieldset")]
        .filter(part => part.offsetParent).length,
    tables: [...document.querySelectorAll("article table")].filter(table => table.scrollWidth > 722).length,
    bars: [...document.querySelectorAll(".math-wrapper, div.math")]
        .filter(part => getComputedStyle(part).overflowX != "visible").length,
})"""


@pytest.mark.parametrize("name", ["05_chunked_attention", "libraries"])
def test_on_paper_nothing_is_cut_and_no_button_printed(page, address, name):
    page.goto(f"{address}/{name}.html", wait_until="load")
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 720, "height": 1000})
    assert page.evaluate(PRINTED) == {"cut": 0, "over": 0, "tables": 0, "bars": 0}


def test_the_book_is_bound(browser, site, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "notebooks/book")
    from paper import bind
    from pypdf import PdfReader

    book = PdfReader(bind(site, only=2))
    chapters = {item.title: book.get_destination_page_number(item) + 1 for item in book.outline if "/Title" in item}
    assert [*chapters] == ["00 · Start here", "01 · Naive attention", "Solutions and answers"]
    texts = [page.extract_text() for page in book.pages]
    for title, number in chapters.items():
        assert re.search(rf"{title}\s+{number}\b", texts[1])
        assert re.search(rf"\b{number}\b", texts[number - 1].replace(title, ""))  # which the page says itself
    links = [link.get_object() for page in book.pages for link in page.get("/Annots", ())]
    assert {link["/A"]["/URI"].partition(":")[0] for link in links if "/A" in link} == {"https"}
    leads = {book.pages.index(link["/Dest"][0].get_object()) + 1 for link in links if "/Dest" in link}
    assert leads >= {*chapters.values()}
    text = "".join(texts[: chapters["Solutions and answers"] - 1])
    assert "The question of this lesson" in text
    assert "mean of the values [2. 1.]" in text  # which a fold hides on screen
    assert "Concept questions" in text
    assert not re.search(r"Skip to content|Run this page here|Show the code|not attempted|attention_row: right", text)
    assert "attention_row: right" in "".join(texts)


def test_an_option_is_chosen_by_keyboard(page, address):
    page.goto(f"{address}/questions/08.html")
    options = page.get_by_role("radiogroup").first.get_by_role("radio")
    options.first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert [options.nth(at).is_checked() for at in range(options.count())] == [False, True, False, False]


def test_the_path_of_a_folded_listing_is_code(site):
    page = (site / "20_serving.html").read_text(encoding="utf-8")
    assert "<code>attnlab_course/serve/scheduler.py</code></summary>" in page
