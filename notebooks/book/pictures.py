"""Figures that are stored as drawings become part of the page: their words can be selected, read aloud and found."""

import base64
import re

from bs4 import BeautifulSoup, Tag

DRAWN = "data:image/svg+xml;base64,"
MATPLOTLIB = '<g id="figure_1">'
REFERRED = re.compile(r'(href="#|url\(#)([\w-]+)')
SHADES = re.compile(r"\b(?:dark|darker|white|black)\b")  # as in attnlab_course.plots.style
"""Words for shades, which hold in the light only: a figure that is described by them looks the same in the dark."""


def inline(image: Tag, label: str) -> Tag:
    """The drawing that an image holds, in its place; the image itself if it's a picture, or drawn by others."""
    if not image["src"].startswith(DRAWN):
        return image
    text = base64.b64decode(image["src"].removeprefix(DRAWN)).decode()
    if MATPLOTLIB not in text:
        return image
    used = {found[2] for found in REFERRED.finditer(text)}
    text = re.sub(r' id="([^"]+)"', lambda found: f' id="{label}-{found[1]}"' if found[1] in used else "", text)
    text = re.sub(r"<style.*?</style>", "", REFERRED.sub(rf"\1{label}-\2", text), flags=re.DOTALL)
    drawing = BeautifulSoup(text, "html.parser").svg
    drawing.attrs |= {"class": "drawn", "role": "img", "aria-label": image["alt"], "width": image["width"]}
    del drawing["height"]
    image.replace_with(drawing)
    return drawing
