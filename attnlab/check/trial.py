"""A trial of an answer in a process of its own, where it can do what no interpreter survives.

A loop inside C, such as sum(itertools.count()), never comes back to Python, where a time limit could stop it;
os._exit and a wrong address end the process. So an answer that names anything of the kind runs in a fork first, and
here only once that has come to its end. A fork, as a notebook's function cannot be sent to a fresh process; on Linux.
PyTorch works in it with one thread; JAX, whose threads do not live on in a fork, is traced there, on shapes and
dtypes, up to the first line that asks for a value. What loops in JAX itself is a while_loop: it runs without being
compiled first, as a loop of Python's, which can be stopped here; but for one under vmap.
"""

import contextlib
import copy
import faulthandler
import gc
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

from attnlab.check.exercise import Case, Exercise
from attnlab.check.guard import PATIENCE, Watch, call
from attnlab.check.library import codes_of, library_of, own_functions, precise, unjitted
from attnlab.check.outcome import SECONDS, NotAttempted, outcome
from attnlab.check.verdict import Verdict
from attnlab.check.words import BUSY

import numpy as np

RISKY = {"as_strided", "count", "ctypes", "cycle", "deque", "iter", "itertools", "os", "repeat", "signal"}
STOPPED = "It was stopped after {:.0f} seconds. Is there a loop that does not end?"
DONE = 77  # the exit status of a trial that came to its end


def fate(exercise: Exercise, answer: Callable) -> Verdict | None:
    """The verdict on an answer that must not run in this process, as seen in a trial; None if it may."""
    names = {name for f in own_functions(answer) for code in codes_of(f) for name in code.co_names}
    library = library_of(answer, exercise.library)
    if library == "jax" and "while_loop" in names and not exercise.run:
        return _endless(exercise, answer)
    here = sys.platform == "linux" and threading.current_thread() is threading.main_thread()
    if not (names & RISKY and here) or exercise.run:
        return None
    status = _status(lambda: _run(exercise, answer, library), SECONDS[library])
    if status == DONE:
        return None
    if status is None:
        return _not_checked(exercise)
    if status == -signal.SIGXCPU:
        return _wrong(exercise, STOPPED.format(SECONDS[library]))
    if status < 0:
        return _wrong(exercise, f"It ends Python by a crash ({signal.Signals(-status).name}).")
    return _wrong(exercise, "It ends Python, as os._exit does; return a result instead.")


def _wrong(exercise: Exercise, said: str) -> Verdict:
    """The verdict on an answer that ends Python, or does not end."""
    return Verdict("wrong", f"{exercise.name}: not right yet.", said)


def _not_checked(exercise: Exercise) -> Verdict:
    """The verdict on an answer whose trial did not get the time to end."""
    return Verdict("not checked", f"{exercise.name}: not checked. {BUSY}")


def _run(exercise: Exercise, answer: Callable, library: str) -> None:
    """The answer on all inputs; whatever it raises is seen later."""
    watch = Watch()
    _allow(SECONDS[library])
    for case in exercise.cases():
        with contextlib.suppress(NotAttempted):
            if library == "jax":
                _trace(answer, case)
            else:
                outcome(exercise, answer, case, SECONDS[library], library, watch)


def _trace(answer: Callable, case: Case) -> None:
    """An answer in JAX on the shapes and dtypes of an input's arrays, and on its other arguments."""
    import jax

    arrays = {i: jax.ShapeDtypeStruct(x.shape, x.dtype) for i, x in enumerate(case.args) if isinstance(x, np.ndarray)}
    others = copy.deepcopy(case.args)

    def program(*chosen: Any) -> Any:
        values = dict(zip(arrays, chosen))
        return answer(*(values.get(i, x) for i, x in enumerate(others)))

    with precise("jax"):
        call(jax.eval_shape, (program, *arrays.values()), SECONDS["jax"])


def _allow(seconds: float) -> None:
    """End this process by SIGXCPU when it has computed for so many seconds from now on."""
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(used.ru_utime + used.ru_stime + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _endless(exercise: Exercise, answer: Callable) -> Verdict | None:
    """The verdict on an answer in JAX that, not compiled, takes more than its time for an input."""
    with unjitted("jax"), contextlib.suppress(NotAttempted):
        for case in exercise.cases():
            found = outcome(exercise, answer, case, SECONDS["jax"], "jax")
            if found.starved:
                return _not_checked(exercise)
            if found.kind == "TimeUp":
                return _wrong(exercise, STOPPED.format(SECONDS["jax"]))
    return None


def _status(work: Callable[[], None], seconds: float) -> int | None:
    """The exit status of a fork that works, below 0 that signal; None if it has not ended after a while."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of forks beside the threads of JAX, which the trial does not need
        child = os.fork()
    if child == 0:
        gc.disable()
        faulthandler.disable()  # a crash here is told in the verdict
        with contextlib.suppress(BaseException):
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
