"""A number in a lesson's prose stands in its code too: as an input of a cell, or asserted by the cell that prints it.

nbval compares an output with itself, so a number that prose repeats is safe only where a cell asserts it. Counted as
backed: a literal of a code cell (comments and texts do not count), a published value, and what LISTED names with its
reason. What errata say, the page of reproductions computes. Free are small counting numbers, dates, versions, and
references to lessons, sections, equations and tables.
"""

import ast
import math
import re
from collections.abc import Iterable, Iterator

import pytest
from attnlab_course import published

from tests.support import ROOT

PATHS = sorted((ROOT / "notebooks" / "lessons").glob("*.md"))
LESSONS = {path.stem: path.read_text(encoding="utf-8") for path in PATHS}
FENCE = re.compile(r"^```\{code-cell\}.*?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TABLE = re.compile(r'listing\.verdicts\("([^"]+)"\)')
COUNTING = 12

UP = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
REFERENCES = "|".join((
    r"[Ll]essons? \d\d(?:(?:, \d\d)*,? (?:and|to|or) \d\d)?", r"sections? [\d.]+(?:(?:, \d+)*,? (?:and|to|or) \d+)?",
    r"(?:Tables?|Figures?|Algorithms?|Theorems?|Propositions?|Lemmas?|Appendix|lines?) \w?[\d.]+"
    r"(?:(?:, \d+)*,? (?:and|to) \d+)?",
    r"(?:[Ii]ssues?|pull requests?|PRs?|#) ?\d+(?:(?:, \d+)*,? (?:and|or) \d+)?", r"\(\d+\.\d+\w?\)", r"eqs?\. [\d.]+",
    r"arXiv [\d.]+", r"(?:version|since|JAX|NumPy|PyTorch|Triton) \d+[\d.]*(?: to \d+\.\d+)?",
    r"\b(?:19[5-9]|20[0-3])\d\b", r"^#+ .*$",
    r"==[\d.]+", r"\[\d\d ·", r"\b[A-Z]\.\d+(?:\.\d+)?",
))
FREE = re.compile(REFERENCES, re.MULTILINE)
POWER = r"(?:\^\{?(-?\d+)\}?|([⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+))"
NUMBER = re.compile(rf"(?<![\w.^_{{])(?<![A-Za-z]-)(\d[\d,]*(?:\.\d+)?)(?: ?· ?10{POWER}|{POWER})?(?![\w])")

PRINTED = "published: "
LIMIT = "limit of the checker: "
LISTED = {  # lesson: numbers of its prose that no cell of it has, and why
    "00": dict.fromkeys(("18", "22", "27"), "hours and lessons: tests/course/book/test_content.py"),
    "01": {"3.3": LIMIT + "naive_attention", "7.1": LIMIT + "naive_attention"},
    "05": {"2.1": LIMIT + "attention_in_chunks", "110": "6 in binary"},
    "06": {"8192": LIMIT + "chunked_loss"},
    "12": {"700": "the size of a download"},
    "13": {"126,": "an exponent in the solution of exp2_polynomial", "2.6": "measured on the page of reproductions"},
    "15": dict.fromkeys(("85", "80"), "in the source of FlashAttention-2"),
    "19": dict.fromkeys(("16.2", "30.5", "44.3", "66.3"), PRINTED + "pa_sharing")
    | dict.fromkeys(("6.09", "9.79", "37.56", "55.16"), PRINTED + "pa_figure15")
    | dict.fromkeys(("20", "26"), PRINTED + "pa_kernel"),
    "20": {"1.25": LIMIT + "plan_step"},
    "libraries": dict.fromkeys(("3.3", "3.15", "2.31"), "the version of a library, in published/libraries.toml")
    | dict.fromkeys(("0.256", "256"), "findings/numpy_mean_of_bfloat16.sh")
    | {"1.7 · 10³⁸": "findings/triton_interpreter_adds_bfloat16_as_integers.sh"},
    "reproductions": {"2^{15}": "a length of Rabe & Staats", "100,000": "steps of Rabe & Staats"},
}


def code_of(text: str) -> list[str]:
    """The code cells of a lesson, without tags and lines of IPython."""
    cells = (re.sub(r"\A(?::[^\n]*\n)+", "", cell) for cell in FENCE.findall(text))
    return [re.sub(r"(?m)^\s*[%!].*$", "", cell) for cell in cells]


def literals(text: str) -> set[float]:
    """The numbers that stand in the code cells, and the powers of small integers among them."""
    found = (constant(node) for cell in code_of(text) for node in ast.walk(ast.parse(cell)))
    return {abs(value) for value in found if value is not None}


def constant(node: ast.AST) -> float | None:
    """The value of a number, or of a power of two numbers, times a number."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return float(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return constant(node.operand)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Pow, ast.Mult)):
        left, right = constant(node.left), constant(node.right)
        if left is None or right is None:
            return None
        if isinstance(node.op, ast.Mult):
            return left * right
        return left**right if abs(right) < 128 and left else None
    return None


def alternatives(text: str) -> Iterator[str]:
    """What the cells say of their figures."""
    for cell in code_of(text):
        for node in ast.walk(ast.parse(cell)):
            if isinstance(node, ast.keyword) and node.arg == "alt" and isinstance(node.value, ast.Constant):
                yield node.value.value


def prose_of(text: str) -> str:
    """A lesson, its alternative texts and tables of verdicts, without code, displayed equations and references."""
    spoken = "\n\n".join([*alternatives(text), *map(published.verdicts, TABLE.findall(text))])
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
    text = FENCE.sub("", text)
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    text = re.sub(r"\$\$.*?\$\$", "", text, flags=re.DOTALL)
    text = re.sub(r"`[^`]*`", "", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    text = re.sub(r"^\*About .*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\\(?:text|mathrm|operatorname)\{[^}]*\}", "", text)
    text = re.sub(r"<[^>]+>", "", text)
    text = re.sub(r"(?<=\S)\n *(?=\S)", " ", text)  # a reference may be broken between two lines
    return FREE.sub("", f"{text}\n\n{spoken}")


def claims(text: str) -> Iterator[tuple[str, float]]:
    """The numbers of the prose: as printed, and their values."""
    for found in NUMBER.finditer(prose_of(text)):
        value = float(found[1].rstrip(",").replace(",", ""))
        if scale := found[2] or found[3]:
            value *= 10.0 ** int(scale.translate(UP))
        elif power := found[4] or found[5]:
            value **= int(power.translate(UP))
        if value != int(value) or value > COUNTING:
            yield found[0], value


def printed(text: str) -> set[float]:
    """The numbers of the published tables that a lesson loads."""
    return {x for name in published.names() if f'"{name}"' in text for x in numbers_of(name)}


def numbers_of(name: str) -> set[float]:
    """Every number that a source prints in a table."""
    texts = [text for row in published.load(name).rows.values() for text in row.printed]
    return {float(x) for text in texts for x in re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?", text)}


def unbacked(text: str, listed: Iterable[str] = ()) -> list[str]:
    """The numbers of the prose that no cell has."""
    known = literals(text) | printed(text)
    known |= {100 * x for x in known if x <= 1}  # 0.15 in a cell is 15 % in prose
    known |= {x / unit for x in known if x >= 1e6 for unit in (1e6, 1e9, 1e12)}  # and 1.55e12 is 1.55 T
    said = [(shown, value) for shown, value in claims(text) if shown not in listed]
    return [shown for shown, value in said if not any(math.isclose(value, x, rel_tol=1e-9) for x in known)]


@pytest.mark.parametrize("name", LESSONS)
def test_numbers_in_prose_stand_in_the_code(name):
    """If this fails: assert the number in the cell that prints it, or compute it there. LISTED is for few others."""
    cells = "\n".join(found[0] for found in FENCE.finditer(LESSONS["reproductions"])) if name == "errata" else ""
    assert unbacked(f"{LESSONS[name]}\n{cells}", LISTED.get(name[:2], LISTED.get(name, {}))) == []


@pytest.mark.parametrize("lesson", LISTED)
def test_what_is_listed_is_needed(lesson):
    (text,) = (text for name, text in LESSONS.items() if lesson in (name, name[:2]))
    assert {*LISTED[lesson]} <= {*unbacked(text)}
    for number, reason in LISTED[lesson].items():
        if reason.startswith(LIMIT):
            file = ROOT / f"notebooks/attnlab_course/lessons/lesson{lesson}/exercises/{reason.removeprefix(LIMIT)}.py"
            limits = (constant(node) for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
            assert float(number) in limits, file
        if reason.startswith(PRINTED):
            assert float(number) in numbers_of(reason.removeprefix(PRINTED))


CELL = "```{code-cell}\n:tags: [hide-input]\n\n%s\n```\n"


@pytest.mark.parametrize(("prose", "code", "found"), [
    ("It holds 16.3 MiB.", "print(held)", ["16.3"]),
    ("It holds 16.3 MiB.", "assert round(held, 1) == 16.3", []),
    ("It holds 16.3 MiB.", "print(held)  # 16.3", ["16.3"]),
    ("With 4,096 keys and $2^{20}$ or 2²⁰ queries", "n, m = 4096, 2**20", []),
    ("about $2 · 10^{-6}$ or 1.2 · 10⁻⁷", "assert close(x, 2e-6)", ["1.2 · 10⁻⁷"]),
    ("a share of 53.1 %, 312 TFLOP/s", "assert share == 0.531 and peak == 312e12", []),
    ("Seven of 12, lesson 04, sections 15 and 16, issue 991, (5.17), Table 20, Dao 2022, version 2.1, Triton 3.6",
     "", []),
    ("A float32 of an A100; `x[512]`; $$ 99 $$", "", []),
    ("", 'show(figure, alt="up to 88.7")', ["88.7"]),
    ("", 'listing.verdicts("13")', ["16", "128", "2.6", "8.8 · 10^{-5}"]),
])
def test_what_is_found(prose, code, found):
    assert unbacked(f"{prose}\n\n{CELL % code}") == found
