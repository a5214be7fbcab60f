"""The book's pages beside the lessons keep to the lessons: minutes, links, equations, terms, questions, numbers."""

import builtins
import math
import re
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from attnlab_course import check
from attnlab_course.instruments import hardware

from attnlab import costs, naive_softmax, safe_attention
from attnlab.core.geometry import Band
from tests.course.test_lesson_numbers import code_of
from tests.support import ROOT
from tests.support.notebooks import names

BOOK = ROOT / "notebooks" / "book"
LESSONS = {path.stem[:2]: path for path in sorted((ROOT / "notebooks" / "lessons").glob("[0-9]*.md"))}
TEXTS = {number: path.read_text(encoding="utf-8") for number, path in LESSONS.items()}
HEAD = re.compile(r"^\*About (\d+) minutes to read, (\d+) for the exercises\. ", re.MULTILINE)
SHORT = "00", "01", "02", "03", "04", "07", "08", "14"
MINUTES = {number: [int(minutes) for minutes in HEAD.search(text).groups()] for number, text in TEXTS.items()}
INSTRUCTORS = (BOOK / "instructors.md").read_text(encoding="utf-8")
GLOSSARY = (BOOK / "glossary.md").read_text(encoding="utf-8")
QUESTIONS = {n: p.read_text(encoding="utf-8") for n, p in ((p.stem, p) for p in BOOK.glob("questions/[0-9]*.md"))}
PAGES = {"instructors.md": INSTRUCTORS, "glossary.md": GLOSSARY}
PAGES |= {f"questions/{number}.md": text for number, text in QUESTIONS.items()}
TAGS = {tag for text in TEXTS.values() for tag in re.findall(r"\\tag\{([\d.]+\w?)\}", text)}

OPTION = re.compile(r"^- \*\*([A-D])\*\* (.+?)(?=\n- |\n\n)", re.MULTILINE | re.DOTALL)
RIGHT = re.compile(r"^\*\*([A-D])\.\*\* ", re.MULTILINE)
WRONG = re.compile(r"^- \*If you chose ([A-D])(?: or ([A-D]))?:\* \S", re.MULTILINE)
ENTRY = re.compile(r"^\*\*([^\n]+)\*\*\n: (.+?)\[Lesson (\d\d)\]\(\.\./(\w+)\.ipynb\)\.$", re.MULTILINE | re.DOTALL)


def blocks(number: str) -> list[str]:
    """The multiple-choice questions of a lesson."""
    return [part for part in re.split(r"(?m)^## ", QUESTIONS[number])[1:] if part[0].isdigit()]


MULTIPLE_CHOICE = {f"{n}-{i}": text for n in sorted(QUESTIONS) for i, text in enumerate(blocks(n), 1)}


def test_every_lesson_has_its_questions() -> None:
    assert QUESTIONS.keys() == LESSONS.keys()
    for number, text in QUESTIONS.items():
        title = re.search(r"^# (\d\d · .+)$", TEXTS[number], re.MULTILINE)[1]
        assert text.startswith(f"# {title}: questions\n\nFor lesson [{title}](../../{LESSONS[number].stem}.ipynb).")
        assert len(blocks(number)) in ((2, 3) if number == "00" else (4, 5, 6))
        assert [int(block.split(".")[0]) for block in blocks(number)] == [*range(1, len(blocks(number)) + 1)]
        assert text.count("<details><summary>") == text.count("\n\n</details>\n")
        assert "## Explain it to a colleague" in text


@pytest.mark.parametrize("name", MULTIPLE_CHOICE)
def test_one_option_is_right_and_the_others_are_explained(name: str) -> None:
    asked, answer = MULTIPLE_CHOICE[name].split("<details><summary>Answer</summary>")
    letters = [letter for letter, _ in OPTION.findall(asked)]
    right = RIGHT.findall(answer)
    explained = [letter for found in WRONG.findall(answer) for letter in found if letter]
    assert letters in (["A", "B", "C"], ["A", "B", "C", "D"])
    assert not RIGHT.search(asked)
    assert len(right) == 1
    assert sorted(right + explained) == letters
    assert len({text for _, text in OPTION.findall(asked)}) == len(letters)


