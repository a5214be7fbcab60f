"""Call a function so that nothing it does can bring the checker down."""

import contextlib
import io
import linecache
import signal
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


class TimeUp(BaseException):
    """Raised inside a function that runs too long; no Exception, so that ``except Exception`` lets it pass."""


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
    done, printed, start = Called(), Printed(), time.perf_counter()
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with np.errstate(all="ignore"), limit(seconds):
                done.result = function(*args)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        done.error = error
    done.printed, done.seconds = printed.start, time.perf_counter() - start
    return done


@contextlib.contextmanager
def limit(seconds: float) -> Iterator[None]:
    """Raise TimeUp inside the block once ``seconds`` have passed, and again for as long as it goes on."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeUp

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, AGAIN), AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Printed(io.TextIOBase):
    """The start of what is written to it; the rest is dropped."""

    def __init__(self) -> None:
        self.start = ""

    def writable(self) -> bool:
        """True."""
        return True

    def write(self, text: str) -> int:
        """Keep ``text`` if there is room."""
        if len(self.start) < 400:
            self.start += text[:400]
        return len(text)


def explain(error: BaseException, function: Callable, seconds: float) -> str:
    """An error in words, at the learner's own line."""
    if isinstance(error, TimeUp):
        message = f"it was stopped after {seconds:.0f} seconds. Is there a loop that does not end?"
    elif isinstance(error, SystemExit):
        message = "it ends the program (SystemExit); return a result instead."
    elif isinstance(error, RecursionError):
        message = "RecursionError: it calls itself without end."
    else:
        message = f"{type(error).__name__}: {str(error)[:500]}"
    own = python_function(function)
    if own is None:
        return message
    file, first = own.__code__.co_filename, own.__code__.co_firstlineno
    frames = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == file]
    if not frames:
        return message
    source = linecache.getline(file, frames[-1]).strip()
    return f"{message}\n  in your line {frames[-1] - first + 1}: {source}"
