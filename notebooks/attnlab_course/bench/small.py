"""Small calls (``--small``), beside each library's own fused call and beside the bare formula.

The first table: causal attention of 128 and 1,024 tokens, and one query against 4,096 keys, 32 heads reading 8, where
the fused call gives the same function; there PyTorch's also runs on a view, grouped, as enable_gqa copies the keys.
NumPy has none. The second: what a call costs beyond its arithmetic, for which
stands safe attention written out in six operations of the library, without checks or options.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence

from attnlab_course.bench.calls import prepare_all
from attnlab_course.bench.contestants import GROUPED, ORDER, OWN, Contestant, find_libraries
from attnlab_course.bench.question import Question, Times, format_ms, format_ratio
from attnlab_course.bench.setting import Setting
from attnlab_course.instruments.timing import Call

DTYPES = ("float32", "bfloat16")
FUSED = [
    *(Setting(n, batch=8, heads=12, kv_heads=12, causal=True, dtype=dtype, gradient=gradient)
      for n in (128, 1024) for dtype in DTYPES for gradient in (False, True)),
    *(Setting(1, 4096, heads=32, kv_heads=8, dtype=dtype) for dtype in DTYPES),
]  # fmt: skip
BARE = [Setting(n, 64) for n in (64, 1)]


def make_questions(options: argparse.Namespace) -> Iterator[Question]:
    """Ours beside each library's own, and beside the formula."""
    libraries, _ = find_libraries("cpu", ORDER)
    yield compare_with("its library's own fused call", with_grouped(libraries), FUSED)
    yield compare_with("the bare formula", dict.fromkeys(libraries, ("formula",)), BARE)


def with_grouped(libraries: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The fused calls of each library, PyTorch's on a view among them."""
    return {x: (*OWN[x], *([GROUPED.method] if x == GROUPED.library else [])) for x in libraries if OWN[x]}


def compare_with(what: str, rivals: Mapping[str, Sequence[str]], settings: Sequence[Setting]) -> Question:
    """Tiled attention beside the ``rivals`` of each library."""
    everyone = [Contestant(library, x) for library, others in rivals.items() for x in ("tiled", *others)]

    def prepare_here(setting: Setting) -> dict[str, Call]:
        return prepare_all([x for x in everyone if x != GROUPED or setting.n == 1], setting)

    def make_row(setting: Setting, times: Times) -> Iterator[list[str]]:
        cells = [str(setting)]
        for library, others in rivals.items():
            ours, *theirs = (times.get(f"{library} {x}") for x in ("tiled", *others))
            cells.append(format_ms(ours))
            for other in theirs:
                cells += [format_ms(other), format_ratio(ours, other)]
        yield cells

    head = [""]
    for library, others in rivals.items():
        head += [f"{library} tiled", *(name for x in others for name in (f"{library} {x}", "ratio"))]
    title = f"Tiled attention beside {what}; ms, and ratios, which are below 1 where ours is faster"
    return Question(title, head, settings, prepare_here, make_row)