def test_no_letter_is_right_too_often() -> None:
    right = [RIGHT.search(text)[1] for text in MULTIPLE_CHOICE.values()]
    assert all(right.count(letter) < len(right) / 2.5 for letter in "ABCD")


@pytest.mark.parametrize("page", PAGES)
def test_references(page: str) -> None:
    text = PAGES[page]
    for target in re.findall(r"\]\((\.\./\S+?)\)", text):
        name = (BOOK / page).parent.joinpath(target).resolve()
        assert name.parent == ROOT / "notebooks", target
        assert name.stem in {path.stem for path in LESSONS.values()}, target
    cited = re.findall(r"\((\d+\.\d+\w?)\)", text)
    assert set(cited) <= TAGS, set(cited) - TAGS
    for number, section in re.findall(r"lesson (\d\d), sections? (\d+)", text):
        assert f"\n## {section}. " in TEXTS[number], f"lesson {number} has no section {section}"
    if page.startswith("questions"):
        for section in re.findall(r"[(\s]sections? (\d+)", text):
            assert f"\n## {section}. " in TEXTS[page[10:12]], f"section {section}"


def key_in_two_chunks() -> int:
    """Lesson 05: 11 keys, slices of four that are shifted back at the end."""
    read = [j for start in (0, 4, 8) for j in range(min(start, 7), min(start, 7) + 4)]
    (twice,) = {j for j in read if read.count(j) == 2}
    return twice


def moved(block_k: int) -> int:
    """Lesson 09: elements that the forward moves; two passes against three."""
    return costs.forward("flash", 1024, 1024, 64, 64, block_q=64, block_k=block_k).elements


def causal_tiles() -> tuple[int, int]:
    """Lesson 08: tiles computed and partial, of 8 by 8."""
    visited = [
        (rows, cols)
        for rows in (slice(i, i + 128) for i in range(0, 1024, 128))
        for cols in Band(1024, 1024, None, 0).key_blocks(rows, 128)
    ]
    return len(visited), sum(not Band(1024, 1024, None, 0).full(rows, cols) for rows, cols in visited)


def stopped_sum() -> float:
    import ml_dtypes

    l = ml_dtypes.bfloat16(0)
    for _ in range(4096):
        l = l + ml_dtypes.bfloat16(1)
    return float(l)


def query_zero_sees() -> str:
    weights = safe_attention(np.zeros((2, 4)), np.zeros((5, 4)), np.eye(5), causal=True)[0]
    seen = np.flatnonzero(weights)
    return f"Keys {seen[0]} to {seen[-1]}"


