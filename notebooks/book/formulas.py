"""Sphinx extension: formulas are typeset when the site is built, as MathML, so that a page needs no script for them.

A displayed formula's ``\\tag`` becomes its number, at the right, and the anchor ``eq-8-4``.
What a ``\\qquad`` sets apart stands side by side, and on a narrow screen one below the other.
"""

import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

TEXT = re.compile(r"\\text\{[^}]*\}")  # whose spaces the converter loses if one is in front
TAG = re.compile(r"\\tag\{([\w.]+)\}")
# What the converter knows by other names.
SAID = {r"\nolimits": "", "{aligned}": "{align*}", r"\iff": r"\;⟺\;", r"\bmod": r"\;\mathrm{mod}\;"}
FUNCTION = re.compile(r"([\w)}]\s*)?(\\(?:log|ln|exp|tanh)(?![a-z])(?:_\{[^}]*\}|_\w)?)(\s*(?=[\w\\]))?")  # spaced
SIGN = re.compile("<mo>(&#x0221E;|&#x02205;)</mo>")  # ∞ and ∅ are no operators
PRIME = re.compile(r"<msup>(<m[io]>[^<]*</m[io]>)<mi>(&#x02032;)</mi></msup>")  # the font's own is raised already
MINUS = re.compile(r"(<mo[^>]*>(?!\)|\]|&#x00029;|&#x0005D;|&#x0007[CD];)[^<]*</mo>)<mo>&#x02212;</mo>")  # a sign
NAMED = re.compile(r"(</mo>)?<mo>([a-z]{2,})</mo>(<mo[^>]*>&#x00028;)?")  # max and others: less room than a sign has
LARGE = {r">\{<": ">{<", r">\}<": ">}<", r">\lfloor<": ">⌊<", r">\rfloor<": ">⌋<"}  # what \Big leaves as it is
PADDED = re.compile("<(/?)mpadded[^>]*>")  # an arrow's label: browsers take no width that begins with a plus
COLON = '<mo lspace="0.278em" rspace="0.278em">:</mo>'  # a relation, as in TeX; the converter takes it for a variable
PAIRS = (("{", "}"), (r"\begin", r"\end"), (r"\left", r"\right"))
BOX = '<{0} class="math notranslate nohighlight">{1}</{0}>'


def typeset(tex: str) -> str:
    """A displayed formula in HTML: MathML, then its number if it has one."""
    number = "".join(f'<span class="number" id="eq-{tag.replace(".", "-")}">({tag})</span>' for tag in TAG.findall(tex))
    beside = " ".join(mathml(part, "block") for part in parts(TAG.sub("", tex)))
    return f'<div class="beside">{beside}</div>{number}'


def parts(tex: str) -> list[str]:
    """What a ``\\qquad`` outside of all groups sets apart."""
    found = [""]
    for piece in tex.split(r"\qquad"):
        if found[-1].strip() and all(found[-1].count(left) == found[-1].count(right) for left, right in PAIRS):
            found.append(piece)
        else:
            found[-1] += r"\qquad" * bool(found[-1]) + piece
    return found


def mathml(tex: str, display: str) -> str:
    """A formula in MathML; ``display``: inline or block."""
    for name, known in SAID.items():
        tex = tex.replace(name, known)
    tex = TEXT.sub(lambda text: text[0].replace(" ", "\N{NO-BREAK SPACE}"), tex)
    tex = FUNCTION.sub(lambda f: (f[1] + r"\," if f[1] else "") + f[2] + (r"\," if f[3] is not None else ""), tex)
    made = SIGN.sub(r"<mi>\1</mi>", convert(tex.strip(), display=display))
    made = PRIME.sub(r'<mrow>\1<mo lspace="0" rspace="0">\2</mo></mrow>', made)
    made = NAMED.sub(named, PADDED.sub(r"<\1mrow>", made)).replace("<mi>:</mi>", COLON)
    for name, sign in LARGE.items():
        made = made.replace(name, sign)
    return MINUS.sub(r'\1<mo form="prefix">&#x02212;</mo>', made)


def named(found: re.Match[str]) -> str:
    """An operator with a name: no room after a sign or before a parenthesis, else a thin space."""
    sign, name, parenthesis = found.groups(default="")
    left, right = (0 if beside else 0.167 for beside in (sign, parenthesis))
    return f'{sign}<mo lspace="{left}em" rspace="{right}em">{name}</mo>{parenthesis}'


def visit_inline(writer: HTML5Translator, node: nodes.math) -> None:
    """Write a formula in a line."""
    writer.body.append(BOX.format("span", mathml(node.astext(), "inline")))
    raise nodes.SkipNode


def visit_displayed(writer: HTML5Translator, node: nodes.math_block) -> None:
    """Write a displayed formula."""
    writer.body.append(BOX.format("div", typeset(node.astext())))
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_displayed, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
