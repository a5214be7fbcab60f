"""Build the notebooks of the course from its lessons.

    python notebooks/build.py             build what changed
    python notebooks/build.py 01 --force  build lesson 01 anyway
    python notebooks/build.py --check     build nothing; list what is stale, missing or extra

Each lessons/NN_name.md becomes NN_name.ipynb for learners and solutions/NN_name.ipynb (see lesson.py), each page
lessons/name.md becomes name.ipynb; all run from this folder and are stored with their outputs. Outputs of widgets are
not stored: without a kernel they cannot be shown.
Output to stderr, or one that names a folder or the name of this machine, is an error. A cell with a clock runs again if
its times contradict what the text says of them or scatter too much, and isn't stored before they do neither (see
attnlab_course/instruments/clock.py); --draft stores it all the same, for a look at a lesson on a busy machine: the
tests refuse it.

A notebook is built again when its cells differ from the lesson's or when a module of attnlab or attnlab_course that it
imported has changed. When only its prose differs, docstrings and comments among it, it keeps its outputs and nothing
runs; with --prose even if the packages have changed, too, and a later build runs it. --check looks at the cells and at
the presence of outputs; whether the text is still what the packages print is for nbval to say. Pictures are compared by
nobody: after a change elsewhere that alters them, use --force.
"""

import argparse
import ast
import asyncio
import hashlib
import os
import platform
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import nbformat
from attnlab_course.instruments import clock
from lesson import Job, LessonError, describe, plan, tags
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from tqdm import tqdm

AT_ONCE = 2
CELL_SECONDS = 300
ATTEMPTS = 4  # at a clock that contradicts the text
WIDGET = "application/vnd.jupyter.widget-view+json"
PROBE = """
print(*sorted(name for name in __import__("sys").modules if name.split(".")[0] in ("attnlab", "attnlab_course")))
"""


def outdated(job: Job) -> str:
    """Why a stored notebook is not the one that its lesson makes; empty if it is."""
    if not job.path.exists():
        return "missing"
    try:
        old = nbformat.read(job.path, as_version=4)
        nbformat.validate(old)
    except (ValueError, nbformat.ValidationError):
        return "not a notebook"
    record = {key: old.metadata.get("attnlab", {}).get(key) for key in ("lesson", "source")}
    if {**old.metadata, "attnlab": record} != job.notebook.metadata or len(old.cells) != len(job.notebook.cells):
        return "stale: made from another version of the lesson"
    for ours, theirs in zip(job.notebook.cells, old.cells, strict=True):
        if describe(ours) != describe(theirs):
            return f"stale: cell {ours.id} differs from the lesson"
    code = [cell for cell in old.cells if cell.cell_type == "code" and cell.source.strip()]
    if any(cell.execution_count is None for cell in code):
        return "has cells that were not run"
    if code and not any(cell.outputs for cell in code):
        return "has no outputs"
    return next(faults(replace(job, notebook=old)), "")


def package_changed(job: Job) -> bool:
    """Whether a module of ours that the stored notebook imported is no longer the same."""
    record = nbformat.read(job.path, as_version=4).metadata.attnlab
    return record.get("package") != fingerprint(job, record.get("imports", ""))


def fingerprint(job: Job, modules: str) -> str:
    """A digest of the source of these modules."""
    digest = hashlib.sha256()
    for name in modules.split():
        root = job.lesson.parents[1 if name.startswith("attnlab_course") else 2]
        path = root.joinpath(*name.split("."))
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        digest.update(path.read_bytes() if path.exists() else b"")
    return digest.hexdigest()[:16]


