"""Build the site of the course, build/book, from the executed notebooks and the pages in this folder.

    python notebooks/book/build.py             build; a warning is an error
    python notebooks/book/build.py --to PATH   build elsewhere
    python notebooks/book/build.py --pdf       print it, too, into attnlab.pdf beside index.html; needs Chromium

Nothing is run and nothing is fetched. First the pages are laid out in a folder of sources (see stage.py), then Sphinx
reads them, then they get what lets them run in a browser (see live.py). Both folders are made anew each time: it takes
a minute or two, and nothing of an older build can stay.
"""

import argparse
import shutil
import sys
from pathlib import Path

from live import pack
from paper import bind
from sphinx.cmd.build import main as sphinx
from stage import stage

BOOK = Path(__file__).resolve().parent
SITE = BOOK.parents[1] / "build/book"


def main() -> None:
    """Read the command line, lay out the sources, call Sphinx."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, default=SITE, help="where the site goes (build/book)")
    parser.add_argument("--pdf", action="store_true", help="print all lessons and pages into attnlab.pdf as well")
    options = parser.parse_args()
    site = options.to.resolve()
    work = site.with_name(f"{site.name}-work")
    for folder in (site, work):
        shutil.rmtree(folder, ignore_errors=True)
    print("Laying out the pages; then Sphinx reads and writes them, in a minute or two.", flush=True)
    stage(BOOK.parent, work / "sources")
    settings = ["--fail-on-warning", "-c", str(BOOK), "-d", str(work / "cache")]
    if status := sphinx([*settings, str(work / "sources"), str(site)]):
        sys.exit(status)
    pack((BOOK.parents[1] / "attnlab", BOOK.parent / "attnlab_course"), site)
    if options.pdf:
        print(f"Printed {bind(site)}")
    print(f"Open {site.as_uri()}/index.html")


if __name__ == "__main__":
    main()
