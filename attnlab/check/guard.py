"""Call a function so that nothing it does can bring the checker down."""

import contextlib
import io
import linecache
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

from attnlab.check.library import python_function

import numpy as np

AGAIN = 0.05  # seconds after which a function that swallowed the interruption is interrupted again
PATIENCE = 6  # how much longer a function may take on a busy machine, where it computes only part of the time


class TimeUp(BaseException):
    """Raised inside a function that runs too long; no Exception, so that ``except Exception`` lets it pass."""


class Watch:
    """A clock for time limits: processor seconds, but at least wall seconds / PATIENCE, so that sleep runs out, too."""

    def __init__(self) -> None:
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def seconds(self) -> float:
        """The seconds so far."""
        wall, cpu = time.perf_counter() - self.wall, time.process_time() - self.cpu
        return max(min(wall, cpu), wall / PATIENCE)


@dataclass
class Called:
    """What a call did."""

    result: Any = None
    error: BaseException | None = None
    printed: str = ""
    seconds: float = 0.0


def call(function: Callable, args: tuple, seconds: float) -> Called:
    """Call a function for at most ``seconds``; catch what it raises and what it prints.

    The time limit needs a Unix system and the main thread, where notebooks run; elsewhere there is none.
    """
    done, printed, watch = Called(), Printed(), Watch()
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with np.errstate(all="ignore"), _limit(seconds, watch):
                done.result = function(*args)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        done.error = error
    done.printed, done.seconds = printed.start, watch.seconds()
    return done


@contextlib.contextmanager
def _limit(seconds: float, watch: Watch) -> Iterator[None]:
    """Raise TimeUp inside the block once ``watch`` has counted ``seconds``, and again for as long as it goes on.

    ``while True: try: ... except: pass`` catches each of them, so the learner's next line is made to raise one, too.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        if watch.seconds() < seconds:
            return
        for own in _learners_frames(frame):
            own.f_trace = _raise_at_line
        sys.settrace(_raise_at_line)
        raise TimeUp

    before, tracer = signal.signal(signal.SIGALRM, stop), sys.gettrace()
    signal.setitimer(signal.ITIMER_REAL, max(seconds, AGAIN), AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        sys.settrace(tracer)


def _raise_at_line(frame: FrameType, event: str, arg: Any) -> Callable | None:
    """A trace function: the next line, which is the one after the exception was caught, raises TimeUp."""
    if event == "line":
        raise TimeUp
    return None if event == "call" else _raise_at_line


def _learners_frames(frame: FrameType | None) -> list[FrameType]:
    """The running calls of the learner's own functions: those that share their globals with the one called by us."""
    frames = []
    while frame is not None and not frame.f_globals.get("__name__", "").startswith("attnlab.check."):
        frames.append(frame)
        frame = frame.f_back
    return [f for f in frames if f.f_globals is frames[-1].f_globals]


class Printed(io.TextIOBase):
    """The start of what is written to it; the rest is dropped."""

    def __init__(self) -> None:
        self.start = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        """Keep ``text`` if there is room."""
        if len(self.start) < 400:
            self.start += text[:400]
        return len(text)


def _words_of(error: BaseException) -> str:
    """What an error says; some cannot say it."""
    try:
        return str(error)
    except Exception:
        return ""


def explain(error: BaseException, function: Callable, seconds: float) -> str:
    """An error in words, at the learner's own line."""
    if isinstance(error, TimeUp):
        message = f"it was stopped after {seconds:.0f} seconds. Is there a loop that does not end?"
    elif isinstance(error, SystemExit):
        message = "it ends the program (SystemExit); return a result instead."
    elif isinstance(error, RecursionError):
        message = "RecursionError: it calls itself without end."
    else:
        message = f"{type(error).__name__}: {_words_of(error)[:500]}"
    own = python_function(function)
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