def faults(job: Job) -> Iterator[str]:
    """What may not be in a stored output: messages on stderr, the folders and the name of this machine."""
    folders = {str(job.lesson.parents[2]), str(Path.home()), tempfile.gettempdir(), sys.prefix, sys.base_prefix}
    places = "|".join(re.escape(folder) for folder in sorted(folders - {"/"}, key=len, reverse=True))
    host = platform.node()
    named = rf"|\b{re.escape(host)}\b" if len(host) > 3 and not host.isalpha() else ""
    private = re.compile(rf"(?<![\w.])(?:{places})(?![\w.-]){named}")
    for index, cell in enumerate(job.notebook.cells):
        for output in cell.get("outputs", []):
            text = "\n".join(texts(output))
            if output.get("name") == "stderr":
                yield f"{job.where(index)}: writes to stderr: {text.strip().splitlines()[-1]}"
            elif found := private.search(text):
                yield f"{job.where(index)}: the output names this machine: {found[0]}"


def texts(output: NotebookNode) -> list[str]:
    """All text of an output."""
    if output.output_type == "stream":
        return [output.text]
    if output.output_type == "error":
        return [*output.traceback]
    return [value for kind, value in output.data.items() if isinstance(value, str) and kind[:6] != "image/"]


def reworded(job: Job, prose: bool) -> bool:
    """Take the outputs of the stored notebook if it differs in prose alone; whether it does.

    ``prose``: even if the package has changed.
    """
    if not job.path.exists() or (package_changed(job) and not prose):
        return False
    old = nbformat.read(job.path, as_version=4)
    theirs, ours = ([cell for cell in book.cells if cell.cell_type == "code"] for book in (old, job.notebook))
    same = [(meaning(cell), cell.metadata) for cell in theirs] == [(meaning(cell), cell.metadata) for cell in ours]
    if not same or any(cell.execution_count is None for cell in theirs) or not any(cell.outputs for cell in theirs):
        return False
    for cell, stored in zip(ours, theirs):
        cell.update(outputs=stored.outputs, execution_count=stored.execution_count)
    job.notebook.metadata.attnlab.update({key: old.metadata.attnlab[key] for key in ("imports", "package")})
    return True


def meaning(cell: NotebookNode) -> str:
    """What a cell does: its code without comments and without the docstrings of its functions, which are prose."""
    try:
        tree = ast.parse(cell.source)
    except SyntaxError:
        return cell.source
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) and len(node.body) > 1:
            del node.body[0]
    return ast.dump(tree)


async def execute(job: Job, bar: tqdm, attempts: int) -> None:
    """Run a notebook in a new kernel, keep its outputs, and note which modules of ours it imported."""
    cells = job.notebook.cells
    client = NotebookClient(
        job.notebook,
        kernel_name="python3",
        resources={"metadata": {"path": str(job.lesson.parents[1])}},
        timeout=CELL_SECONDS,
        extra_arguments=["--log-level=ERROR"],
        record_timing=False,
        coalesce_streams=True,
    )
    async with client.async_setup_kernel():
        for index, cell in enumerate(cells):
            try:
                await run_cell(client, job, index, attempts)
            except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
                raise LessonError(complaint(job, index, error)) from None
            if cell.cell_type == "code":
                cell.outputs = [output for output in cell.outputs if WIDGET not in output.get("data", {})]
                if "predict" in tags(cell) and not job.solved:
                    cell.outputs = []
                bar.update()
        cells.append(nbformat.v4.new_code_cell(PROBE))
        await client.async_execute_cell(cells[-1], len(cells) - 1)
        imports = cells.pop().outputs[0].text.strip()
    job.notebook.metadata.attnlab.update(imports=imports, package=fingerprint(job, imports))


async def run_cell(client: NotebookClient, job: Job, index: int, attempts: int) -> None:
    """Run a cell; again while its clocks contradict the text, and complain if they never agree (0: don't look)."""
    cell = job.notebook.cells[index]
    for turn in range(1, max(attempts, 1) + 1):
        await client.async_execute_cell(cell, index)
        said = [fault for output in cell.get("outputs", []) for fault in clock.stored_faults(output)]
        if not said or not attempts:
            return
        tqdm.write(f"{job.where(index)}: measured {turn} of {attempts} times: {'; '.join(said)}")
    raise LessonError(f"{job.where(index)}: {'; '.join(said)}")


