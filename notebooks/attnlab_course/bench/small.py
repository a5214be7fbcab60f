"""Small calls and decoding steps beside each library's own fused call (``--small``), as a table in Markdown.

Tiled attention stands beside torch.nn.functional.scaled_dot_product_attention and beside jax.nn.dot_product_attention,
where these give the same function: causal attention of 128 and 1,024 tokens, and one query against 4,096 keys,
32 heads reading 8. NumPy has no call of its own.
"""

from collections.abc import Mapping, Sequence

from attnlab_course.bench.calls import prepare, random_arrays
from attnlab_course.bench.contestants import ORDER, OWN, Contestant, available
from attnlab_course.bench.setting import Setting
from attnlab_course.bench.table import describe_machine, describe_versions, grid
from attnlab_course.instruments.timing import LIMIT, medians, noise, timed

DTYPES = ("float32", "bfloat16")
SETTINGS = [
    *(Setting(n, batch=8, heads=12, kv_heads=12, causal=True, dtype=dtype, gradient=gradient)
      for n in (128, 1024) for dtype in DTYPES for gradient in (False, True)),
    *(Setting(1, 4096, heads=32, kv_heads=8, dtype=dtype) for dtype in DTYPES),
]  # fmt: skip

HOW = "Milliseconds, medians of interleaved rounds; a ratio is ours over the library's own: below 1, ours is faster."


def print_table(rounds: int | None, seconds: float | int) -> None:
    """Measure every library that has a call of its own and is installed, and print a table."""
    libraries = [library for library in available("cpu", ORDER)[0] if OWN[library]]
    print(f"{describe_machine('cpu')}; {describe_versions()}. {HOW}\n")
    rows, loud = [], 0
    for setting in SETTINGS:
        calls = {x.name: prepare(x, setting) for library in libraries for x in pair(library)}
        taken = timed(calls, rounds, seconds)
        rows.append(row(setting, libraries, medians(taken)))
        random_arrays.cache_clear()
        loud += noise(taken, list(taken)) is not None
    print(*grid(head(libraries), rows), sep="\n")
    if loud:
        print(f"\nIn {loud} of {len(SETTINGS)} rows a time scattered or drifted by more than {LIMIT:.0%}.")


def pair(library: str) -> tuple[Contestant, Contestant]:
    """Ours and its own."""
    return Contestant(library, "tiled"), Contestant(library, OWN[library][0])


def head(libraries: Sequence[str]) -> list[str]:
    """The columns: ours, its own and their ratio for each library."""
    return ["", *(name for library in libraries for name in (*(x.name for x in pair(library)), "ratio"))]


def row(setting: Setting, libraries: Sequence[str], middle: Mapping[str, float]) -> list[str]:
    """A row of the table: what was called, and for each library two times and how many times its own ours is."""
    what = f"{setting.n:,} tokens, {setting.work}" if setting.n > 1 else f"1 query, {setting.keys:,} keys"
    cells = [f"{what}, {setting.heads} heads on {setting.kv_heads}, batch {setting.batch}, {setting.dtype}"]
    for library in libraries:
        ours, own = (middle[x.name] for x in pair(library))
        cells += [f"{1e3 * ours:.3g}", f"{1e3 * own:.3g}", f"{ours / own:.2f}"]
    return cells