def waves() -> str:
    programs, places = 8 * 4096 // 128, 108
    count = -(-programs // places)
    return f"{count} waves, {programs / (places * count):.0%}"


def small_sram() -> str:
    """Lesson 09: the bytes from which Algorithm 1 moves less, by search over blocks, in KiB."""
    n, d = 1 << 20, 64
    dense = costs.forward("safe", n, n, d, d).elements
    moved = (costs.forward("flash", n, n, d, d, block_q=n, block_k=b).elements for b in range(1, 200))
    least = next(b for b, elements in enumerate(moved, 1) if elements < dense)
    return f"{math.ceil(2 * 4 * d * least / 1024)} KiB"


def rho() -> str:
    ratio = [hardware.ACCELERATORS["H100"].flops / d / hardware.MULTIPROCESSORS["H100"].exponentials for d in (64, 128)]
    return {0.5: "half", 1: "same", 2: "twice", 4: "four times"}[ratio[0] / ratio[1]]


def parts() -> str:
    """Lesson 15: the best number of parts for 8 key heads on 132 multiprocessors, by (15.9)."""
    memory, rate, time = hardware.ACCELERATORS["H100"].bandwidth, 32 * 1024 / 0.5e-6, {}
    assert math.ceil(memory / rate) == 52
    for n in (1, 16, 17, 132):
        full, rest = divmod(8 * n, 132)
        part = 512 * math.ceil(32_768 / n)
        time[n] = sum(0.5e-6 + part * max(1 / rate, wave / memory) for wave in full * [132] + [rest] * (rest > 0))
    return f"{min(time, key=time.get)}"


NUMBERS: dict[str, Callable[[], str]] = {
    "00-3": query_zero_sees,
    "01-2": lambda: f"{sum(np.exp(np.zeros(4)) / 4 * [1, 1, 1, 0]):.2f}",
    "01-3": lambda: f"Key head {3 // (8 // 2)}",
    "01-4": lambda: f"{4 * 64_000**2 / 1e9:.1f} GB",
    "01-5": lambda: f"{naive_softmax(np.full(4096, 85, np.float32)).max():.0f}",
    "02-1": lambda: f"{1000 + math.log(3.2):.3f}",
    "02-3": lambda: f"{stopped_sum():.0f}",
    "03-1": lambda: f"{sum(math.exp(x - 3) for x in (1, 3, 2)):.3f}",
    "03-3": lambda: f"{1000 - 1} operations, depth {math.ceil(math.log2(1000))}",
    "04-1": lambda: f"{round(float(np.finfo(np.float32).max) / math.exp(80), -2):,.0f}",
    "04-2": lambda: f"{128 + 2}",
    "04-3": lambda: f"{3 / sum(math.exp(s - 2) for s in (0, 1, 2)):.1f}",
    "04-4": lambda: f"about {(2 * 64 + 2 * 4096 * 64) / (4 * 64 + 4 * 4096):.0f} times",
    "05-1": lambda: str(Fraction(4, 12)),
    "05-2": lambda: f"{check.find('best_chunk').reference(65_536, 62, 1)}",
    "05-3": lambda: f"Key {key_in_two_chunks()}",
    "06-2": lambda: f"{math.isqrt(64)} times too large",
    "06-3": lambda: f"{4 * 2**20 * (2**20 // 4096) // 2**30} GiB",
    "07-1": lambda: f"{Fraction(1, 3 * 2)} FLOP",
    "08-4": lambda: "{} and {}".format(*causal_tiles()),
    "09-2": lambda: f"{moved(768) / moved(384):.0%}",
    "09-5": small_sram,
    "11-1": lambda: f"{costs.tiling(1024, 1024, 128, 128, window=(128, 0)).tiles / 8**2:.1%}",
    "11-3": lambda: f"{(0.7 + 10) / (0.7 + 10 / 8):.1f} times",
    "11-4": lambda: f"{next(m for m in range(2**20) if m * 8 / 128 > 2048) - 1:,}",
    "12-2": lambda: f"{-(-100 // 64) * 64 - 100} of the next head",
    "13-1": waves,
    "13-2": rho,
    "14-3": lambda: f"{50 * (1 + 1024 / 4096):.1f}%",
    "14-4": lambda: f"About {round(26e9 / (40 * costs.cache_bytes(1, 2 * 40 * 128)), -2):,.0f} tokens",
    "15-2": lambda: f"{(14 + 16 * 0.5) / (14 + 16 * 0.5 / 4):.2f}",
    "15-3": lambda: f"{1 / (1 + math.exp(3 - 1)):.3f}",
    "15-4": parts,
    "19-2": lambda: f"{check.find('wasted_slots').reference([16, 17, 40, 64], 16, 'pages')}",
    "19-6": lambda: f"{24 - 8 * ((24 - 1) // 8)}",
    "24-2": lambda: f"{4 + 32 / 64} bits",
    "24-5": lambda: f"{100 * (8 / 48 + 40 / 48 * 1024 / 65_536):.0f}%",
    "23-3": lambda: f"{8 * 8192 / (7 * 512 + 8192):.1f}",
    "26-1": lambda: f"{float(check.find('expected_tokens').reference([Fraction(1, 2)] * 3))}",
}


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("name", NUMBERS)
def test_right_numbers(name: str) -> None:
    asked, answer = MULTIPLE_CHOICE[name].split("<details>")
    right = RIGHT.search(answer)[1]
    number = NUMBERS[name]()
    says = re.compile(rf"(?<![\d.]){re.escape(number)}(?!\d)")
    assert [letter for letter, text in OPTION.findall(asked) if says.search(text)] == [right], number


def test_minutes_are_those_of_the_exercises() -> None:
    for number, text in TEXTS.items():
        stars = sorted(check.find(name).stars for name in check.lessons()[number])
        assert MINUTES[number][0] <= 60 or "two sittings" in re.search(r"^\*About .*", text, re.MULTILINE)[0]
        assert MINUTES[number][1] == sum((5, 10, 20)[n - 1] for n in stars)
        assert sorted(map(len, re.findall(r"^\*\*(★+)", text, re.MULTILINE))) == stars


def test_the_instructors_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BOOK)
    from cards import tables

    made = tables(INSTRUCTORS, ROOT / "notebooks")
    rows = re.findall(r"^\| \[(\d\d) · [^|]*\| (\d+) \| .*★.* \| (\d+) \|$", made, re.MULTILINE)
    points = {number: sum(check.find(name).stars for name in check.lessons()[number]) for number in LESSONS}
    assert rows == [(number, str(sum(MINUTES[number])), str(points[number])) for number in LESSONS]
    assert made.count("| – |") == 1  # only lesson 00 needs no other
    days = re.findall(r"^\| \w+ \| (\d\d.*?) \| (\d+) \|$", made, re.MULTILINE)
    assert [sum(MINUTES[number][0] for number in re.findall(r"\d\d", lessons)) for lessons, _ in days] == [
        int(total) for _, total in days
    ]
    meetings = re.findall(r"^\| \d+ \| (\d\d.*?) \| (\d+) \|$", made, re.MULTILINE)
    planned = [re.findall(r"\d\d", lessons) for lessons, _ in meetings]
    assert [number for group in planned for number in group] == [*LESSONS]
    hour = re.search(r"\*\*90 minutes, one idea\.\*\*(.*?)\n\n", INSTRUCTORS, re.DOTALL)[1]
    assert sum(map(int, re.findall(r"\((\d+)(?: minutes)?\)", hour))) == 90


