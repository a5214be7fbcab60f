"""Formulas become MathML when the site is built."""

import re

import pytest

from tests.support import ROOT

DISPLAYED = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)


@pytest.fixture
def formulas(monkeypatch):
    """The extension."""
    monkeypatch.syspath_prepend(ROOT / "notebooks/book")
    import formulas

    return formulas


@pytest.mark.parametrize(("tex", "found"), [
    (r"(-\infty, 1)", 'form="prefix">&#x02212;</mo><mi>'),
    (r"a) - 1", "<mo>&#x02212;</mo>"),
    (r"|a| - 1", "<mo>&#x02212;</mo>"),
    (r"\begin{aligned} a &= b \\ &\iff c \end{aligned}", "<mtable"),
    (r"k \text{ scores kept}", "\N{NO-BREAK SPACE}scores\N{NO-BREAK SPACE}kept"),
    (r"m = \max(a, b)", '<mo lspace="0em" rspace="0em">max</mo>'),
    (r"l + 2\operatorname{rowsum} P", '<mo lspace="0.167em" rspace="0.167em">rowsum</mo>'),
    (r"\{k : k < n\}", '<mo lspace="0.278em" rspace="0.278em">:</mo>'),
    (r"a \xrightarrow{n \gg b} c", "</mstyle><mrow>"),
    (r"b \log_2 c", 'space width="0.167em" /><msub>'),
])
def test_signs(formulas, tex, found):
    made = formulas.mathml(tex, "inline")
    assert found in made
    assert ">&<" not in made
    assert "\\" not in made


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks/lessons").glob("*.md")), ids=lambda path: path.stem)
def test_no_formula_keeps_a_command_of_tex(formulas, path):
    for tex in DISPLAYED.findall(path.read_text(encoding="utf-8")):
        assert not re.search(r"\\|>&<", formulas.typeset(tex)), tex


def test_a_number_has_an_anchor(formulas):
    assert formulas.typeset(r"a = b \tag{8.4}").endswith('</div><span class="number" id="eq-8-4">(8.4)</span>')


def test_what_stands_side_by_side_can_go_below_one_another(formulas):
    cases = r"\begin{cases} 0 \qquad 1 \end{cases}"
    assert len(formulas.parts(rf"m = 1, \qquad l = {cases}, \qquad \underbrace{{a \qquad b}}_c.")) == 3
    assert formulas.parts(rf"\left( a \qquad b \right) {cases}") == [rf"\left( a \qquad b \right) {cases}"]
