"""An error in words, at the learner's own line."""

import dis
import linecache
import traceback
from collections.abc import Callable

from attnlab_course.checker.library import codes_of, own_functions, python_function
from attnlab_course.checker.sandbox import TimeUp

BUSY = (
    "The machine is busy with other work, or your function waits for something: time ran out before it had computed "
    "for as long as it's allowed to. That says nothing about your answer. Run it again when less is going on."
)


def explain(error: BaseException, function: Callable | None, seconds: float) -> str:
    """What went wrong, and where in the answer, ``function``; None if it was ours that failed: it isn't shown."""
    message = _message(error, function, seconds)
    own = function and python_function(function)
    if own is None:
        return message
    frames = [
        (frame.f_code, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_filename == own.__code__.co_filename
    ]
    if not frames:
        return message
    code, line = frames[-1]
    whose = "your line" if code is own.__code__ else f"{code.co_name}, line"
    source = linecache.getline(code.co_filename, line).strip()
    return f"{message}\n  in {whose} {line - code.co_firstlineno + 1}: {source}"


def _message(error: BaseException, function: Callable | None, seconds: float) -> str:
    """What went wrong."""
    if isinstance(error, TimeUp):
        question = " Is there a loop that doesn't end, or one with very many steps?" if _loops(function) else ""
        return f"it was stopped after {seconds:.0f} seconds.{question}"
    if isinstance(error, SystemExit):
        return "it ends the program (SystemExit); return a result instead."
    if isinstance(error, RecursionError):
        return "RecursionError: its calls to itself are nested too deeply. Where does that end?"
    return f"{type(error).__name__}: {_words_of(error)[:500]}"


def _loops(function: Callable | None) -> bool:
    """Whether an answer goes back to an earlier line of its own."""
    codes = [code for f in own_functions(function) for code in codes_of(f)] if function else []
    return any(step.opname.startswith("JUMP_BACKWARD") for code in codes for step in dis.get_instructions(code))


def _words_of(error: BaseException) -> str:
    """What an error says; some cannot say it."""
    try:
        return str(error)
    except Exception:
        return ""
