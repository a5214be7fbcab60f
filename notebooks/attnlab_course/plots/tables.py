"""Results that form a table are shown as a table."""

import html
from collections.abc import Iterable, Sequence
from typing import Any


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], clock: Any = None) -> None:
    """Show rows below a head in a notebook: as HTML, and as plain text where there is none.

    The first column is set to the left, all others to the right. ``clock``: the measurement whose times stand in
    the table (attnlab_course.instruments.clock); its record is stored with it.
    """
    from IPython.display import display

    lines = [[str(entry) for entry in row] for row in rows]
    data = {"text/plain": _plain(list(head), lines), "text/html": _html(list(head), lines)}
    if clock:
        data["text/html"] += remarks(clock)
    display(data, raw=True, metadata=clock.metadata() if clock else {})


def remarks(clock: Any) -> str:
    """Where the times of this run disagree with the text."""
    said = "; ".join(clock.faults())
    return f"<p><small>On this machine, in this run: {html.escape(said)}.</small></p>" if said else ""


def _plain(head: list[str], rows: list[list[str]]) -> str:
    """Columns that stand below one another."""
    widths = [max(len(row[at]) for row in [head, *rows]) for at in range(len(head))]
    lines = [
        "  ".join(cell.rjust(width) if at else cell.ljust(width) for at, (cell, width) in enumerate(zip(row, widths)))
        for row in [head, *rows]
    ]
    return "\n".join(line.rstrip() for line in lines)


def _html(head: list[str], rows: list[list[str]]) -> str:
    """An HTML table."""
    def cells(row: list[str], kind: str) -> str:
        sides = ("left", *["right"] * (len(row) - 1))
        made = (f'<{kind} style="text-align:{side}">{html.escape(x)}</{kind}>' for x, side in zip(row, sides))
        return f"<tr>{''.join(made)}</tr>"

    body = "\n".join(cells(row, "td") for row in rows)
    return f'<table class="results">\n<thead>{cells(head, "th")}</thead>\n<tbody>\n{body}\n</tbody>\n</table>'
