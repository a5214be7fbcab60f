"""The figures of lesson 17, linear attention.

The forms have the colors of their likes among the algorithms of softmax attention: all weights as naive, token by token
as online, chunks as chunked; softmax itself is tiled.
"""

from collections.abc import Mapping, Sequence

from attnlab_course.plots.style import COLORS, GRAY, INK, PALE, canvas, darker

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

FORMS = {
    "quadratic": COLORS["naive"], "chunked": COLORS["chunked"], "recurrent": COLORS["online"],
    "softmax": COLORS["tiled"],
}  # fmt: skip


def box(axes: Axes, x: float, y: float, width: float, height: float, color: str, text: str = "") -> None:
    """A rectangle with its upper left corner at (x, y), y downward, and a text in it."""
    axes.add_patch(Rectangle((x, y), width, height, facecolor=color, edgecolor=GRAY, linewidth=0.8))
    shade = "white" if color in FORMS.values() else INK
    size = 8 if 4 * width < height else 10
    axes.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=size, color=shade)


def brackets(n: int, f: int, dv: int) -> Figure:
    """The two ways to bracket φ(Q) φ(K)ᵀ V: every matrix with its true sides, what lies between in color."""
    figure, axes = canvas(10.2, 5.4)
    q, k, v = ("φ(Q)", f, n, PALE), ("φ(K)ᵀ", n, f, PALE), ("V", dv, n, PALE)
    rows = [["(", q, k, ")", v, "→", (f"{n} × {n}\nweights", n, n, FORMS["quadratic"]), "→  times V"],
            [q, "(", k, v, ")", "→", ("U", dv, f, FORMS["chunked"]), "→  φ(Q) times U"]]  # fmt: skip
    for y, row in zip((0, 1.14 * n), rows):
        x = 0.0
        for part in row:
            if isinstance(part, str):
                wide, side = (0.1 * n, "center") if part in "()" else (0.2 * n, "left")
                size = 30 if part in "()" else 12
                at = x + wide / 2 if side == "center" else x + 0.05 * n
                axes.text(at, y + n / 2, part, ha=side, va="center", fontsize=size, color=INK)
                x += wide
            else:
                text, width, height, color = part
                box(axes, x, y + (n - height) / 2, width, height, color, text)
                x += width + 0.03 * n
    axes.set(xlim=(-0.03 * n, 3.3 * n), ylim=(2.17 * n, -0.03 * n), aspect="equal")
    axes.axis("off")
    figure.set_label(
        f"Two rows of rectangles in their true proportions. Above, φ(Q), {n} by {f}, times φ(K)ᵀ, {f} by {n}, makes a "
        f"square of {n} by {n} weights, which then multiplies V. Below, φ(K)ᵀ times V makes a small rectangle U, {f} "
        f"by {dv}, which φ(Q) then multiplies.")
    return figure


def moment(chunks: int, now: int, size: int) -> Figure:
    """What the chunked form holds in chunk ``now`` of so many: the weights of the chunk, and one state for the rest."""
    figure, axes = canvas(8.8, 4.2)
    n = chunks * size
    for i in range(chunks):
        line = "-" if i <= now else ":"
        held = Rectangle((0, i * size), i * size, size, facecolor=FORMS["recurrent"] if i == now else "white",
                         edgecolor=GRAY, linewidth=0.7, linestyle=line)  # fmt: skip
        axes.add_patch(held)
        for row in range(size):  # the chunk's own keys, j ≤ i
            color = FORMS["chunked"] if i == now else PALE if i < now else "white"
            axes.add_patch(Rectangle((i * size, i * size + row), row + 1, 1, facecolor=color, edgecolor=GRAY,
                                     linewidth=0.5, linestyle=line))  # fmt: skip
    axes.text(now * size / 2, (now + 0.5) * size, "one state (U, Z):\nthese weights are\nnever computed", ha="center",
              va="center", fontsize=10, color="white")
    for row, text, color in ((now / 2, "outputs written, weights forgotten", GRAY),
                             (now + 0.5, "the queries of this chunk: held are\na state and C × C weights", INK),
                             ((chunks + now + 1) / 2, "to come", GRAY)):  # fmt: skip
        axes.text(n + 0.6, row * size, text, va="center", fontsize=10, color=color)
    axes.text(-0.5, n / 2, "queries", rotation=90, ha="right", va="center", fontsize=10, color=GRAY)
    axes.text(n / 2, -0.4, "keys", ha="center", va="bottom", fontsize=10, color=GRAY)
    axes.set(xlim=(-1.6, n + 11), ylim=(n + 0.3, -1.6), aspect="equal")
    axes.axis("off")
    figure.set_label(
        f"The causal matrix of {n} tokens in {chunks} chunks. In chunk {now + 1}, the one at work, the triangle of its "
        "own keys is filled: these weights are held. The rectangle to its left, all earlier keys, is one state: these "
        f"weights are never computed. Of the {now} chunks before it the outputs are written and the weights "
        f"forgotten; {chunks - now - 1} to come, dotted.")
    return figure


