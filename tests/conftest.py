"""Settings that hold for all tests."""

import gc
import importlib.metadata
import os
import platform
import sys
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from zlib import crc32

import hypothesis
import jaxtyping
import pytest

from tests.support import MISSING, absent
from tests.support.kernels import forked
from tests.support.sample import leave_to_the_night
from tests.support.typechecker import modules

# Before anything of attnlab is imported: under pytest annotated shapes, dtypes and types are checked; at run time none.
jaxtyping.install_import_hook(modules(), "tests.support.typechecker.check")

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read by every library when it is first imported
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ["ATTNLAB_ANSWERS"] = ""  # the checker keeps none of the answers that are tried here

QUICK_XLA = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"

FIXED = dict(deadline=None, derandomize=True, database=None)
hypothesis.settings.register_profile("fixed", **FIXED, max_examples=7)
hypothesis.settings.register_profile("full", **FIXED, max_examples=200)

COMPILES = {"seen": 0, "cleared": 0}

NIGHTLY = tuple(f"tests/course/{room}" for room in ("bench/", "lessons/", "model/", "serve/", "test_own_engine.py"))
"""Rooms of tests/course of which only what is marked daily runs every day: the lessons, run whole, use them, too."""

VERSIONS = ("numpy", "jax", "jaxlib", "ml_dtypes", "torch", "triton", "transformers", "flax", "equinox", "onnx")


def quick_xla():
    """XLA's flags with which it compiles in half the time, as far as it has them: the first is gone from JAX 0.12."""
    from attnlab.measure import known_flags

    return known_flags(QUICK_XLA)


def pytest_configure(config):
    """``make test-all`` selects by no mark, and tries more examples of every law; notebooks run in forked kernels."""
    hypothesis.settings.load_profile("fixed" if config.option.markexpr else "full")
    if getattr(config.option, "nbval", False) and sys.platform == "linux" and not hasattr(config, "workerinput"):
        kernels = ExitStack()
        kernels.enter_context(forked())
        config.add_cleanup(kernels.close)


def pytest_report_header():
    """The versions that are tested."""
    installed = {one.name.lower(): one.version for one in importlib.metadata.distributions()}
    found = [f"{name} {installed.get(name, 'not installed')}" for name in VERSIONS]
    return f"versions: Python {platform.python_version()}, {', '.join(found)}"


def pytest_terminal_summary(terminalreporter):
    """The file that ATTNLAB_SKIPPED names, for .ci/run, lists what was skipped for want of something, a name a line."""
    if file := os.environ.get("ATTNLAB_SKIPPED"):
        skipped = {x.nodeid for x in terminalreporter.stats.get("skipped", ()) if MISSING in str(x.longrepr)}
        Path(file).write_text("".join(f"{name}\n" for name in sorted(skipped)))


def pytest_runtest_setup(item):
    """A test that has something of a missing library as a parameter is skipped."""
    absent.skip_if_held(getattr(item, "callspec", None) and item.callspec.params)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(call):
    """A test that doesn't find a missing library is skipped."""
    error = call.excinfo and call.excinfo.value
    if isinstance(error, ModuleNotFoundError) and error.name in absent.ABSENT:
        call.excinfo = pytest.CallInfo.from_call(lambda: absent.skip(error.name), call.when).excinfo


def pytest_collectstart():
    """What is imported stays."""
    gc.disable()


def pytest_collection_finish():
    """To look through the libraries again and again for garbage takes a sixth of the time of many tests."""
    gc.freeze()
    gc.enable()
    absent.remove()


def count(event, duration, **details):
    """Called by JAX at each of its monitored events."""
    COMPILES["seen"] += event == "/jax/core/compile/backend_compile_duration"


@pytest.fixture(scope="session", autouse=True)
def _compile_quickly():
    """Compiled programs of tests run once: optimizing them costs more than it saves.

    XLA reads its flags once, when its first device is made; processes that a test starts are as a user's.
    """
    if "jax" in absent.ABSENT:
        return
    import jax

    with pytest.MonkeyPatch.context() as here:
        here.setenv("XLA_FLAGS", quick_xla(), prepend=" ")
        jax.devices()
    jax.config.update("jax_disable_most_optimizations", True)
    jax.monitoring.register_event_duration_secs_listener(count)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Whatever builds the site goes first, as two of pytest-xdist's workers would else wait for it.

    Of each test's cases, but for those that the command names, few run every day. And nbval waits five seconds for an
    output: too few on a busy machine.
    """
    named = set(config.args)
    items.sort(key=lambda item: item.path.name != "test_pages.py")
    cases = defaultdict(list)
    for item in items:
        if hasattr(item, "output_timeout"):
            item.output_timeout = 120
        if item.nodeid.startswith(NIGHTLY) and item.nodeid not in named and not item.get_closest_marker("daily"):
            item.add_marker(pytest.mark.full)
        if hasattr(item, "callspec") and item.nodeid not in named and not item.get_closest_marker("full"):
            thin = item.get_closest_marker("thin")
            cases[item.nodeid.partition("[")[0], thin.args[0] if thin else 1].append(item)
    for (_, n), of_one_test in cases.items():
        leave_to_the_night(of_one_test, n)


@pytest.fixture(autouse=True)
def _check_annotations_at_times(request):
    """Annotated shapes and types are checked in one test of eight, as it takes a fifth of the time; at night in all."""
    before = jaxtyping.config.jaxtyping_disable
    if request.config.option.markexpr and crc32(request.node.nodeid.encode()) % 8:
        jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


@pytest.fixture(autouse=True)
def _bound_compiled_programs():
    """Hundreds of compiled programs exhaust the process's memory maps: drop them every 160."""
    yield
    if COMPILES["seen"] - COMPILES["cleared"] >= 160:
        clear()


@pytest.fixture(scope="module", autouse=True)
def _clear_after_module():
    yield
    clear()


def clear():
    """Forget every compiled program, if there is any."""
    if COMPILES["seen"] > COMPILES["cleared"]:
        import jax

        jax.clear_caches()
    COMPILES["cleared"] = COMPILES["seen"]
