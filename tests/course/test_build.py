"""The notebook build, `make reset` and the set-up keep their promises, tried on a toy course and with toy Pythons."""

import io
import json
import os
import runpy
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import nbformat
import pytest

from tests.support import PYTHONPATH, ROOT, needs

EXERCISE = ''':tags: [exercise]

def double(x):
    """Twice x."""
    ### SOLUTION double
'''
OWN = EXERCISE.replace("### SOLUTION double", """### BEGIN SOLUTION ours: a sum is simpler
    return x + x
    ### END SOLUTION""")
EXERCISES = "attnlab_course/lessons/lesson01/exercises"
REFERENCE = '''from numbers import Number


def double(x: Number) -> Number:
    """2x."""

    def times(two: "Number", x: Number) -> Number:  # 2 · x
        return two * x

    return times(2, x)


EXERCISE = double
'''
SOLVED = '''def double(x):
    """Twice x."""
    ### BEGIN SOLUTION
    def times(two, x):  # 2 · x
        return two * x

    return times(2, x)
    ### END SOLUTION'''
CHECK = """:tags: [check, points-2]

try:
    print("right" if double(4) == 8 else "wrong")
except NotImplementedError:
    print("not attempted")
"""


def lesson(*code: str) -> str:
    """A lesson with these code cells between its first and its last paragraph."""
    return "\n\n".join(["# Toy", *(f"```{{code-cell}}\n{cell}\n```" for cell in code), "The $e^x$ end."]) + "\n"


def run(*command: object, cwd: Path, **env: object) -> tuple[int, str]:
    """Run a command in a clean environment; return its exit status and all that it says."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PIP_", "MAKE", "MFLAGS", "PYTHON"))}
    env = {**kept, "PIP_CONFIG_FILE": "/dev/null", **{key: str(value) for key, value in env.items()}}
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=env, text=True, stdout=-1, stderr=-2, stdin=-3, timeout=600, check=False)
    return done.returncode, done.stdout


def build(course: Path, *arguments: str) -> tuple[int, str]:
    """What the build tool makes of a course, run as its command runs it, but in this process: imports take longest.

    In a thread of its own: a browser of other tests may have left an event loop running in this one.
    """
    said, end = io.StringIO(), None
    with pytest.MonkeyPatch.context() as here, redirect_stdout(said), redirect_stderr(said):
        here.setenv("PYTHONHASHSEED", "0")
        here.setattr(sys, "argv", ["build.py", "--folder", str(course / "notebooks"), *arguments])
        here.syspath_prepend(ROOT / "notebooks")
        try:
            with ThreadPoolExecutor(1) as alone:
                alone.submit(runpy.run_path, str(ROOT / "notebooks/build.py"), run_name="__main__").result()
        except SystemExit as stop:
            end = stop.code
    print(end if isinstance(end, str) else "", file=said)
    return int(bool(end)), said.getvalue().strip()


def cells(course: Path) -> list[list[dict]]:
    """The cells of both notebooks of a course."""
    names = ("01_toy.ipynb", "solutions/01_toy.ipynb")
    return [json.loads((course / "notebooks" / name).read_text())["cells"] for name in names]


def change(path: Path, edit: object) -> None:
    """Edit a stored notebook."""
    notebook = json.loads(path.read_text())
    edit(notebook)
    path.write_text(json.dumps(notebook))


def make_course(path: Path, text: str) -> Path:
    """A course whose only lesson, 01_toy.md, has this text, and the reference of its exercise."""
    (path / "notebooks/lessons").mkdir(parents=True)
    (path / "notebooks/lessons/01_toy.md").write_text(text)
    (path / "notebooks" / EXERCISES).mkdir(parents=True)
    (path / "notebooks" / EXERCISES / "double.py").write_text(REFERENCE)
    return path


IMPORTED = "attnlab/core/dispatch.py", "notebooks/attnlab_course/ladder.py"
"""What its notebooks import, of both packages."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A course that has been built once."""
    widget = ":tags: [nbval-ignore-output]\n\nfrom ipywidgets import IntSlider\nIntSlider()"
    call = "from attnlab.core import dispatch\nfrom attnlab_course import ladder"
    text = lesson(call, ":tags: [hide-input]\n\nprint('one')\n6 * 7", EXERCISE, CHECK, CHECK, widget)
    course = make_course(tmp_path_factory.mktemp("course"), text)
    for file in IMPORTED:
        (course / file).parent.mkdir(parents=True, exist_ok=True)
        (course / file).write_text("version = 1\n")
    status, said = build(course)
    assert status == 0, said
    return course


