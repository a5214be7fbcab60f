"""The book on paper: every page of the course that the site's sidebar names, printed by Chromium into one PDF."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from bs4 import BeautifulSoup
from pypdf import PdfWriter
from tqdm import tqdm

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPTIONS = ["--headless", "--no-sandbox", "--allow-file-access-from-files", "--no-pdf-header-footer"]


def bind(site: Path, only: int | None = None) -> Path:
    """Print the first ``only`` pages, by default all, into attnlab.pdf with an outline; a page takes some seconds.

    Raises SystemExit where there is no Chromium.
    """
    if not (browser := next(filter(None, map(shutil.which, BROWSERS)), None)):
        raise SystemExit(f"a PDF is printed by Chromium: install one of {', '.join(BROWSERS)}")
    menu = BeautifulSoup((site / "index.html").read_text(encoding="utf-8"), "html.parser").select(".sidebar-tree a")
    pages = [(link["href"], link.text) for link in menu if "/" not in link["href"]][:only]
    book = PdfWriter()
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, title) in enumerate(tqdm(pages, unit="page", disable=None)):
            printed = Path(folder, f"{number}.pdf")
            command = [browser, *OPTIONS, f"--print-to-pdf={printed}", (site / name).as_uri()]
            subprocess.run(command, check=True, capture_output=True)
            book.append(printed, outline_item=title)
    book.compress_identical_objects()
    book.write(site / "attnlab.pdf")
    return site / "attnlab.pdf"