def complaint(job: Job, index: int, error: Exception) -> str:
    """Where and why a cell failed, in one line."""
    if isinstance(error, CellTimeoutError):
        return f"{job.where(index)}: ran longer than {CELL_SECONDS} s."
    if isinstance(error, DeadKernelError):
        return f"{job.where(index)}: the kernel died; is there enough memory?"
    trace = re.sub(r"\x1b\[[\d;]*m", "", error.traceback)
    line = re.search(rf"Cell In\[{job.notebook.cells[index].execution_count}\], line (\d+)", trace)
    return f"{job.where(index, int(line[1]) if line else 1)}: {error.ename}: {error.evalue}"


async def build(jobs: list[Job], at_once: int, attempts: int, force: bool, prose: bool) -> list[str]:
    """Run all notebooks, ``at_once`` at a time, and store those without a fault; return the faults.

    Unless forced, those that differ in prose alone keep their outputs.
    """
    turns = asyncio.Semaphore(at_once)

    async def one(job: Job) -> list[str]:
        async with turns:
            try:
                if force or not reworded(job, prose):
                    await execute(job, bar, attempts)
            except LessonError as error:
                return [str(error)]
        found = list(faults(job))
        if not found:
            store(job)
            tqdm.write(f"Built {job.path.parent.name}/{job.path.name}")
        return found

    total = sum(cell.cell_type == "code" for job in jobs for cell in job.notebook.cells)
    with tqdm(total=total, unit="cell", disable=None, leave=False) as bar:
        return [fault for found in await asyncio.gather(*map(one, jobs)) for fault in found]


def store(job: Job) -> None:
    """Write a notebook so that an interruption leaves the old one or the new one."""
    job.path.parent.mkdir(exist_ok=True)
    part = job.path.with_suffix(".part")
    nbformat.write(job.notebook, part)
    os.replace(part, job.path)


def check(folder: Path, jobs: list[Job]) -> list[str]:
    """What is wrong with the stored notebooks."""
    wrong = [f"{job.path.relative_to(folder.parent)}: {reason}" for job in jobs if (reason := outdated(job))]
    stored = {*folder.glob("*.ipynb"), *folder.glob("solutions/*.ipynb")}
    extra = sorted(stored - {job.path for job in plan(folder, [])})
    return wrong + [f"{path.relative_to(folder.parent)}: extra; no lesson makes it" for path in extra]


def main() -> None:
    """Read the command line and build or check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lessons", nargs="*", metavar="NN", help="lessons by number, pages by name; default: all")
    parser.add_argument("--check", action="store_true", help="build nothing; fail if something is to be built")
    parser.add_argument("--force", action="store_true", help="build what is up to date, too")
    parser.add_argument("--prose", action="store_true", help="keep outputs where only prose differs from the lesson")
    parser.add_argument("--alone", action="store_true", help="one at a time: none disturbs what another one times")
    parser.add_argument("--draft", action="store_true", help="store clocks that contradict the text or didn't settle")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent, help=argparse.SUPPRESS)
    options = parser.parse_args()
    folder = options.folder.resolve()
    os.environ["PYTHONHASHSEED"] = "0"
    os.environ["ATTNLAB_ANSWERS"] = ""  # the solutions are nobody's answers
    os.environ.pop("MPLBACKEND", None)
    try:
        jobs = plan(folder, [name.zfill(2) for name in options.lessons])
        if options.check:
            wrong = check(folder, jobs)
            sys.exit("\n".join([*wrong, "`make notebooks` builds them."]) if wrong else 0)
        todo = [job for job in jobs if options.force or outdated(job) or package_changed(job)]
        attempts = 0 if options.draft else ATTEMPTS
        wrong = asyncio.run(build(todo, 1 if options.alone else AT_ONCE, attempts, options.force, options.prose))
    except LessonError as error:
        wrong, todo, jobs = [str(error)], [], []
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"{len(todo)} notebooks built, {len(jobs) - len(todo)} up to date.")


if __name__ == "__main__":
    main()