@pytest.fixture
def course(built: Path, tmp_path: Path) -> Path:
    """A copy of the built course."""
    return shutil.copytree(built, tmp_path / "course")


def test_two_notebooks(built: Path) -> None:
    learner, solved = cells(built)
    assert [cell["id"] for cell in learner] == [f"01-{n:03}" for n in range(1, 9)]
    stub, code = ("".join(notebook[3]["source"]) for notebook in (learner, solved))
    assert stub == 'def double(x):\n    """Twice x."""\n    # YOUR CODE HERE\n    raise NotImplementedError()'
    assert code == SOLVED
    said = ["".join(notebook[4]["outputs"][0]["text"]) for notebook in (learner, solved)]
    assert said == ["not attempted\n", "right\n"]
    folded, exercise, check, again, widget = learner[2:7]
    assert folded["metadata"] == {"jupyter": {"source_hidden": True}, "tags": ["hide-input"]}
    grades = [cell["metadata"]["nbgrader"] for cell in (exercise, check, again)]
    assert [grade["grade_id"] for grade in grades] == ["01-double", "01-double-check", "01-double-check-2"]
    assert [grade.get("points") for grade in grades] == [None, 2, 2]
    assert [(grade["solution"], grade["grade"]) for grade in grades] == [(True, False), (False, True), (False, True)]
    assert widget["outputs"] == []
    metadata = json.loads((built / "notebooks/01_toy.ipynb").read_text())["metadata"]
    assert metadata.keys() == {"attnlab", "kernelspec", "language_info"}


@pytest.mark.full
def test_a_prediction_has_no_answer_and_what_the_authors_assert_is_out_of_sight(tmp_path: Path) -> None:
    """And a solution of the lesson's own keeps its reason to itself."""
    code = (":tags: [predict]\n\nprint(6 * 7)", ":tags: [authors]\n\nassert 6 * 7 == 42", "print('after')", OWN)
    course = make_course(tmp_path, lesson(*code))
    assert build(course)[0] == 0
    learner, solved = cells(course)
    assert [cell["id"] for cell in learner] == ["01-001", "01-002", "01-004", "01-005", "01-006"]
    assert learner[1]["outputs"] == []
    assert learner[1]["metadata"]["tags"] == ["nbval-ignore-output", "predict"]
    assert ["".join(output["text"]) for output in solved[1]["outputs"]] == ["42\n"]
    assert solved[2]["metadata"] == {"tags": ["authors", "remove-cell"],
                                     "jupyter": {"source_hidden": True, "outputs_hidden": True}}
    assert "".join(solved[4]["source"]) == OWN.split("\n\n", 1)[1].strip().replace(" ours: a sum is simpler", "")
    assert build(course, "--check") == (0, "")


CLOCK = """:tags: [nbval-ignore-output]

from attnlab_course.instruments.clock import Clock, Slope
from IPython.display import display

turn = globals().get("turn", 0) + 1
times = {{"a": {{1: (1, 1, 1), 2: (1, turn / {needed}, 1)}}}}
display({{"text/plain": str(turn)}}, raw=True, metadata=Clock(times, [Slope("a", 0, 9)]).metadata())"""


