"""What lets a page run: Python for the browser, and our packages in archives that it unpacks there.

The files that run it are in static/live. Pyodide is loaded when a reader asks for it, by default from its public CDN:
the site without it is complete, and needs no network. ATTNLAB_PYODIDE names another address, or a folder with the files
of a release, which then becomes part of the site.
"""

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

from nbformat import NotebookNode

CDN = "https://cdn.jsdelivr.net/pyodide/v0.28.3/full/"
SOURCE = os.environ.get("ATTNLAB_PYODIDE") or CDN
WEIGHTS = "attnlab_course/model/weights/"  # an archive of its own, for the lessons that compute with the model
NEEDS = re.compile(r"\b(?:torch|jax|jnp|triton|tl)\b")  # what no browser has
MOST = 3 / 10  # of a lesson's cells may name it, and none may write a kernel
KERNEL = "triton.language"
BAR = """<div class="live" data-runtime="{runtime}" data-archives="{archives}" hidden>
<button type="button">Run this page here</button>
<span role="status">Python comes into your browser, about {megabytes} MB, once. Nothing you write leaves it.</span>
</div>"""


def bar(notebook: NotebookNode) -> str:
    """The button for a page, as HTML; nothing for one of which the browser could run too little."""
    codes = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    if sum(bool(NEEDS.search(code)) for code in codes) > MOST * len(codes) or any(KERNEL in code for code in codes):
        return ""
    model = any(re.search(r"\bmodel\b", code) for code in codes)
    runtime = "_static/pyodide/" if Path(SOURCE).is_dir() else SOURCE.rstrip("/") + "/"
    archives = "attnlab.zip weights.zip" if model else "attnlab.zip"
    return BAR.format(runtime=runtime, archives=archives, megabytes=23 if model else 20)


def pack(packages: Sequence[Path], site: Path) -> None:
    """Put the packages into the site, in two archives, and Pyodide if it is a folder."""
    files = [(package, path) for package in packages for path in sorted(package.rglob("*"))]
    files = [(package, path) for package, path in files if path.is_file() and "__pycache__" not in path.parts]
    for name, weights in (("attnlab.zip", False), ("weights.zip", True)):
        with ZipFile(site / "_static/live" / name, "w", ZIP_DEFLATED) as archive:
            for package, path in files:
                inside = path.relative_to(package.parent).as_posix()
                if inside.startswith(WEIGHTS) == weights:
                    archive.write(path, inside)
    if Path(SOURCE).is_dir():
        shutil.copytree(SOURCE, site / "_static/pyodide")
