"""What the checker says, as plain text and, in Jupyter, as HTML."""

import html
import re
import textwrap
from dataclasses import dataclass, field

BORDERS = {"right": "#009E73", "wrong": "#D55E00", "not attempted": "#767676", "not checked": "#767676"}
BOX = "border-left:5px solid {color};padding:.3em .9em;margin:.2em 0;max-width:62em"
PRE = "margin:.4em 0 0;padding:0;background:none;white-space:pre-wrap;font-family:monospace;font-size:95%"

NUMBER = re.compile(r"-?\b(?:\d[\d.e+-]*|nan|inf)")


@dataclass(frozen=True)
class Verdict:
    """``state`` is "right", "wrong", "not attempted" or "not checked"; the headline says so, the rest why.

    ``diagnosis`` names the mistake if it is known, ``evidence`` shows the input that failed. ``stars``: earned.
    """

    state: str
    headline: str
    diagnosis: str = ""
    evidence: tuple[str, ...] = field(default=())
    stars: int = 0

    @property
    def earned(self) -> str:
        """A tick and the stars of a right answer."""
        return f"  ✓ {'★' * self.stars}" if self.stars else ""

    @property
    def text(self) -> str:
        """All of it in plain text."""
        said = textwrap.wrap(self.diagnosis, 100, initial_indent="  ", subsequent_indent="  ")
        seen = (f"  {line}" for item in self.evidence for line in item.split("\n"))
        return "\n".join([self.headline + self.earned, *said, *seen])

    def html(self) -> str:
        """All of it in HTML; the words, not the color, carry the state."""
        head = f"<b>{html.escape(self.headline)}</b>"
        head += f'<span style="color:{BORDERS[self.state]}">{self.earned}</span>' if self.stars else ""
        said = f"<div>{html.escape(self.diagnosis)}</div>" if self.diagnosis else ""
        lines = mark_differences(html.escape("\n".join(self.evidence), quote=False))
        seen = f'<pre style="{PRE}">{lines}</pre>' if self.evidence else ""
        return f'<div style="{BOX.format(color=BORDERS[self.state])}">{head}{said}{seen}</div>'


def mark_differences(text: str) -> str:
    """HTML with the numbers of "got" marked that aren't those of "expected" in the line above it."""

    def marked(pair: re.Match) -> str:
        wanted = iter(NUMBER.findall(pair[2]))
        return pair[1] + NUMBER.sub(lambda x: x[0] if x[0] == next(wanted, "") else f"<mark>{x[0]}</mark>", pair[3])

    return re.sub(r"(^ *expected (.*)\n *got +)(.*)$", marked, text, flags=re.MULTILINE)


def show(text: str, page: str) -> None:
    """Show ``page`` (HTML) in Jupyter, with ``text`` for what cannot show it; elsewhere print ``text``."""
    try:
        from IPython import get_ipython
        from IPython.display import display
    except ImportError:
        print(text)
        return
    if type(get_ipython()).__name__ == "ZMQInteractiveShell":
        display({"text/plain": text, "text/html": page}, raw=True)
    else:
        print(text)
