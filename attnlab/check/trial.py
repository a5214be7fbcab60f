"""A trial of an answer in a process of its own, where it can do what no interpreter survives.

A loop inside C, such as sum(itertools.count()), never comes back to Python, where a time limit could stop it;
os._exit and a wrong address end the process. So an answer that names anything of the kind runs in a fork first, and
only then here. A fork, as a notebook's function cannot be sent to a fresh process; on Linux, and not for answers in
JAX, whose threads do not live on in it (PyTorch needs none, if it works with one). What loops in JAX is a while_loop:
it runs without being compiled first, as a loop of Python's, which can be stopped here; but for one under vmap.
"""

import contextlib
import faulthandler
import gc
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable

from attnlab.check.exercise import Exercise
from attnlab.check.guard import PATIENCE
from attnlab.check.library import codes_of, library_of, own_functions, unjitted
from attnlab.check.outcome import SECONDS, NotAttempted, outcome

RISKY = {"as_strided", "count", "ctypes", "cycle", "deque", "iter", "itertools", "os", "repeat", "signal"}
STOPPED = "It was stopped after {:.0f} seconds. Is there a loop that does not end?"
DONE = 77  # the exit status of a trial that came to its end


def fate(exercise: Exercise, answer: Callable) -> str:
    """What becomes of a process in which the answer runs on all inputs: words, or nothing if it ends as it should."""
    names = {name for f in own_functions(answer) for code in codes_of(f) for name in code.co_names}
    library = library_of(answer, exercise.library)
    if library == "jax" and "while_loop" in names and not exercise.run:
        return STOPPED.format(SECONDS[library]) if _endless(exercise, answer) else ""
    here = sys.platform == "linux" and threading.current_thread() is threading.main_thread()
    if not (names & RISKY and here) or library == "jax" or exercise.run:
        return ""
    status = _status(lambda: _run(exercise, answer, library), SECONDS[library])
    if status in (None, DONE):
        return ""
    if status == -signal.SIGXCPU:
        return STOPPED.format(SECONDS[library])
    if status < 0:
        return f"It ends Python by a crash ({signal.Signals(-status).name})."
    return "It ends Python, as os._exit does; return a result instead."


def _run(exercise: Exercise, answer: Callable, library: str) -> None:
    """The answer on all inputs; whatever it raises is seen later."""
    for case in exercise.cases():
        with contextlib.suppress(NotAttempted):
            outcome(exercise, answer, case, SECONDS[library], library)


def _endless(exercise: Exercise, answer: Callable) -> bool:
    """Whether an answer in JAX, not compiled, takes more than its time for an input."""
    with unjitted("jax"), contextlib.suppress(NotAttempted):
        found = (outcome(exercise, answer, case, SECONDS["jax"], "jax") for case in exercise.cases())
        return any(x.kind == "TimeUp" for x in found)
    return False


def _status(work: Callable[[], None], seconds: float) -> int | None:
    """The exit status of a fork that works, below 0 that signal; None if it waits without computing."""
    import resource

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of forks beside the threads of JAX, which the trial does not use
        child = os.fork()
    if child == 0:
        gc.disable()
        faulthandler.disable()  # a crash here is told in the verdict
        with contextlib.suppress(BaseException):
            resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
            work()
        os._exit(DONE)
    end = time.perf_counter() + PATIENCE * (seconds + 1)
    try:
        while time.perf_counter() < end:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.005)
    finally:
        with contextlib.suppress(ChildProcessError, ProcessLookupError):  # it has ended
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    return None
