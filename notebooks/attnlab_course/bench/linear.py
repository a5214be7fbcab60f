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
from attnlab_course.bench.calls import bind, make_inputs, prepare
from attnlab_course.bench.contestants import ORDER, UNIT, Contestant, find_libraries
from attnlab_course.bench.question import Question, Times, format_ms, format_ratio
from attnlab_course.bench.setting import Setting
from attnlab_course.instruments import hardware
from attnlab_course.instruments.timing import Call

LENGTHS = (256, 1024, 4096, 16384)
METHODS = ("tiled", *reversed(FORMS))


def make_questions(options: argparse.Namespace) -> Iterator[Question]:
    """A table for each pass, a row for each length and library."""
    head = "N", "", "sdpa", *METHODS, "chunked ÷ sdpa", "fastest"
    for gradient in (False, True):
        settings = [Setting(n, causal=True, gradient=gradient) for n in options.n or LENGTHS]
        libraries = [x for x in find_libraries("cpu", ORDER)[0] if not (gradient and x == "numpy")]
        title = f"Softmax (sdpa, tiled) and linear attention; {settings[0].work}, causal, {settings[0].sizes}; ms"
        yield Question(title, head, settings, functools.partial(prepare_calls, libraries),
                       functools.partial(make_rows, libraries))  # fmt: skip


def prepare_calls(libraries: Sequence[str], setting: Setting) -> dict[str, Call]:
    """PyTorch's own attention; in each library tiled attention and the forms that fit."""
    found = {UNIT.name: prepare(UNIT, setting)} if UNIT.library in libraries else {}
    for contestant in (Contestant(library, method) for library in libraries for method in METHODS):
        if contestant.method in FORMS and fits_memory(contestant.method, setting):
            *arrays, _ = make_inputs(contestant, setting)
            run: Callable = functools.partial(linear_attention, causal=True, form=contestant.method)
            if setting.gradient:
                run = functools.partial(GRADIENTS[contestant.library], run)
            found[contestant.name] = bind(contestant.library, run, *arrays)
        elif contestant.method == "tiled":
            found[contestant.name] = prepare(contestant, setting)
    return found


def fits_memory(form: str, setting: Setting) -> bool:
    """Whether memory holds a form, of which there are several copies."""
    n, d = setting.n, setting.d
    size = costs.linear_extra_elements(form, n, n, d, d, gradient=setting.gradient)
    return 4 * setting.heads * size <= hardware.memory_size() / 16


def make_rows(libraries: Sequence[str], setting: Setting, times: Times) -> Iterator[list[str]]:
    """For each library its times, – what did not run, and which is the fastest."""
    unit = times.get(UNIT.name)
    for library in libraries:
        found = {"sdpa": unit} | {x: times.get(f"{library} {x}") for x in METHODS}
        ran = {x: time for x, time in found.items() if time is not None}
        cells = [f"{setting.n:,}", library, *map(format_ms, found.values()), format_ratio(found["chunked"], unit)]
        yield [*cells, min(ran, key=ran.__getitem__)]
