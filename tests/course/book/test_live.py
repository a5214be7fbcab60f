"""A lesson runs where it is read: in the browser, on Pyodide, where the site has a copy of it."""

import os
import runpy
import sys
from pathlib import Path

import nbformat
import pytest
from attnlab_course import check

from tests.support import ROOT

LIVE = ROOT / "notebooks/book/static/live"
LESSON = "03_online_softmax"
PYODIDE = os.environ.get("ATTNLAB_PYODIDE", "")
needs_pyodide = pytest.mark.skipif(
    not Path(PYODIDE or "nowhere").is_dir(),
    reason="needs ATTNLAB_PYODIDE=folder with the files of a Pyodide release, whose NumPy is in no package registry",
)
SOLUTION = """def online_stats(stream):
    m, l = float("-inf"), 0.0
    for x in stream:
        m_next = max(m, x)
        if m_next > float("-inf"):
            l = l * math.exp(m - m_next) + math.exp(x - m_next)
            m = m_next
    return m, l"""


class Told(list):
    """What a page is sent."""

    def __call__(self, kind, text):
        self.append((kind, text))

    def of(self, kind):
        return "".join(text for said, text in self if said == kind)


@pytest.fixture
def told(monkeypatch):
    """A page's cells, in this Python, and what it is sent."""
    for name in ("IPython", "IPython.display"):
        monkeypatch.setitem(sys.modules, name, sys.modules.get(name))
    told = Told()
    told.page = runpy.run_path(str(LIVE / "cells.py"))["Page"](told)
    return told


def test_a_cell_prints_and_shows_its_last_value(told):
    assert told.page.run(1, "x = 20\nprint('twice')\nx + x")
    assert told.of("text") == "twice\n40\n"
    assert told.page.run(2, "x")
    assert told.of("text").endswith("40\n20\n")
    assert told.page.run(3, "from attnlab_course import plots\nplots.table(['n'], [[1]])")
    assert told.of("html").startswith("<table")


def test_a_dictionary_that_was_not_filled_says_what_it_takes(told):
    told.page.run(1, "import concurrent\nfound = {}\nfor x in 'ab':\n    import triton.absent\n    found[x] = x")
    assert not told.page.run(2, "found['a']")
    assert told.of("needs") == 2 * "the installed course: Triton"
    assert not told.page.run(3, "{}['a']")
    assert "KeyError" in told.of("error")


def test_an_error_shows_the_cells_own_lines(told):
    assert not told.page.run(1, "def f(n):\n    return 1 / n\n\nf(0)")
    said = told.of("error")
    assert "return 1 / n" in said
    assert said.count("File ") == 2
    assert said.endswith("ZeroDivisionError: division by zero\n")
    assert not told.page.run(2, "1 +")
    assert "SyntaxError" in told.of("error")


