"""Linear attention (``--linear``): its three forms beside tiled and PyTorch's own softmax attention, causal, elu + 1.

Forward, and with the gradient, of which NumPy has none. The quadratic and the recurrent form are left out where they
would fill the memory.
"""

import argparse
import functools
from collections.abc import Callable, Iterator, Sequence

from attnlab import costs
from attnlab.linear import FORMS, linear_attention
from attnlab.measure import GRADIENTS
from attnlab_course.bench.calls import bind, inputs, prepare
from attnlab_course.bench.contestants import ORDER, UNIT, Contestant, available
from attnlab_course.bench.question import Question, Times, ms, ratio
from attnlab_course.bench.setting import Setting
from attnlab_course.instruments import hardware
from attnlab_course.instruments.timing import Call

LENGTHS = (256, 1024, 4096, 16384)
METHODS = ("tiled", *reversed(FORMS))


def questions(options: argparse.Namespace) -> Iterator[Question]:
    """A table for each pass, a row for each length and library."""
    head = "N", "", "sdpa", *METHODS, "chunked ÷ sdpa", "fastest"
    for gradient in (False, True):
        settings = [Setting(n, causal=True, gradient=gradient) for n in options.n or LENGTHS]
        libraries = [x for x in available("cpu", ORDER)[0] if not (gradient and x == "numpy")]
        title = f"Softmax (sdpa, tiled) and linear attention; {settings[0].work}, causal, {settings[0].sizes}; ms"
        yield Question(title, head, settings, functools.partial(calls, libraries), functools.partial(rows, libraries))


def calls(libraries: Sequence[str], setting: Setting) -> dict[str, Call]:
    """PyTorch's own attention; in each library tiled attention and the forms that fit."""
    found = {UNIT.name: prepare(UNIT, setting)} if UNIT.library in libraries else {}
    for contestant in (Contestant(library, method) for library in libraries for method in METHODS):
        if contestant.method in FORMS and fits(contestant.method, setting):
            *arrays, _ = inputs(contestant, setting)
            run: Callable = functools.partial(linear_attention, causal=True, form=contestant.method)
            if setting.gradient:
                run = functools.partial(GRADIENTS[contestant.library], run)
            found[contestant.name] = bind(contestant.library, run, *arrays)
        elif contestant.method == "tiled":
            found[contestant.name] = prepare(contestant, setting)
    return found


def fits(form: str, setting: Setting) -> bool:
    """Whether memory holds a form, of which there are several copies."""
    n, d = setting.n, setting.d
    size = costs.linear_extra_elements(form, n, n, d, d, gradient=setting.gradient)
    return 4 * setting.heads * size <= hardware.memory_size() / 16


def rows(libraries: Sequence[str], setting: Setting, times: Times) -> Iterator[list[str]]:
    """For each library its times, – what did not run, and which is the fastest."""
    unit = times.get(UNIT.name)
    for library in libraries:
        found = {"sdpa": unit} | {x: times.get(f"{library} {x}") for x in METHODS}
        ran = {x: time for x, time in found.items() if time is not None}
        cells = [f"{setting.n:,}", library, *map(ms, found.values()), ratio(found["chunked"], unit)]
        yield [*cells, min(ran, key=ran.__getitem__)]