@pytest.mark.parametrize("page", ["README.md", "notebooks/lessons/00_start_here.md"])
def test_the_hours_that_are_promised(page: str) -> None:
    """Of all lessons, and of the short way, which leaves out more than half of 02 and the end of 03."""
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    said = re.findall(r"about (\d+) hours to read, and their exercises another (\d+)\..* about (\d+) hours of", text)
    short = sum(MINUTES[number][0] * {"02": 0.4, "03": 0.6}.get(number, 1) for number in SHORT)
    sums = [sum(minutes) for minutes in zip(*MINUTES.values())]
    assert [60 * int(hours) for hours in said[0]] == pytest.approx([*sums, short], rel=0.12)


@pytest.mark.parametrize(("number", "taken", "said"), [("02", "126", "1, 2 and 6"), ("03", "1234", "1 to 4")])
def test_the_short_way_runs_without_the_sections_that_it_leaves_out(number: str, taken: str, said: str) -> None:
    assert f"sections {said} of lesson {number}" in " ".join(TEXTS["00"].split())
    head, *sections = re.split(r"(?m)^## ", TEXTS[number])
    cells = [names(cell) for part in [head, *(x for x in sections if x[0] in taken)] for cell in code_of(part)]
    reads, defined = (set().union(*found) for found in zip(*cells))
    assert not {name for name in reads - defined if not hasattr(builtins, name)}


