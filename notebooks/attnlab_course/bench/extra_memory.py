"""Extra memory of the contestants, in a process of its own: JAX's account needs a flag that times must not have."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from attnlab.measure import extra_bytes, in_fresh_process, jax_bytes
from attnlab_course.bench.calls import make_inputs, make_timed_call
from attnlab_course.bench.contestants import Contestant
from attnlab_course.bench.setting import Setting
from attnlab_course.instruments.timing import tqdm


def extra_memory(tasks: Sequence[tuple[Contestant, Setting]]) -> list[int]:
    """Peak bytes of each task beyond its inputs and its result."""
    plain = [{"who": dataclasses.asdict(who), "what": dataclasses.asdict(what)} for who, what in tasks]
    found = in_fresh_process("attnlab_course.bench.extra_memory:_measure", plain)
    return list(tqdm(found, "extra memory", total=len(plain), disable=None, leave=False))


def _measure(who: dict[str, Any], what: dict[str, Any]) -> int:
    """The work of :func:`extra_memory` for one task, done in this process. JAX compiles, the others run."""
    contestant, setting = Contestant(**who), Setting(**what)
    if setting.window:
        setting = dataclasses.replace(setting, window=tuple(setting.window))  # JSON has no tuples
    run = make_timed_call(contestant, setting)
    if contestant.library == "jax":
        return jax_bytes(run, *make_inputs(contestant, setting, shapes_only=True))
    if contestant.library == "torch":
        small = dataclasses.replace(setting, n=16, m=None)  # a first call also allocates what is kept for good
        make_timed_call(contestant, small)(*make_inputs(contestant, small))
    return extra_bytes(run, *make_inputs(contestant, setting))