@pytest.mark.full
def test_a_clock_that_contradicts_the_text_is_read_again_and_not_stored(tmp_path: Path) -> None:
    patient = make_course(tmp_path / "patient", lesson(CLOCK.format(needed=3)))
    status, said = build(patient)
    assert status == 0, said
    assert "measured 2 of 4 times: the time of a grows as size to the -0.58; the text says 0 to 9" in said
    shown = json.loads((patient / "notebooks/01_toy.ipynb").read_text())["cells"][1]["outputs"][0]
    assert shown["data"]["text/plain"] == ["3"]
    never = make_course(tmp_path / "never", lesson(CLOCK.format(needed=99)))
    status, said = build(never)
    assert status == 1
    assert "01_toy.md, line 6 (cell 01-002 of notebooks/01_toy.ipynb): the time of a grows" in said
    assert not [*never.glob("notebooks/*.ipynb")]
    assert build(never, "--draft")[0] == 0


@pytest.mark.full
def test_a_page_is_one_notebook_without_exercises(tmp_path: Path) -> None:
    course = make_course(tmp_path, lesson("6 * 7"))
    (course / "notebooks/lessons/01_toy.md").rename(course / "notebooks/lessons/tables.md")
    assert "1 notebooks built" in build(course)[1]
    page = json.loads((course / "notebooks/tables.ipynb").read_text())
    assert page["cells"][1]["id"] == "tables-002"
    assert not [*course.glob("notebooks/solutions/*")]
    (course / "notebooks/lessons/tables.md").write_text(lesson(OWN))
    assert "exercises belong in a lesson" in build(course)[1]


@pytest.mark.full
def test_building_again(course: Path) -> None:
    files = [course / "notebooks/01_toy.ipynb", course / "notebooks/solutions/01_toy.ipynb"]
    before = [path.read_bytes() for path in files]
    alone = (sys.executable, ROOT / "notebooks/build.py", "--folder", course / "notebooks", "--check")
    assert build(course, "--check") == run(*alone, cwd=course, PYTHONPATH=PYTHONPATH) == (0, "")
    assert "0 notebooks built, 2 up to date" in build(course)[1]
    assert "2 notebooks built" in build(course, "1", "--force")[1]
    assert [path.read_bytes() for path in files] == before
    for file in IMPORTED:
        (course / file).write_text("version = 2\n")
        assert "2 notebooks built" in build(course)[1]


@pytest.mark.full
def test_new_prose_keeps_the_outputs_and_runs_nothing(tmp_path: Path) -> None:
    code = 'import time\n\n\ndef now():\n    """A clock."""\n    return time.time_ns()\n\n\nnow()'
    course = make_course(tmp_path, lesson(f":tags: [nbval-ignore-output]\n\n{code}"))
    source, book = course / "notebooks/lessons/01_toy.md", course / "notebooks/01_toy.ipynb"
    assert build(course)[0] == 0
    first = json.loads(book.read_text())["cells"]
    source.write_text(source.read_text().replace("end.", "last word."))
    assert "2 notebooks built" in build(course)[1]
    second = json.loads(book.read_text())["cells"]
    assert second[1] == first[1]
    assert second[2]["source"] == ["The $e^x$ last word."]
    assert build(course, "--check") == (0, "")
    (course / "attnlab/core").mkdir(parents=True)
    (course / "attnlab/core/dispatch.py").write_text("version = 2\n")
    source.write_text(source.read_text().replace("last word.", "very last word."))
    assert "2 notebooks built" in build(course, "--prose")[1]
    assert json.loads(book.read_text())["cells"][1] == first[1]
    source.write_text(source.read_text().replace("A clock.", "The time.  # now"))
    assert "2 notebooks built" in build(course, "--prose")[1]
    assert json.loads(book.read_text())["cells"][1]["outputs"] == first[1]["outputs"]
    assert "The time." in book.read_text()
    source.write_text(source.read_text().replace("time_ns()", "time_ns() + 1"))
    assert "2 notebooks built" in build(course, "--prose")[1]
    assert json.loads(book.read_text())["cells"][1]["outputs"] != first[1]["outputs"]


