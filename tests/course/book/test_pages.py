"""Every page of the book in a browser: it is drawn without complaint, fits the window, and shows what it has."""

import pytest

WIDTHS = (1280, 390)  # a laptop and a phone
LOOK = """() => {
    const article = document.querySelector("article").cloneNode(true);
    article.querySelectorAll("pre, code, script, math").forEach(element => element.remove());
    const all = selector => [...document.querySelectorAll(selector)];
    return {
        images: all("img").filter(image => !image.complete || !image.naturalWidth).length,
        silent: all("article img").filter(image => !image.alt.trim()).length,
        formulas: all(".math").filter(formula => !formula.querySelector("math")).length,
        errors: all("merror").length,
        raw: article.textContent.match(/\\\\[a-zA-Z]{3,}|\\\\[()[\\]]|\\$[^$\\n]+\\$|\\|---/g) ?? [],
    };
}"""
FITS = """() => [document.documentElement, document.querySelector(".content")]
    .map(element => element.scrollWidth - element.clientWidth)"""
WIDER = """() => {
    document.querySelectorAll("details").forEach(folded => folded.open = true);
    document.querySelectorAll(".sd-tab-content").forEach(tab => tab.style.display = "block");
    return [...document.querySelectorAll("article pre, article div.math")]
        .filter(element => element.scrollWidth > element.clientWidth)
        .map(element => [element.offsetHeight - element.clientHeight, element.textContent.trim().slice(0, 60)]);
}"""
NOTHING = {"images": 0, "silent": 0, "formulas": 0, "errors": 0, "raw": []}


def visit(page, address, name):
    """What is wrong with a page."""
    page.goto(f"{address}/{name}", wait_until="load")
    if page.locator("article").count() == 0:
        yield "has no article"
        return
    found = page.evaluate(LOOK)
    yield from (f"{fact}: {value}" for fact, value in found.items() if value != NOTHING[fact])
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        if max(beyond := page.evaluate(FITS)) > 0:
            yield f"is wider than a window of {width}: {beyond}"
    page.set_viewport_size({"width": WIDTHS[0], "height": 800})


def cut(page):
    """The equations and blocks of code, open folds included, that are wider than their place: height of bar, words."""
    return page.evaluate(WIDER)


def lost(request):
    """Whether a request failed by itself: an icon that is asked for late is given up when the next page is opened."""
    return request.failure != "net::ERR_ABORTED"


def listen(page, address):
    """A list that collects what the browser complains of: messages, failed requests, requests to the network."""
    said = []
    page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("requestfailed", lambda asked: said.append(f"{asked.failure}: {asked.url}") if lost(asked) else None)
    page.on("response", lambda answer: said.append(f"{answer.status}: {answer.url}") if answer.status > 399 else None)
    local = (address, "data:")
    page.on("request", lambda request: None if request.url.startswith(local) else said.append(f"asks {request.url}"))
    return said


def faults(page, address, names):
    """What is wrong with pages, in one visit, as drawing takes longest; the reference may cut equations and code."""
    said = listen(page, address)
    for name in names:
        yield from (f"{name}: {fault}" for fault in visit(page, address, name))
        yield from (f"{name}: cuts {words}" for _, words in cut(page) if "/" not in name)
        yield from (f"{name}: {message}" for message in said)
        said.clear()


def test_one_page(page, address):
    """The one test of the built site that ``make test`` has."""
    assert list(faults(page, address, ["03_online_softmax.html"])) == []


def test_every_page(page, site, address):
    names = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    assert "03_online_softmax.html" in names
    assert list(faults(page, address, names)) == []


def test_what_is_cut_on_a_phone_has_a_bar(phone, address):
    bars = []
    for name in ("03_online_softmax", "10_tiled_backward", "12_real_kernels", "20_serving", "reproductions"):
        phone.goto(f"{address}/{name}.html", wait_until="load")
        bars += [(bar, name, words) for bar, words in cut(phone)]
    assert len(bars) > 20
    assert not [found for found in bars if found[0] <= 4]


@pytest.mark.thin(2)
@pytest.mark.parametrize(("content", "fault"), [
    ('<img alt="a" src="/nowhere.png">', "images: 1"),
    ('<img src="/_static/icon.svg">', "silent: 1"),
    ("<p>The formula $x^2$.</p>", "raw: ['$x^2$']"),
    (r"<p>Thus \(x\).</p>", r"raw: ['\\(', '\\)']"),
    ('<span class="math">x</span>', "formulas: 1"),
    ('<pre style="width:2000px">x</pre>', "is wider than a window of 1280"),
    ('<pre style="width:600px">x</pre>', "is wider than a window of 390"),
    ('<script src="http://example.invalid/x.js"></script>', "asks http://example.invalid/x.js"),
])
def test_a_bad_page_is_noticed(page, address, content, fault):
    said = listen(page, address)
    body = f'<!doctype html><body style="margin:0"><div class="content"><article>{content}</article></div>'
    page.route("**/bad.html", lambda route: route.fulfill(body=body, content_type="text/html"))
    page.route("**/*.invalid/*", lambda route: route.abort())
    found = [*visit(page, address, "bad.html"), *said]
    assert any(fault in message for message in found), found
