"""Call a function so that nothing it does can bring the checker down."""

import contextlib
import io
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

from attnlab.check.state import restored

import numpy as np

AGAIN = 0.05  # seconds after which a function that swallowed the interruption is interrupted again
PATIENCE = 6  # how much longer a function may take on a busy machine, where it computes only part of the time


class TimeUp(BaseException):
    """Raised inside a function that runs too long; no Exception, so that ``except Exception`` lets it pass."""


class Watch:
    """A clock for time limits: the seconds that this thread has computed, but at least wall seconds / PATIENCE.

    So what other processes compute does not count, nor the threads of a library that spin while they wait; and
    sleep runs out, too.
    """

    def __init__(self) -> None:
        self.wall, self.cpu = time.perf_counter(), time.thread_time()

    def seconds(self) -> float:
        """The seconds so far."""
        return max(self.computed(), (time.perf_counter() - self.wall) / PATIENCE)

    def computed(self) -> float:
        """The seconds that were computed."""
        return min(time.perf_counter() - self.wall, time.thread_time() - self.cpu)


@dataclass
class Called:
    """What a call did. ``starved``: it was stopped before it had computed for as long as it may."""

    result: Any = None
    error: BaseException | None = None
    printed: str = ""
    starved: bool = False


def call(function: Callable, args: tuple, seconds: float, watch: Watch | None = None) -> Called:
    """Call a function until ``watch`` has counted ``seconds``; catch what it raises and prints, undo what it changed.

    Calls that share a watch share the time; without one, it starts here. The time limit needs a Unix system and the
    main thread, where notebooks run; elsewhere there is none.
    """
    done, printed, watch, process = Called(), Printed(), watch or Watch(), os.getpid()
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with np.errstate(all="ignore"), restored(), _limit(seconds, watch):
                done.result = function(*args)
                if watch.seconds() > seconds:  # it has switched the alarm off
                    raise TimeUp
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        done.error = error
    if os.getpid() != process:  # a fork of the answer's, which would go on with the notebook
        os._exit(0)
    done.printed = printed.start
    done.starved = isinstance(done.error, TimeUp) and watch.computed() < seconds
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
    signal.setitimer(signal.ITIMER_REAL, max(seconds - watch.seconds(), AGAIN), AGAIN)
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