def renumber(notebooks: Path) -> None:
    """Make lesson 01 lesson 02, with its exercise."""
    (notebooks / "lessons/01_toy.md").rename(notebooks / "lessons/02_toy.md")
    lesson = (notebooks / EXERCISES).parent
    lesson.rename(lesson.with_name("lesson02"))


@pytest.mark.parametrize(("edit", "complaint"), [
    (lambda c: (c / "lessons/01_toy.md").write_text(lesson("1 + 1")), "notebooks/01_toy.ipynb: stale"),
    (lambda c: (c / "solutions/01_toy.ipynb").unlink(), "notebooks/solutions/01_toy.ipynb: missing"),
    (renumber, "notebooks/01_toy.ipynb: extra"),
    (lambda c: change(c / "01_toy.ipynb", lambda n: n["cells"][1].update(source="2")), "cell 01-002 differs"),
    (lambda c: change(c / "01_toy.ipynb", lambda n: n["cells"][1].update(execution_count=None)), "not run"),
    (lambda c: change(c / "01_toy.ipynb", lambda n: [x.update(outputs=[]) for x in n["cells"] if "outputs" in x]),
     "no outputs"),
    (lambda c: (c / EXERCISES / "double.py").write_text(REFERENCE.replace("2,", "2.0,")),
     "notebooks/solutions/01_toy.ipynb: stale"),
    (lambda c: (c / "01_toy.ipynb").write_text("<<<<<<<"), "01_toy.ipynb: not a notebook"),
])
def test_check_finds(course: Path, edit: object, complaint: str) -> None:
    edit(course / "notebooks")
    status, said = build(course, "--check")
    assert status == 1
    assert complaint in said
    assert "Traceback" not in said


@pytest.mark.thin(12)
@pytest.mark.parametrize(("code", "complaint"), [
    ("x = 1\nx / 0", "01_toy.md, line 5 (cell 01-002 of notebooks/01_toy.ipynb): ZeroDivisionError: division by"),
    ("x = 1\ndef (", "01_toy.md, line 5 (cell 01-002 of solutions/01_toy.ipynb): SyntaxError"),
    ("import warnings\nwarnings.warn('old')", "line 4 (cell 01-002 of notebooks/01_toy.ipynb): writes to stderr"),
    ("import os\nprint(os.getcwd())", "line 4 (cell 01-002 of notebooks/01_toy.ipynb): the output names this"),
    (":tags: [exercise]\n\ndef f():\n    return 1", "01_toy.md, line 6: the tag `exercise` is for"),
    (EXERCISE.replace(":tags: [exercise]\n\n", ""), "01_toy.md, line 4: the tag `exercise` is for"),
    (EXERCISE.replace("SOLUTION double", "SOLUTION dubble"),
     f"line 6: there is no exercise dubble; it would be a function in {EXERCISES}/dubble.py."),
    (EXERCISE.replace("    ###", "###"), "01_toy.md, line 6: ### SOLUTION stands in a function, by itself"),
    (OWN.replace(" ours: a sum is simpler", ""), "01_toy.md, line 6: a solution of the lesson's own says why"),
    (OWN.replace("    ### END SOLUTION", ""), "01_toy.md, line 6: ### END SOLUTION is missing"),
    (OWN.replace("    ### BEGIN", "### BEGIN"), "01_toy.md, line 6: a solution begins and ends once, inside"),
    (CHECK, "01_toy.md, line 6: there is no exercise before this check"),
])
def test_build_refuses(tmp_path: Path, code: str, complaint: str) -> None:
    course = make_course(tmp_path, lesson(code))
    status, said = build(course)
    assert status == 1
    last = said.splitlines()[-2:]  # a kernel that is shut down may have logged something before
    assert any(line.startswith("01_toy.md, line ") and complaint in line for line in last), said
    assert not [*course.glob("notebooks/*.ipynb"), *course.glob("notebooks/solutions/*.ipynb")]