def test_what_a_browser_lacks_is_named_also_by_those_who_depend_on_it(told, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert told.page.run(0, "import torch\nfrom torch import nn as F")
    assert not told.page.run(1, "filled = torch.ones(3)")
    assert not told.page.run(2, "print(filled)")
    assert not told.page.run(3, "raise OSError(138, 'emscripten does not support processes.')")
    assert not told.page.run(4, "F(3)")
    assert not told.page.run(6, "import numpy\nnumpy.zeros(3, torch)")
    needs = [text.removeprefix("the installed course: ") for kind, text in told if kind == "needs"]
    assert needs == ["PyTorch", "PyTorch", "other processes or threads", "PyTorch", "PyTorch"]
    assert not told.page.run(5, "unheard_of")
    assert "NameError" in told.of("error")
    told.page.skip("times = timed({})")
    assert not told.page.run(7, "print(times)")
    assert told[-1] == ("needs", "a cell above that takes long: run that one first")


def test_the_checker_answers_in_html(told):
    assert told.page.run(1, f"import math\nfrom attnlab_course import check\n{SOLUTION}\ncheck.answer(online_stats)")
    assert "online_stats: right" in told.of("html")


def test_progress_needs_no_library_of_an_exercise(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "attnlab_course.lessons.lesson06.exercises.visible_loss", None)
    check.progress("06")
    assert "visible_loss" in capsys.readouterr().out


@pytest.mark.parametrize(("setting", "runtime"), [("", ""), ("https://x.org/p", "https://x.org/p/")])
def test_where_pyodide_comes_from(setting, runtime, monkeypatch):
    monkeypatch.setenv("ATTNLAB_PYODIDE", setting)
    live = runpy.run_path(str(ROOT / "notebooks/book/live.py"))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1")])
    assert f'data-runtime="{runtime or live["CDN"]}"' in live["bar"](notebook)


def test_lessons_of_numpy_have_the_button(site):
    have = {page.stem[:2] for page in site.glob("[0-9]*.html") if 'class="live"' in page.read_text(encoding="utf-8")}
    assert {f"{number:02}" for number in range(27)} - have == {"06", "12"}


def test_the_set_up_hangs_on_the_button(soup):
    page = soup("03_online_softmax")
    (setup,) = page.select(".live + .cell.setup")
    assert setup == page.select_one(".cell")
    assert "import attnlab" in setup.text
    assert not soup("05_chunked_attention").select(".cell.setup")  # its first cell shows something
    assert not soup("12_real_kernels").select(".cell.setup")  # it doesn't run here


@pytest.mark.full
def test_lesson_00_runs_without_pytorch(told, monkeypatch):
    for name in ("torch", "jax", "triton", "ml_dtypes"):
        monkeypatch.setitem(sys.modules, name, None)
    for number, cell in enumerate(cells("00_start_here"), 1):
        told.page.run(number, cell.source)
    assert not told.of("error")
    assert "16,384" in told.of("text") or "tiled attention:" in told.of("text")
    assert [text.rpartition(": ")[2] for kind, text in told if kind == "needs"] == ["JAX", "PyTorch"]


def test_without_its_python_the_page_says_so(page, site, address):
    page.goto(f"{address}/{LESSON}.html")
    page.locator(".live").evaluate("bar => { bar.dataset.runtime = 'http://127.0.0.1:9/'; }")
    page.get_by_role("button", name="Run this page here").click()
    page.get_by_text("could not start: it comes from 127.0.0.1:9, which can't be reached. Press again").wait_for()
    assert page.get_by_role("button", name="Run this page here").is_enabled()
    page.goto((site / f"{LESSON}.html").as_uri())
    page.get_by_text("A page that is opened from a folder can't run Python").wait_for()
    assert page.get_by_role("button", name="Run this page here").is_disabled()


def start(page, address, lesson=LESSON):
    """A lesson's page, with Python."""
    page.goto(f"{address}/{lesson}.html")
    page.get_by_role("button", name="Run this page here").click()
    page.get_by_text("Ready.").wait_for()
    return page


@pytest.fixture
def live(page, address):
    """Lesson 03, with Python."""
    return start(page, address)


ECHO = "onmessage = ({ data }) => postMessage(data.start ? { ready: true } : { done: true });"


def test_what_is_written_in_a_cell_is_kept(page, address):
    page.route("**/worker.js", lambda route: route.fulfill(body=ECHO, content_type="text/javascript"))
    code = start(page, address).locator(".cell_input pre").nth(1)
    before = code.inner_text()
    code.focus()
    page.keyboard.type("# mine")
    for key in ("ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp"):
        page.keyboard.press(key)
    assert page.url == f"{address}/{LESSON}.html"
    page.goto(f"{address}/index.html")
    assert "# mine" in start(page, address).locator(".cell_input pre").nth(1).inner_text()
    page.get_by_role("button", name="original code of cell 2").click()
    assert code.inner_text() == before
    assert start(page, address).locator(".cell_input pre").nth(1).inner_text() == before


def test_code_is_written_as_in_an_editor(page, address):
    page.route("**/worker.js", lambda route: route.fulfill(body=ECHO, content_type="text/javascript"))
    code = start(page, address).locator(".cell_input pre").nth(1)
    before = code.inner_html()
    code.click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text("def f(x):\n    if x:")  # a paste, whose line ends are elements
    for keys in ("y", "Enter", "z", "Enter", "Backspace"):
        page.keyboard.type(keys) if len(keys) == 1 else page.keyboard.press(keys)
    page.keyboard.type("w")
    assert code.inner_text() == "def f(x):\n    if x:y\n    z\nw"
    colors = "code => [...code.querySelectorAll('*'), code].map(part => getComputedStyle(part).color)"
    assert len(set(code.evaluate(colors))) == 1
    page.get_by_role("button", name="original code of cell 2").click()
    assert code.inner_html() == before


@pytest.mark.parametrize("width", [390, 820, 1280])
def test_stop_is_in_reach_wherever_the_page_is(width, page, address):
    endless = ECHO.replace("{ done: true }", "{}")
    page.route("**/worker.js", lambda route: route.fulfill(body=endless, content_type="text/javascript"))
    page.set_viewport_size({"width": width, "height": 800})
    start(page, address).get_by_role("button", name="run cell 2", exact=True).click()
    for top in (5000, 4900):  # upward, furo offers a way back to the top
        page.evaluate(f"scrollTo({{ top: {top}, behavior: 'instant' }})")
        page.wait_for_timeout(200)
    page.get_by_role("button", name="Stop").click(timeout=2000)
    page.get_by_text("Stopped").wait_for()
    assert page.evaluate("scrollY") > 4000


def test_run_all_leaves_out_what_takes_long(page, address):
    page.route("**/worker.js", lambda route: route.fulfill(body=ECHO, content_type="text/javascript"))
    start(page, address, "05_chunked_attention").get_by_role("button", name="Run all cells").click()
    stored = "> .cell_output:not(.live-output, :has(figure))"
    long, short = page.locator(f".cell.tag_long {stored}"), page.locator(f".cell:not(.tag_long) {stored}")
    short.last.wait_for(state="hidden")
    assert long.count() > 0 < short.count()
    assert all(output.is_visible() for output in long.all())
    assert not any(output.is_visible() for output in short.all())


def test_a_long_run_shows_its_seconds(page, address):
    endless = ECHO.replace("{ done: true }", "{}")
    page.route("**/worker.js", lambda route: route.fulfill(body=endless, content_type="text/javascript"))
    start(page, address).get_by_role("button", name="run cell 1", exact=True).click()
    page.get_by_text("Running cell 1 … 5 s.").wait_for()
    page.get_by_role("button", name="Stop").click()
    page.wait_for_timeout(6000)
    assert "Stopped" in page.locator(".live [role=status]").inner_text()


def cells(lesson=LESSON):
    """The code cells that the page shows."""
    notebook = nbformat.read(ROOT / f"notebooks/{lesson}.ipynb", as_version=4)
    code = (cell for cell in notebook.cells if cell.cell_type == "code")
    return [cell for cell in code if "remove-cell" not in cell.metadata.get("tags", [])]


@needs_pyodide
def test_lesson_03_prints_in_the_browser_what_is_stored(live):
    live.get_by_role("button", name="Run all cells").click()
    live.get_by_text("Ready.").wait_for()
    now = [output.inner_text() for output in live.locator(".live-output").all()]
    assert len(now) == len(cells())
    same = 0
    for cell, text in zip(cells(), now):
        stored = "".join(output.text for output in cell.outputs if output.output_type == "stream")
        if stored and "needs the installed course" not in text:
            assert text.strip() == stored.strip()
            same += 1
    assert same > 8
    assert live.get_by_text("needs the installed course: JAX").count() == 1
    assert live.locator(".traceback").count() == 0


@needs_pyodide
def test_an_answer_is_checked_and_an_endless_one_stopped(live):
    answer, check = (live.locator(f".cell.tag_{tag}").first for tag in ("exercise", "check"))
    check.get_by_role("button", name="run cell").click()
    check.locator(".live-output").get_by_text("online_stats: not attempted").wait_for()
    answer.locator("pre").first.fill("def online_stats(stream):\n    while True:\n        pass")
    check.get_by_role("button", name="run cell").click()
    live.get_by_text("Running cell").wait_for()
    live.get_by_role("button", name="Stop").click()
    live.get_by_text("Stopped, and what was computed is gone").wait_for()
    answer.locator("pre").first.fill(SOLUTION)
    check.get_by_role("button", name="run cell").click()
    check.get_by_text("online_stats: right").wait_for()
    code = live.locator(".cell_input pre").nth(1)
    code.fill("for k in range(2):")
    for key in ("End", "Enter"):
        code.press(key)
    code.type("print(k + 41)")
    code.press("Shift+Enter")
    live.locator(".live-output").nth(1).get_by_text("42").wait_for()

