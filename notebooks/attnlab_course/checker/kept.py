"""Right answers, kept as work/answers/NAME.py, and in read.txt the lessons that were read: plain files, to read, edit
and delete. Nothing leaves the machine.
"""

import ast
import contextlib
import dis
import inspect
import os
import sys
import textwrap
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attnlab_course.checker.library import python_function

FUTURE = "from __future__ import annotations\n"
HEAD = f'"""A right answer to {{name}}, lesson {{lesson}}, kept by the checker: delete it as you like."""\n\n{FUTURE}'


class NotKept(ValueError):
    """Why an answer cannot stand in a file of its own."""


def folder() -> Path | None:
    """Where answers are kept: what ATTNLAB_ANSWERS names (nowhere if that is empty), or else work/answers.

    That is the course's work/, in which ``make`` puts the learner's notebooks, if the current folder is in it or
    beside it; where there is none, a new one in the current folder.
    """
    if "ATTNLAB_ANSWERS" in os.environ:
        return Path(os.environ["ATTNLAB_ANSWERS"]) if os.environ["ATTNLAB_ANSWERS"] else None
    here = Path.cwd()
    places = [work for above in (here, *here.parents) for work in (above, above / "work") if work.name == "work"]
    ours = (work for work in places if (work / "answers").is_dir() or (work / "00_start_here.ipynb").is_file())
    return next(ours, here / "work") / "answers"


def names() -> set[str]:
    """The exercises to which a right answer is kept."""
    where = folder()
    return {path.stem for path in where.glob("*.py")} if where else set()


def read() -> set[str]:
    """The lessons that were read: those of which each exercise was checked and one tried, whatever came out."""
    file = where / "read.txt" if (where := folder()) else None
    return set(file.read_text(encoding="utf-8").split()) if file and file.is_file() else set()


def note_read(lesson: str) -> None:
    """Note that a lesson was read, if answers are kept and their folder can be written."""
    where = folder()
    if where and lesson not in read():
        with contextlib.suppress(OSError):
            where.mkdir(parents=True, exist_ok=True)
            (where / "read.txt").write_text("".join(f"{n}\n" for n in sorted({*read(), lesson})), encoding="utf-8")


def keep(function: Callable, name: str, lesson: str) -> str:
    """Write a right answer to its file, with what it needs; returns why it isn't kept, or nothing."""
    where = folder()
    if where is None:
        return ""
    path = where / f"{name}.py"
    part = path.with_suffix(".part")
    try:
        lines = list(source(function))
        named = getattr(function, "__name__", name)
        text = HEAD.format(name=name, lesson=lesson) + "\n".join(lines) + (f"\n\n{name} = {named}" * (named != name))
        where.mkdir(parents=True, exist_ok=True)
        part.write_text(f"{text.rstrip()}\n", encoding="utf-8")
        load(part, name)  # it stands alone
        part.replace(path)
    except NotKept as error:
        return str(error)
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    except Exception as error:
        part.unlink()
        return f"alone it raises {type(error).__name__}: {error}"
    return ""


def load(path: Path, name: str) -> Callable:
    """The function ``name`` of a kept file."""
    module = types.ModuleType(f"answers.{name}")
    module.__file__, sys.modules[module.__name__] = str(path), module
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), vars(module))
    return getattr(module, name)


def source(function: Any, done: set[str] | None = None) -> Iterator[str]:
    """The lines of a file with this function or class: first what it names, imports, numbers and helpers."""
    done = set() if done is None else done
    plain = function if isinstance(function, type) else python_function(function)
    try:
        text = textwrap.dedent(inspect.getsource(plain))
        code = compile(FUTURE + text, "<answer>", "exec")
    except (OSError, TypeError, SyntaxError):
        raise NotKept("its source cannot be had") from None
    if not text.startswith(("def ", "class ", "@")):
        raise NotKept("it has no name of its own: write it as a def")
    if free := getattr(getattr(plain, "__code__", None), "co_freevars", ()):
        raise NotKept(f"it uses {', '.join(free)} of a function around it")
    scope = plain.__globals__ if isinstance(plain, types.FunctionType) else vars(sys.modules[plain.__module__])
    done |= {plain.__name__}
    for name in dict.fromkeys(_globals(code)):
        if name in scope and name not in done:
            done.add(name)
            yield from _definition(name, scope[name], plain.__module__, done)
    yield f"\n\n{text.rstrip()}"


def _globals(code: types.CodeType) -> Iterator[str]:
    """The global names that a code and those inside it read."""
    yield from (step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _globals(inner)


def _definition(name: str, x: Any, home: str, done: set[str]) -> Iterator[str]:
    """The lines that make ``name`` what it is in the notebook."""
    module, own = getattr(x, "__module__", None), getattr(x, "__name__", "")
    if isinstance(x, types.ModuleType):
        yield f"import {x.__name__} as {name}"
    elif module == home and own:
        yield from source(x, done)
        yield from [f"{name} = {own}"] * (name != own)
    elif isinstance(module, str) and getattr(sys.modules.get(module), own, None) is x:
        yield f"from {module} import {own} as {name}"
    elif _literal(x):
        yield f"{name} = {x!r}"
    elif isinstance(x, float):
        yield f"{name} = float('{float(x)!r}')"
    else:
        raise NotKept(f"it uses {name}, a {type(x).__name__} that was made outside of it")


def _literal(x: Any) -> bool:
    """Whether Python reads a value back as it prints it."""
    with contextlib.suppress(ValueError, SyntaxError):
        return bool(ast.literal_eval(repr(x)) == x)
    return False