def test_nbgrader_agrees(built: Path, tmp_path: Path) -> None:
    needs("nbgrader")
    (tmp_path / "source/toy").mkdir(parents=True)
    shutil.copy(built / "notebooks/solutions/01_toy.ipynb", tmp_path / "source/toy")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # where nbgrader looks for alembic
    command = (sys.executable, "-m", "nbgrader", "generate_assignment", "toy", "--create")
    status, said = run(*command, cwd=tmp_path, PATH=path)
    assert status == 0, said
    files = (tmp_path / "release/toy/01_toy.ipynb", built / "notebooks/01_toy.ipynb")
    theirs, ours = ([cell["source"] for cell in json.loads(path.read_text())["cells"]] for path in files)
    assert theirs == ours


FAKE = f"""#!/bin/sh
case "$*" in
  "-m venv "*) mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
  "-m pip "*) echo "$*" >> pip-calls; if [ -n "$FAILS" ]; then echo "$FAILS"; exit 1; fi ;;
  *ensurepip*) [ -z "$NO_VENV" ] || exit 1 ;;
  *print*version_info*) echo "$VERSION"; case "$VERSION" in 3.9*) exit 1 ;; esac ;;
  *) exec {sys.executable} "$@" ;;
esac
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The project's set-up, and a Python that only notes what it was to install."""
    projects = "pyproject.toml", "notebooks/pyproject.toml"
    for name in (".ci/setup", "Makefile", "requirements.txt", *projects, "notebooks/work.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "fake").write_text(FAKE)
    (tmp_path / "fake").chmod(0o755)
    return tmp_path


def set_up(project: Path, **env: object) -> tuple[int, str]:
    """Run the set-up with the fake Python unless another is named."""
    return run("bash", ".ci/setup", cwd=project, **{"PYTHON": project / "fake", "VERSION": "3.11.9", **env})


@pytest.mark.parametrize(("env", "sentence"), [
    ({"VERSION": "3.9.6"}, "Python 3.11 or newer is needed, and "),
    ({"PYTHON": "/nowhere/python3"}, "and /nowhere/python3 was not found"),
    ({"NO_VENV": 1}, "sudo apt install python3.11-venv"),
    ({"NEED_MB": 10**9}, "The set-up needs 1000000000 MB of disk space"),
    ({"FAILS": "OSError: [Errno 28] No space left on device"}, "The disk is full"),
    ({"FAILS": "ERROR: No matching distribution found for torch==2.13.0"}, "There is no torch==2.13.0 for Python"),
    ({"FAILS": "error: something else"}, "the end of .venv/setup.log says why"),
])
def test_set_up_says_what_to_do(project: Path, env: dict[str, object], sentence: str) -> None:
    status, said = set_up(project, **env)
    complaints = [line for line in said.splitlines() if line.startswith("attnlab: ")]
    assert status == 1
    assert len(complaints) == 1
    assert sentence in said.splitlines()[-1]


@pytest.mark.full
def test_set_up_without_network(project: Path) -> None:
    status, said = set_up(project, PYTHON=sys.executable, PIP_INDEX_URL="http://127.0.0.1:9", PIP_RETRIES=1)
    assert status == 1
    assert "pip could not reach the package index; check the network" in said.splitlines()[-1]
    assert len(said.splitlines()) == 4


def test_set_up_once(project: Path) -> None:
    assert set_up(project, FAILS="interrupted")[0] == 1
    (project / ".venv/half-installed").touch()
    (project / "pip-calls").unlink()
    status, said = set_up(project, PIP_ARGS="--extra-index-url http://x")
    assert status == 0, said
    assert not (project / ".venv/half-installed").exists()
    calls = (project / "pip-calls").read_text().splitlines()
    assert [call.split("--progress-bar off ")[1] for call in calls] == [
        "--extra-index-url http://x torch==2.13.0",
        "--extra-index-url http://x -r requirements.txt",
        "--no-deps --no-build-isolation -e . -e ./notebooks",
    ]
    assert set_up(project) == (0, "")
    (project / "requirements.txt").write_text("torch==2.14.0\n")
    assert set_up(project)[1].startswith("Updating .venv")
    assert set_up(project) == (0, "")
    (project / ".venv/bin/python").unlink()
    assert set_up(project)[1].startswith("Setting up attnlab")


def test_the_settings_are_those_of_jupyterlab(project: Path) -> None:
    assert set_up(project)[0] == 0
    settings = json.loads((project / ".venv/share/jupyter/lab/settings/overrides.json").read_text())
    for plugin, values in settings.items():
        schema = Path(sys.prefix, "share/jupyter/lab/schemas", *plugin.split(":")).with_suffix(".json")
        assert values.keys() <= json.loads(schema.read_text())["properties"].keys(), plugin


def test_a_copy_has_not_been_run_and_names_of_files_are_links(tmp_path: Path) -> None:
    untouched = runpy.run_path(str(ROOT / "notebooks/work.py"))["untouched"]
    (tmp_path / "findings").mkdir()
    (tmp_path / "findings/found.sh").touch()
    text = "`findings/found.sh`, `found.sh`, `lost.sh`, [`found.sh`](elsewhere) and `np.sh`"
    link = "[`{}`](../findings/found.sh)".format
    links = f"{link('findings/found.sh')}, {link('found.sh')}, `lost.sh`, [`found.sh`](elsewhere) and `np.sh`"
    assert untouched({"cell_type": "markdown", "source": text}, tmp_path)["source"] == links
    outputs = [{"output_type": "execute_result", "execution_count": 3, "data": {}}, {"output_type": "stream"}]
    cell = untouched({"cell_type": "code", "execution_count": 3, "outputs": outputs}, tmp_path)
    assert cell["execution_count"] is cell["outputs"][0]["execution_count"] is None
    assert cell["outputs"][1] == outputs[1]


def test_work_is_never_overwritten(project: Path, built: Path) -> None:
    shutil.copy(built / "notebooks/01_toy.ipynb", project / "notebooks")
    ours, work = project / "notebooks/01_toy.ipynb", project / "work/01_toy.ipynb"
    fill = (sys.executable, "notebooks/work.py", "fill")
    assert run(*fill, cwd=project) == (0, "New in work/: 01_toy.ipynb\n")
    change(work, lambda notebook: notebook["cells"].clear())
    edited = work.read_bytes()
    assert run(*fill, cwd=project) == (0, "")
    change(ours, lambda notebook: notebook["metadata"]["attnlab"].update(source="newer"))
    assert "Lesson 01 has a newer version" in run(*fill, cwd=project)[1]
    assert work.read_bytes() == edited
    for _ in range(2):
        status, said = run("make", "reset", "LESSON=1", cwd=project, PYTHON=project / "fake", VERSION="3.11.9")
        assert status == 0, said
    kept = [cell for cell in nbformat.read(ours, as_version=4).cells if cell.id != "01-colab"]
    for cell in kept:
        if cell.cell_type == "code":  # in the copy nothing has been run
            cell.execution_count = None
            cell.outputs = [{**x, "execution_count": None} if "execution_count" in x else x for x in cell.outputs]
    assert nbformat.read(work, as_version=4).cells == kept
    backups = [project / f"work/backups/01_toy-{n}.ipynb" for n in (1, 2)]
    assert [path.read_bytes() for path in backups] == [edited, work.read_bytes()]
    ours.rename(project / "notebooks/00_toy.ipynb")
    status, said = run(sys.executable, "notebooks/work.py", "reset", cwd=project)
    assert (status, said) == (1, "Say which lesson, e.g. make reset LESSON=01. There are: 00.\n")
