"""A figure that is stored as a drawing becomes part of its page; any other stays an image."""

import importlib.util
import re

import pytest
from attnlab_course import plots
from attnlab_course.plots.style import picture
from bs4 import BeautifulSoup

from tests.support import ROOT

IMAGE = '<img alt="six rungs" width="900" src="data:{}">'


@pytest.fixture(scope="module")
def inline():
    """The function of the book that puts a drawing in the place of its image."""
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "notebooks/book/pictures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return lambda source, label: module.inline(BeautifulSoup(IMAGE.format(source), "html.parser").img, label)


def test_drawings_share_no_names(inline):
    one, other = (str(inline(picture(plots.ladders()), label)) for label in ("fig-1", "fig-2"))
    names = [set(re.findall(r'id="(.+?)"', drawn)) for drawn in (one, other)]
    assert names[0]
    assert not names[0] & names[1]
    assert {*re.findall(r'(?:href="|url\()#([\w-]+)', one)} == names[0]
    assert "<style" not in one


@pytest.mark.parametrize("source", ["image/png;base64,AAAA", "image/svg+xml;base64,PHN2Zy8+"])
def test_a_picture_stays_an_image(inline, source):
    assert inline(source, "fig-1").name == "img"


def test_a_drawing_is_drawn_by_the_browser_with_words_as_words(inline, page, address):
    drawing = f"<!doctype html><article>{inline(picture(plots.ladders()), 'fig-1')}</article>"
    page.route("**/drawn.html", lambda route: route.fulfill(body=drawing, content_type="text/html"))
    page.goto(f"{address}/drawn.html")
    assert page.get_by_role("img", name="six rungs").bounding_box()["width"] == 900
    box = page.get_by_text("online", exact=True).first.bounding_box()
    assert min(box["width"], box["height"]) > 8