def test_what_the_instructors_page_names_exists() -> None:
    targets = re.findall(r"^([\w-]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    used = re.findall(r"(?:`|^)make ([\w-]+)", INSTRUCTORS, re.MULTILINE)
    assert used
    assert set(used) <= {*targets}
    number = max(LESSONS)
    paths = re.findall(r"`(?:COURSE/)?((?:attnlab|notebooks|tests)/[\w./]+)`", INSTRUCTORS)
    paths += re.findall(r"COURSE/(\S+)", INSTRUCTORS)
    for path in paths:
        named = path.replace("NN_name", LESSONS[number].stem).replace("NN", number)
        assert (ROOT / named).exists(), path
    for name, lesson in re.findall(r"`(\w+)` of lesson (\d\d)", INSTRUCTORS):
        assert name in check.lessons()[lesson]


def test_code_on_the_instructors_page_is_the_projects() -> None:
    listings = re.findall(r"```python\n(.*?)\n```", INSTRUCTORS, re.DOTALL)
    for listing in listings:
        compile(listing, "instructors.md", "exec")
    assert (ROOT / "notebooks/attnlab_course/lessons/lesson00/exercises/average.py").read_text().strip() in listings


def test_the_checkers_words_are_quoted_as_it_says_them() -> None:
    best, chunks = check.find("best_chunk"), check.find("attention_in_chunks")
    page = " ".join(INSTRUCTORS.split())
    for exercise, words in ((best, "√M would be right if a summary cost one number per query"),
                            (chunks, "The keys after the last whole chunk are left out")):
        assert f'"{words}"' in page
        assert any(words in mistake.say for mistake in exercise.mistakes)


def order(term: str) -> tuple:
    """Terms are sorted by their letters and digits; those without any come last."""
    plain = re.sub(r"[^a-z0-9]", "", term.lower().replace("\\text", "").replace("\\tilde", ""))
    return not plain, plain or term, term


def test_glossary() -> None:
    symbols, words = re.split(r"(?m)^## A$", GLOSSARY)
    for part in (symbols, words):
        terms = [found[0] for found in ENTRY.findall(part)]
        assert len(terms) == part.count("\n: ") > 30
        assert terms == sorted(set(terms), key=order)
    for term, text, number, stem in ENTRY.findall(GLOSSARY):
        assert stem == LESSONS[number].stem, term
        assert text.strip().endswith("."), term
    heads = re.findall(r"(?m)^## (\w)$", GLOSSARY)
    assert heads == sorted(heads) == sorted({term[0].upper() for term, *_ in ENTRY.findall(words)})


FIRST = """
    arithmetic intensity, bandwidth, block mask, butterfly, cross-attention, decoding, FlexAttention, FP8, GQA, HBM,
    latency, L2 cache, Little's law, multi-head attention, multiprocessor, pointer, prefill, projection, race,
    registers, ridge, shared memory, spill, SRAM, tensor core, thread block, Threefry, warp
"""


@pytest.mark.parametrize("term", [term.strip() for term in FIRST.split(",")])
def test_a_term_is_first_used_where_the_glossary_says(term: str) -> None:
    """Words with one meaning only; others, such as block or weight, are words of everyday language as well."""
    home = {name: number for name, _, number, _ in ENTRY.findall(GLOSSARY)}[term]
    stem = term if term.isupper() else term.removesuffix("s")
    words = re.escape(stem).replace(r"\ ", r"\s+")  # a term may be broken between two lines
    says = re.compile(rf"(?<![\w-]){words}(?:s|es|ed|led)?(?!\w)", 0 if term.isupper() else re.IGNORECASE)
    prose = {number: re.sub(r"```.*?```", "", text, flags=re.DOTALL) for number, text in sorted(TEXTS.items())}
    assert next(number for number, text in prose.items() if says.search(text)) == home
