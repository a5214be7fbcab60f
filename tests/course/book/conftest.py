"""The site, built once for all these tests; a server of its pages; a browser."""

import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading
from importlib.util import find_spec

import pytest
from bs4 import BeautifulSoup
from filelock import FileLock

from tests.support import MISSING, ROOT

SECONDS = 300  # that a busy machine may take for anything
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def pytest_collection_modifyitems(items):
    """``make test`` has no time to build the site, and where there is a browser looks at one page."""
    for item in items:
        if {"site", "browser"} & set(getattr(item, "fixturenames", ())) and item.originalname != "test_one_page":
            item.add_marker(pytest.mark.full)


def once(tmp_path_factory, name, make):
    """A folder that the first of pytest-xdist's workers makes and all of them read."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            make(folder)
    return folder


def build(folder):
    """Build the book."""
    command = [sys.executable, "notebooks/book/build.py", "--to", folder / "book"]
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, timeout=3 * SECONDS)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The folder of the built site."""
    return once(tmp_path_factory, "site", build) / "book"


@pytest.fixture(scope="session")
def soup(site):
    """A function that reads a page, once for all tests; none of them changes it."""

    @functools.cache
    def read(name):
        return BeautifulSoup((site / f"{name}.html").read_text(encoding="utf-8"), "html.parser")

    return read


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server of files that says nothing."""

    def log_message(self, *args):
        pass


@pytest.fixture(scope="session")
def address(site):
    """Where the site is served."""
    handler = functools.partial(Quiet, directory=site)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="session")
def browser():
    """Chromium without a window: the one that CHROMIUM names, or the first that is installed."""
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if "CHROMIUM" not in os.environ and not (path and find_spec("playwright")):
        pytest.skip(f"needs Chromium and playwright, {MISSING}")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=1000 * SECONDS)
    with sync_playwright() as playwright:
        seen = ["--hide-scrollbars"]  # which Chromium without a window has by itself
        browser = playwright.chromium.launch(executable_path=path, timeout=1000 * SECONDS, ignore_default_args=seen)
        yield browser
        browser.close()


def fresh(browser, width, **options):
    """A page as wide as that."""
    context = browser.new_context(viewport={"width": width, "height": 800}, **options)
    context.set_default_timeout(1000 * SECONDS)
    yield context.new_page()
    context.close()


@pytest.fixture
def page(browser):
    """A fresh page, as wide as a laptop's window."""
    yield from fresh(browser, 1280)


@pytest.fixture
def phone(browser):
    """A fresh page, as narrow as a phone, where bars that scroll lie over the page unless it draws its own."""
    yield from fresh(browser, 390, is_mobile=True, has_touch=True)
