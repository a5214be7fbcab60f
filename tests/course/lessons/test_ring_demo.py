"""The demo: a step of training on a split sequence, as a user starts it."""

import os
import re
import subprocess
import sys

import pytest

from tests.conftest import quick_xla

DEMO = ["-m", "attnlab_course.lessons.lesson21.ring_demo"]
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m"]


def said_by(*arguments):
    """What a command of Python prints; it ends, and its processes with it."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "XLA_FLAGS": quick_xla()}
    environment["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"  # its programs run once
    with subprocess.Popen(
        [sys.executable, *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    ) as process:  # fmt: skip
        try:
            said, errors = process.communicate(timeout=200)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, 9)
    return process.returncode, said, errors


@pytest.mark.full
@pytest.mark.parametrize("start", [[*TORCHRUN, DEMO[1]], [*DEMO, "--jax", "2"]], ids=["torch", "jax"])
def test_the_ranks_take_the_step_of_one_device(start):
    """The gradient is equal to rounding in float64, and what travels is what the closed form says."""
    code, said, errors = said_by(*start, "--length", "63")
    assert code == 0, errors
    assert float(re.search(r"of the gradient (\S+),", said)[1]) < 1e-13
    if "torch" in start[1]:
        assert re.search(r"all links ([\d,]+), by the closed form \1\n", said)
    else:
        assert "permutes stand" in said


def test_without_ranks():
    """A plain start says how to start."""
    code, _, errors = said_by(*DEMO)
    assert code == 2
    assert "torchrun" in errors


@pytest.mark.parametrize(("options", "words"), [
    (["--jax", "0"], "argument --jax: 0 is not a whole number of at least 1"),
    (["--jax", "2", "--length", "1"], "argument --length: 1 is not a whole number of at least 2"),
    (["--jax", "2", "--length", "1000000"], "argument --length: the text has 112,328 tokens"),
])
def test_options_that_are_none(options, words):
    """One line, in argparse's words."""
    code, _, errors = said_by(*DEMO, *options)
    assert code == 2
    assert errors.splitlines()[-1].endswith(words)
