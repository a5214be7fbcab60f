"""Words of the glossary become links where a lesson uses them first; the pointer shows the definition."""

import re
from pathlib import Path

ENTRY = re.compile(r"^\*\*([^\n$]+)\*\*\n: (.+?)\s+\[Lesson (\d\d)\]", re.MULTILINE | re.DOTALL)
EVERYDAY = """
    ONE absorb access balance block budget call control coupling covered depth device doubling draft element exact
    factor fill fold fork gate greedy grid group hidden identity interpreter latent layout link load merge meter
    offset page part pass peak policy pool port program race rank reach references registers request runner safe
    sample scale scan select shard shift sink slot spiky stage state step store stream strict summary thread tree
    triple visible visit wave weight window work
"""
"""Words that everybody uses in another sense as well: no program can tell in which."""


class Terms:
    """The glossary's words: for each its address, and its definition as plain text."""

    def __init__(self, glossary: Path) -> None:
        self.said: dict[str, str] = {}
        self.home: dict[str, str] = {}
        words = glossary.read_text(encoding="utf-8").split("\n## A\n")[1]
        for term, text, _ in ENTRY.findall(words):
            for name in term.split(", "):
                if name not in EVERYDAY.split():
                    self.home[name], self.said[name] = address(term), plain(text)
        longest_first = "|".join(pattern(name) for name in sorted(self.home, key=len, reverse=True))
        self.pattern = re.compile(rf"(?<![\w-])(?:{longest_first})(?![\w-])")

    def name(self, found: str) -> str:
        """The word of the glossary that was found: perhaps in the plural, or at the beginning of a sentence."""
        found = " ".join(found.split())
        forms = (form.removesuffix(end) for form in (found, found[0].lower() + found[1:]) for end in ("", "s", "es"))
        return next(form for form in forms if form in self.home)


def pattern(name: str) -> str:
    """A word as prose may have it: a capital letter in front, an s behind, a new line within."""
    first = f"[{name[0]}{name[0].upper()}]" if name.islower() else re.escape(name[0])
    return first + re.escape(name[1:]).replace(r"\ ", r"\s+") + "(?:s|es)?"


def address(term: str) -> str:
    """The anchor of an entry of the glossary."""
    return "term-" + re.sub(r"\W+", "-", term).strip("-")


def plain(text: str) -> str:
    """Markdown as plain text; nothing where a formula is more than letters."""
    return "" if "\\" in text else " ".join(re.sub(r"[*`$]|\[|\]\(.*?\)", "", text).split())
