"""The minutes at the head of a lesson are what its text takes: at most an hour of reading, unless it says so."""

import re

import pytest

from tests.support import minutes

TEXTS = {number: path.read_text(encoding="utf-8") for number, path in minutes.LESSONS.items()}
LESSON = """---
front: matter
---
# Title

*About 5 minutes to read, 10 for the exercises.*

{words}

```{{code-cell}}
:tags: [hide-input]
hidden
```

```{{code-cell}}
:tags: [authors]
assert True
```

```{{code-cell}}
:tags: [hide-input]
moving.show(hidden)
```

```{{code-cell}}
x = 1

y = 2
plots.show(figure)
```

| a |
|---|

$$ a = b $$

<details><summary>Why</summary>
counted
</details>
<details><summary>More</summary>
left closed
</details>

**★★ One to do.** With words of its own.

```{{code-cell}}
:tags: [exercise]
def f(): ...
```

```{{code-cell}}
:tags: [check, points-2]
check.answer(f)
```

## Further: words that nobody has to read
"""


@pytest.mark.parametrize("number", sorted(TEXTS))
def test_minutes_at_the_head(number):
    text = TEXTS[number]
    assert re.search(r"^\*About \d+ minutes to read, \d+ for the exercises\. ", text, re.MULTILINE)
    assert minutes.head(text) == text, "make notebooks writes the minutes"
    assert minutes.reading(text) <= 60 or "two sittings" in re.search(r"^\*About .*", text, re.MULTILINE)[0]


def test_what_is_counted():
    text = LESSON.format(words="one two, $x = y$ – three")
    words = 10 + 4 + 3 + 1  # title and head, the words given, the open fold with its tags, the table
    counts = {"words": words, "lines": 3, "equations": 1, "figures": 2, "tables": 1, "listings": 0, "cells": 1}
    assert minutes.content(text) == counts
    assert minutes.solving(text) == 10
    assert minutes.reading(text) == 5
    assert minutes.reading(LESSON.format(words="word " * 5 * minutes.WORDS)) == 10


def test_minutes_are_written():
    text = LESSON.format(words="word " * 5 * minutes.WORDS)
    assert minutes.total(text) == 15
    assert minutes.total(minutes.head(text)) == 20
    page = "| [07 · Title](../x.ipynb) | 1 | 01 | – | 1 |\n\n| 3 | 07, 08 | 1 |\n"
    wanted = "| [07 · Title](../x.ipynb) | 15 | 01 | ★★ | 2 |\n\n| 3 | 07, 08 | 15 |\n"  # 10 to read, and 5
    assert minutes.plans(page, {"07": text, "08": "*About 9 minutes, exercises included."}) == wanted
