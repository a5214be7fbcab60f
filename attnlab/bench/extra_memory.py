"""Extra memory of the contestants, in a process of its own: JAX's account needs a flag that times must not have."""

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Sequence

from attnlab.bench.calls import function, inputs
from attnlab.bench.contestants import Contestant
from attnlab.bench.setting import Setting
from attnlab.measure import HONEST_XLA, extra_bytes, jax_bytes

from tqdm import tqdm


def extra_memory(tasks: Sequence[tuple[Contestant, Setting]]) -> list[int]:
    """Peak bytes of each task beyond its inputs and its result."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} {HONEST_XLA}".strip()
    text = json.dumps([[dataclasses.asdict(contestant), dataclasses.asdict(setting)] for contestant, setting in tasks])
    command = [sys.executable, "-m", "attnlab.bench.extra_memory"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env={**os.environ, "XLA_FLAGS": flags}, **pipes) as process:
        process.stdin.write(text)
        process.stdin.close()
        bar = tqdm(process.stdout, "extra memory", total=len(tasks), disable=None, leave=False)
        found = [json.loads(line) for line in bar]
        errors = process.stderr.read()
    if process.returncode:
        raise RuntimeError(f"the measuring process failed:\n{errors}")
    return found


def one(contestant: Contestant, setting: Setting) -> int:
    """The work of :func:`extra_memory` for one task, done in this process. JAX compiles, the others run."""
    run = function(contestant, setting)
    if contestant.library == "jax":
        return jax_bytes(run, *inputs(contestant, setting, shapes_only=True))
    if contestant.library == "torch":
        small = dataclasses.replace(setting, n=16)  # a library's first call also allocates what it keeps for good
        function(contestant, small)(*inputs(contestant, small))
    return extra_bytes(run, *inputs(contestant, setting))


def read(task: list) -> tuple[Contestant, Setting]:
    """A task from JSON, which has no tuples."""
    contestant, setting = task
    window = setting["window"] and tuple(setting["window"])
    return Contestant(**contestant), Setting(**{**setting, "window": window})


if __name__ == "__main__":
    for task in json.load(sys.stdin):
        print(json.dumps(one(*read(task))), flush=True)
