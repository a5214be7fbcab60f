"""The course as a learner meets it: JupyterLab in a browser.

A lesson is run cell by cell, an exercise answered wrongly, then rightly; a figure moves by keys; links open.
"""

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

import nbformat
import pytest

from tests.course.book.conftest import SECONDS
from tests.support import PYTHONPATH, ROOT

LESSON = "00_start_here.ipynb"
MOVING = "03_online_softmax.ipynb"
WRONG = "def average(weights, values):\n    return weights @ values / len(weights)\n"
RIGHT = "def average(weights, values):\n    return weights @ values / weights.sum()\n"


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with a fresh work/, whose lesson has no outputs: what is read later comes from this run."""
    folder = tmp_path_factory.mktemp("lab")
    (folder / "notebooks/solutions").mkdir(parents=True)
    notebook = nbformat.read(ROOT / "notebooks" / LESSON, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    nbformat.write(notebook, folder / "notebooks" / LESSON)
    for name in (MOVING, f"solutions/{MOVING}", "work.py"):
        shutil.copy(ROOT / "notebooks" / name, folder / "notebooks" / name)
    env = {**os.environ, "HOME": str(folder)}
    subprocess.run([sys.executable, "notebooks/work.py", "fill"], cwd=folder, env=env, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def lab(work, browser):
    """The address of a JupyterLab as `make lab` starts it, which knows no settings of whoever runs the tests."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    made = subprocess.run(["make", "-n", "lab"], cwd=ROOT, text=True, capture_output=True, check=True).stdout
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}"]
    command += ["--ServerApp.port_retries=0", "--IdentityProvider.token="]
    command += [x for x in shlex.split(made) if x.startswith("--") and "root" not in x]
    env = {"HOME": str(work), "JUPYTER_PREFER_ENV_PATH": "1", "PYTHONPATH": PYTHONPATH}
    with open(work / "log", "wb") as log:
        server = subprocess.Popen(command, cwd=work, env={**os.environ, **env}, stdout=log, stderr=log)
    try:
        yield answering(f"http://127.0.0.1:{port}", server, work / "log")
    finally:
        server.terminate()
        server.wait(SECONDS)


def answering(address, server, log):
    """The address, once the server answers."""
    for _ in range(10 * SECONDS):
        assert server.poll() is None, log.read_text()
        try:
            urllib.request.urlopen(f"{address}/api", timeout=SECONDS).close()
            return address
        except OSError:
            time.sleep(0.1)
    raise TimeoutError(log.read_text())


class Notebook:
    """A notebook that is open in JupyterLab, its first cell active, in a workspace of its own: nothing else is open."""

    def __init__(self, page, address, name):
        self.page, self.runs = page, 0
        page.goto(f"{address}/lab/workspaces/{name.partition('.')[0]}/tree/work/{name}")
        page.locator(".jp-Notebook h1").wait_for()
        # The notebook's own sign says idle before there is a kernel, and what is run then is lost.
        page.locator(".jp-StatusBar-TextItem", has_text=re.compile(r"\(ipykernel\) \| Idle$")).wait_for()
        self.active = page.locator(".jp-Notebook .jp-Cell.jp-mod-active")
        self.active.click()

    def at(self):
        """The active cell, also when another one is active."""
        number = self.active.get_attribute("data-windowed-list-index")
        return self.page.locator(f'.jp-Notebook .jp-Cell[data-windowed-list-index="{number}"]')

    def run(self):
        """Press Shift+Enter, which runs the active cell and makes the next one active. What then stands under it."""
        cell = self.at()
        code = "jp-CodeCell" in cell.get_attribute("class")
        self.page.keyboard.press("Shift+Enter")
        if not code:
            return ""
        self.runs += 1
        if cell.locator(".jp-InputPlaceholder").count():  # folded code shows no number, but has an output
            cell.locator(".jp-OutputArea-output").first.wait_for()
        else:
            cell.locator(".jp-InputPrompt", has_text=re.compile(rf"^\[{self.runs}\]:$")).wait_for()
        assert cell.locator('[data-mime-type$=".error"], [data-mime-type$=".stderr"]').count() == 0, cell.inner_text()
        return cell.locator(".jp-Cell-outputArea").inner_text()

    def answer(self, code):
        """Answer the exercise two cells above, run it and its check. What the check says."""
        for _ in range(2):
            self.page.keyboard.press("ArrowUp")
        self.page.keyboard.press("Enter")
        self.page.keyboard.press("ControlOrMeta+a")
        self.page.keyboard.insert_text(code)
        self.run()
        return self.run()


def test_a_lesson_is_worked_through(page, work, lab):
    notebook, cells = Notebook(page, lab, LESSON), nbformat.read(work / "work" / LESSON, as_version=4).cells
    at = next(i for i, cell in enumerate(cells) if "exercise" in cell.metadata.get("tags", []))
    assert "check" in cells[at + 1].metadata.tags
    for _ in cells[: at + 1]:
        notebook.run()
    assert "average: not attempted yet." in notebook.run()

    said = notebook.answer(WRONG)
    assert "average: not right yet." in said
    assert "You divide by the number of values." in said
    assert re.match(r"average: right, on \d+ inputs\.", notebook.answer(RIGHT))

    for _ in cells[at + 2 :]:
        notebook.run()
    assert notebook.runs == 4 + sum(cell.cell_type == "code" for cell in cells)
    page.keyboard.press("ControlOrMeta+s")
    page.locator(".lm-TabBar-tab.jp-mod-current:not(.jp-mod-dirty)").first.wait_for()
    saved = nbformat.read(work / "work" / LESSON, as_version=4).cells[: len(cells)]  # below the last one is a new one
    assert saved[at].source.strip() == RIGHT.strip()
    assert all(cell.outputs or cell.id == cells[at].id for cell in saved if cell.cell_type == "code")


def test_what_moves_is_seen_before_its_cell_has_run(page, lab):
    Notebook(page, lab, MOVING)
    for _ in range(100):
        if page.locator(".attnlab-moving svg").count():
            break
        page.keyboard.press("ArrowDown")
    assert page.locator(".attnlab-moving svg").first.is_visible()
    assert page.locator(".lm-TabBar-tab.jp-mod-dirty").count() == 0  # nothing was changed, so nothing is unsaved
    page.locator(".attnlab-moving input").first.press("ArrowRight")
    assert page.locator(".attnlab-moving .words").first.inner_text().startswith("step 2 of")


def test_a_lesson_ends_with_a_link_to_its_solutions(page, work, lab):
    Notebook(page, lab, MOVING)
    page.keyboard.press("Control+End")
    page.locator(".jp-Notebook a", has_text="our solutions").click()
    page.locator(".jp-Notebook", has_text="### BEGIN SOLUTION").wait_for()
    assert page.locator(".lm-TabBar-tab.jp-mod-current", has_text=MOVING).count()
    log = (work / "log").read_text().splitlines()  # a learner reads it in the terminal, where there's a token
    assert [line for line in log if "authentication is disabled" not in line] == []
