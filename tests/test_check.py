"""The checkers: right answers pass in any form, wrong ones are shown the smallest failing input, stubs are calm."""

import numpy as np
import pytest

from attnlab import check
from attnlab.check.engine import examine


@pytest.mark.parametrize("name", check.names())
def test_reference_is_right(name: str):
    exercise = check.find(name)
    assert examine(exercise, exercise.reference).state == "right"


def loop_row(q, keys, values):
    weights = [np.exp(sum(a * b for a, b in zip(q, k)) / len(q) ** 0.5) for k in keys]
    return sum(w * v for w, v in zip(weights, values)) / sum(weights)


def loop_visible(n, m, causal, window):
    seen = np.zeros((n, m), bool)
    for i in range(n):
        for j in range(m):
            p = i + m - n
            seen[i, j] = (not causal or j <= p) and (window is None or p - window[0] <= j <= p + window[1])
    return seen


def search_longest(free_bytes, batch, heads, itemsize, copies):
    low, high = 0, 2**64
    while high - low > 1:
        n = (low + high) // 2
        low, high = (n, high) if n * n * batch * heads * itemsize * copies <= free_bytes else (low, n)
    return low


def einsum_attention(query, key, value, causal):
    hq, n, d = query.shape
    hk, m, _ = key.shape
    s = np.einsum("hgnd,hmd->hgnm", query.reshape(hk, -1, n, d) / d**0.5, key)
    if causal:
        s[..., ~np.tri(n, m, m - n, dtype=bool)] = -np.inf
    s = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("hgnm,hmd->hgnd", s / s.sum(-1, keepdims=True), value).reshape(hq, n, -1)


OTHER = [
    ("average", lambda w, v: sum(a * b for a, b in zip(w, v)) / sum(w)),
    ("attention_row", loop_row),
    ("visible", loop_visible),
    ("longest", search_longest),
    ("naive_attention", einsum_attention),
]


@pytest.mark.parametrize(("name", "answer"), OTHER, ids=[name for name, _ in OTHER])
def test_right_answer_written_differently(name: str, answer):
    assert examine(check.find(name), answer).text.startswith(f"{name}: right")


def repeated(query, key, value, causal):
    group = query.shape[0] // key.shape[0]
    return einsum_attention(query, np.repeat(key, group, 0), np.repeat(value, group, 0), causal)


def four_copies(query, key, value, causal):
    hq, n, m = *query.shape[:2], key.shape[1]
    kept = np.zeros((4, hq, n, m)) + 1.0
    return einsum_attention(query, key, value, causal) * kept[0, 0, 0, 0]


WRONG = [
    ("average", lambda w, v: w @ v, "ONES"),
    ("attention_row", lambda q, k, v: np.exp(k @ q) / np.exp(k @ q).sum() @ v, "scale 1/2"),
    ("attention_row", lambda q, k, v: 0.0, "expected shape (1,), got ()"),
    ("attention_row", lambda q, k, v: None, "returned None"),
    ("visible", lambda n, m, causal, window: np.tri(n, m, dtype=bool), "n = 2, m = 2, causal = False"),
    ("visible", lambda n, m, causal, window: np.ones((n, m)), "expected bool numbers, got float64"),
    ("longest", lambda free, b, h, i, c: int((free / (b * h * i * c)) ** 0.5), "2**80"),
    ("naive_attention", repeated, "holds too much"),
    ("naive_attention", four_copies, "holds too much"),
    ("naive_attention", lambda q, k, v, causal: einsum_attention(q, k, v, False), "causal, N = M = 3"),
]


@pytest.mark.parametrize(("name", "answer", "message"), WRONG, ids=[f"{n}-{i}" for i, (n, _, _) in enumerate(WRONG)])
def test_wrong_answer_is_explained(name: str, answer, message: str):
    verdict = examine(check.find(name), answer)
    assert verdict.state == "wrong"
    assert message in verdict.text


def stub(*args):
    raise NotImplementedError


@pytest.mark.parametrize("answer", [stub, lambda *args: ...])
def test_not_attempted_is_one_calm_line(answer, capsys):
    check.answer(answer, "average")
    assert capsys.readouterr().out == "average: not attempted yet.\n"


def test_error_is_shown_at_the_learners_line(capsys):
    def average(weights, values):
        total = weights.sum()
        return weights @ values / total.missing

    check.answer(average)
    out = capsys.readouterr().out
    assert "AttributeError" in out
    assert "in your line 3: return weights @ values / total.missing" in out
    assert total_lines(out) <= 5


def total_lines(out: str) -> int:
    return out.count("\n")


def test_endless_recursion_is_an_error_like_any_other():
    def average(weights, values):
        return average(weights, values)

    assert "RecursionError" in examine(check.find("average"), average).text


def test_changed_input_is_named():
    def average(weights, values):
        weights /= weights.sum()
        return weights @ values

    assert "changes its inputs" in examine(check.find("average"), average).text


def test_use_falls_back_to_the_course(capsys):
    right = check.find("average").reference
    assert check.use(right) is right
    assert check.use(stub, "average") is right
    assert "not attempted" in capsys.readouterr().out


def test_nbgrader_needs_an_assertion(monkeypatch):
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    check.answer(check.find("average").reference)
    with pytest.raises(AssertionError, match="not attempted"):
        check.answer(stub, "average")


def test_hints_are_graded_and_end(capsys):
    hints = check.find("average").hints
    for _ in range(len(hints) + 1):
        check.hint("average")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"Hint 1 of {len(hints)}: {hints[0]}"
    assert lines[-1] == lines[-2] == f"Hint {len(hints)} of {len(hints)}: {hints[-1]}"


def test_progress_lists_every_exercise(capsys):
    check.answer(check.find("average").reference)
    check.progress()
    out = capsys.readouterr().out
    assert all(name in out for name in check.names())
    assert "right" in out


def test_long_spelling_and_its_errors():
    check.lesson("01").exercise("attention_row")(stub)
    with pytest.raises(ValueError, match="belongs to lesson 01"):
        check.lesson("00").exercise("attention_row")
    with pytest.raises(ValueError, match="there are attention_row"):
        check.answer(lambda: 0, "no_such_exercise")