def scan(n: int) -> Figure:
    """The sums of all states before each of ``n``, by doubling: a row for each round, arrows from what is added."""
    rounds = [[(i, i + 1) for i in range(n)], [(max(i - 1, 0), i) for i in range(n)]]  # from, up to (without it)
    while rounds[-1][-1][0] > 0:
        rounds.append([(rounds[-1][max(i - 2 ** (len(rounds) - 2), 0)][0], i) for i in range(n)])
    figure, axes = canvas(9.4, 4.0)
    for row, sums in enumerate(rounds):
        step = 1 if row == 1 else 2 ** max(row - 2, 0)
        for i, (first, stop) in enumerate(sums):
            text = "empty" if first == stop else str(first) if stop == first + 1 else f"{first}–{stop - 1}"
            box(axes, i, 1.6 * row, 0.86, 0.8, FORMS["recurrent"] if row and first == 0 else PALE, text)
            if row and i >= step:
                axes.annotate("", (i + 0.3, 1.6 * row), (i - step + 0.6, 1.6 * row - 0.8),
                              arrowprops={"arrowstyle": "->", "color": GRAY, "linewidth": 1})  # fmt: skip
        axes.text(-0.3, 1.6 * row + 0.4, f"round {row - 1}" if row > 1 else ("own states", "shifted")[row], ha="right",
                  va="center", fontsize=10, color=INK)  # fmt: skip
    axes.set(xlim=(-1.8, n), ylim=(1.6 * len(rounds) - 0.6, -0.2))
    axes.axis("off")
    figure.set_label(
        f"{n} states in a row, shifted by one place, with 0 in the first. In round 1 each adds its left neighbor, then "
        f"the sum {', '.join(str(2**r) for r in range(1, len(rounds) - 2))} places to the left. After "
        f"{len(rounds) - 2} rounds the last place has the sum of states {rounds[-1][-1][0]} to {n - 2}: all before its "
        "own.")
    return figure


def sizes(lengths: Sequence[int], states: Mapping[str, tuple[int, int, int]]) -> Figure:
    """Numbers in caches against the length, and the states of some maps.

    ``states``: by name what a token adds to the cache, the numbers of the state, and from what length on it's smaller.
    """
    figure, axes = canvas(9.0, 4.0)
    for token, line in zip(sorted({token for token, *_ in states.values()}, reverse=True), ("-", "--")):
        axes.plot(lengths, [token * n for n in lengths], line, color=FORMS["softmax"],
                  label=f"a cache, {token} numbers per token")  # fmt: skip
    for name, (_, numbers, first) in states.items():
        axes.plot([lengths[0], lengths[-1]], [numbers] * 2, color=FORMS["recurrent"])
        axes.annotate(f"{name}: from {first:,} tokens", (lengths[-1], numbers), (8, 0), textcoords="offset points",
                      va="center", fontsize=10, color=darker(FORMS["recurrent"]))  # fmt: skip
        axes.plot(first, numbers, "o", color=INK, markersize=7, zorder=5)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.legend(loc="upper left", fontsize=9)
    axes.set_xticks(lengths[::2], [f"{n:,}" for n in lengths[::2]])
    axes.set_xlim(right=30 * lengths[-1])
    axes.set_yticks([2.0**e for e in (10, 13, 16, 19)], ["1 Ki", "8 Ki", "64 Ki", "512 Ki"])
    axes.set(xlabel="tokens so far", ylabel="numbers held per head")
    said = ", ".join(f"{name} from {first:,} on" for name, (_, _, first) in states.items())
    figure.set_label(
        "Numbers held per head against the tokens so far, both axes logarithmic. Caches grow in proportion to the "
        f"text; states are level. In tokens, a state is smaller: {said}.")
    return figure
