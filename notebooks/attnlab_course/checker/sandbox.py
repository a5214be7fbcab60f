"""Call a function: a time limit, what it prints, what it raises.

That is what honest answers need. One that ends Python (os._exit) or that loops inside C (sum(itertools.count())), where
no Python runs that a limit could stop, takes the notebook's kernel with it: restart it.
"""

import contextlib
import ctypes
import functools
import io
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any

import numpy as np

AGAIN = 0.05  # seconds after which the watch is looked at again
LIBRARY = sys.stdlib_module_names | {"attnlab", "attnlab_course"}
ROOM = 20  # how many calls deeper a recursion may go to be stopped
PATIENCE = 6  # how much longer a function may take on a busy machine, where it computes only part of the time


def _thread_time() -> float:
    """The seconds that this thread has computed; Python in a browser has one thread, and no clock for it."""
    return (getattr(time, "thread_time", None) or time.process_time)()


class TimeUp(BaseException):
    """Raised inside a function that runs too long; no Exception, so that ``except Exception`` lets it pass."""


class Watch:
    """A clock for time limits: the seconds that this thread has computed, but at least wall seconds / PATIENCE.

    So what other processes compute does not count, nor the threads of a library that spin while they wait; and
    sleep runs out, too.
    """

    def __init__(self) -> None:
        self.wall, self.cpu = time.perf_counter(), _thread_time()

    def seconds(self) -> float:
        """The seconds so far."""
        return max(self.computed(), (time.perf_counter() - self.wall) / PATIENCE)

    def computed(self) -> float:
        """The seconds that were computed."""
        return min(time.perf_counter() - self.wall, _thread_time() - self.cpu)


@dataclass
class Called:
    """What a call did. ``starved``: it was stopped before it had computed for as long as it may."""

    result: Any = None
    error: BaseException | None = None
    printed: str = ""
    starved: bool = False


def call(function: Callable, args: tuple, seconds: float, watch: Watch | None = None) -> Called:
    """Call a function until ``watch`` has counted ``seconds``; catch what it raises and prints.

    Calls that share a watch share the time; without one, it starts here. The time limit needs a Unix system and the
    main thread, where notebooks run; elsewhere there is none.
    """
    done, printed, watch = Called(), Printed(), watch or Watch()
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with np.errstate(all="ignore"), _limit(seconds, watch):
                done.result, error = next(_alone(function, args))
                if error is not None:
                    raise error
                if watch.seconds() > seconds:  # it came back late, from a call inside C
                    raise TimeUp
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        done.error = error
    done.printed = printed.start
    done.starved = isinstance(done.error, TimeUp) and watch.computed() < seconds
    return done


def _alone(function: Callable, args: tuple) -> Iterator[tuple[Any, BaseException | None]]:
    """What a call returns or raises, once; no exception that it has caught stays behind, as generators have their own.

    One that is stopped in the last line of an ``except`` would leave that exception to be handled for ever.
    """
    result = failed = None
    try:
        result = function(*args)
    except BaseException as error:
        failed = error
    yield result, failed


@dataclass
class Alarm:
    """A time limit. ``heard``: whether its signal was answered since somebody looked."""

    ends: float
    heard: bool = False


ALARMS: list[Alarm] = []
LOCK = threading.Lock()  # so that nobody rings after an alarm is gone


@contextlib.contextmanager
def _limit(seconds: float, watch: Watch) -> Iterator[None]:
    """Raise TimeUp inside the block once ``watch`` has counted ``seconds``, and again at each line that catches it."""
    main = threading.current_thread() is threading.main_thread()
    if not hasattr(signal, "setitimer") or not main or sys.platform == "emscripten":
        yield
        return
    inside, alarm = True, Alarm(monotonic() + seconds)

    def stop(number: int, frame: object) -> None:
        up = inside and watch.seconds() >= seconds
        if up:
            _stop_every_line()
        alarm.heard = True  # there was room for this call
        if up:
            raise TimeUp

    _watch_alarms()
    ALARMS.append(alarm)
    traced, depth, before = sys.gettrace(), sys.getrecursionlimit(), signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, max(seconds - watch.seconds(), AGAIN), AGAIN)
    try:
        yield
    finally:
        inside = False
        with LOCK:
            ALARMS.remove(alarm)
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.settrace(traced)
        sys.setrecursionlimit(depth)
        signal.signal(signal.SIGALRM, before)


@functools.cache
def _watch_alarms() -> None:
    """Start the one thread that sees to it that alarms are heard."""
    threading.Thread(target=_make_room, daemon=True).start()


def _make_room() -> None:
    """Where a recursion leaves no room to answer an alarm, let it go deeper, and ring again."""
    while True:
        sleep(5 * AGAIN)
        with LOCK:
            for alarm in ALARMS:
                if monotonic() > alarm.ends and not alarm.heard:
                    sys.setrecursionlimit(sys.getrecursionlimit() + ROOM)
                    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)
                alarm.heard = False


class NoLine:
    """Asked whether it is true, it raises TimeUp where that is asked in an answer's code, and in no library's."""

    def __bool__(self) -> bool:
        frame = sys._getframe(1)
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package in LIBRARY or "-packages" in frame.f_code.co_filename:
            return True
        raise TimeUp


def _stop_every_line() -> None:
    """Trace with NoLine, so that an answer that catches TimeUp is stopped again at the next line.

    A trace function of Python's would be dropped once it has raised; a C function isn't, and ``PyObject_Not`` calls
    ``__bool__``.
    """
    ctypes.pythonapi.PyEval_SetTrace(ctypes.pythonapi.PyObject_Not, ctypes.py_object(NoLine()))


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
