"""The three games: every bug can be found, every puzzle solved within its budget, every hole played under par."""

from itertools import combinations

import numpy as np
import pytest
from attnlab_course import check
from attnlab_course.checker.engine import examine
from attnlab_course.games import golf, guess, puzzles

from attnlab.measure import extra_bytes


@pytest.mark.thin(3)
@pytest.mark.parametrize("suspect", guess.SUSPECTS)
def test_a_bug_is_refused_and_named(suspect):
    verdict = examine(guess.EXERCISE, guess.function_of(suspect))
    assert verdict.state == "wrong"
    assert verdict.diagnosis == guess.SUSPECTS[suspect].say


@pytest.mark.parametrize("pair", [*combinations(guess.SUSPECTS, 2)], ids=" and ".join)
def test_two_bugs_differ_in_a_fingerprint(pair):
    assert any(len({guess.like(suspect, fingerprint) for suspect in pair}) == 2 for fingerprint in guess.CASES)


def test_each_bug_has_a_number():
    assert examine(guess.EXERCISE, guess.EXERCISE.reference).state == "right"
    assert sorted(guess.ORDER) == sorted(guess.SUSPECTS)
    with pytest.raises(ValueError, match=r"0 .* to 12"):
        guess.Hunt(13)


def test_the_best_plan():
    """One suspect needs no fingerprint, two that differ need one, three that differ in EYE alone need two."""
    assert guess.needed(frozenset({"no scale"})) == 0
    assert guess.needed(frozenset({"no scale", "no shift"})) == 1
    assert guess.needed(frozenset({"window too wide", "documents leak", "heads dealt out"})) == 2
    assert guess.needed(guess.UNSEEN) >= np.log2(len(guess.UNSEEN))


def test_a_hunt_counts(capsys, monkeypatch):
    monkeypatch.setattr(guess, "_counts", {})
    hunt = guess.Hunt(0)
    hunt.ask(...)
    hunt.accuse(...)
    assert hunt.count == 0
    hunt.accuse("top left")
    assert "nothing you asked for rules it out" in capsys.readouterr().out
    hunt.ask("CACHE")
    hunt.accuse("top left")
    assert "CACHE would have come out differently" in capsys.readouterr().out
    assert hunt.left() == ["not itself"]
    one = np.ones((1, 1, 1))
    assert hunt(one, one, 3 * one, 1) == 3
    hunt.accuse("not itself")
    assert "Yes, with a count of 4" in capsys.readouterr().out
    lucky = guess.Hunt(0)
    lucky.ask("ONE KEY")
    lucky.accuse("not itself")
    assert "Lucky: 12 other suspects" in capsys.readouterr().out
    assert guess._counts == {0: 1}


def tile_step(O, l, m, s, v):
    top = np.maximum(m, s.max(1))
    shift = np.where(top == -np.inf, 0, top)
    p, old = np.exp(s - shift[:, None]), l * np.exp(m - shift)
    out = (old[:, None] * O + p @ v) / np.maximum(old + p.sum(1), np.finfo(float).tiny)[:, None]
    return out.astype(O.dtype), (old + p.sum(1)).astype(l.dtype), top.astype(m.dtype)


SHORT = {"tile_step": tile_step}  # the course's own needs helpers


@pytest.mark.thin(2)
@pytest.mark.parametrize("name", puzzles.PUZZLES)
def test_a_puzzle_has_an_answer_within_the_budget(name, capsys):
    answer = SHORT.get(name) or check.find(name).reference
    puzzles.solve(answer)
    said = capsys.readouterr().out
    assert f"{name}: right" in said
    assert f"{puzzles.lines(answer)} of 5 lines\n" in said
    assert puzzles.lines(answer) <= puzzles.BUDGET
    assert "It returns result" in puzzles.picture(name).get_label()


def test_lines_are_counted_as_python_writes_them(capsys):
    def average(weights, values):
        """Not counted."""
        one = weights @ values; two = (  # noqa: E702
            weights.sum()
        )
        # nor is this
        for _ in range(2):
            one = one / 1
        two = two * 1
        return one / two

    assert puzzles.lines(average) == 6
    puzzles.solve(average)
    said = capsys.readouterr().out
    assert "average: right, on 6 inputs.  ✓ ★" in said  # as in its lesson
    assert "6 of 5 lines: 1 over the budget" in said
    average.__code__ = (lambda weights, values: ...).__code__
    puzzles.solve(average)
    assert capsys.readouterr().out == "average: not attempted yet.\n"


def row_deltas(out, dout):
    return np.einsum("...i,...i->...", out, dout)


def safe_softmax(x):
    m = x.max(-1, keepdims=True)
    p = x - np.where(m == -np.inf, 0, m).astype(x.dtype)
    np.exp(p, out=p)
    l = p.sum(-1, keepdims=True, dtype=np.promote_types(x.dtype, np.float32))
    p /= np.where(l == 0, 1, l)
    return p


def softmax_vjp(p, dp):
    out = dp - np.einsum("...i,...i->...", p, dp)[..., None]
    out *= p
    return out


def attention_row(q, keys, values):
    p = keys @ q
    p /= np.sqrt(len(q))
    np.exp(p, out=p)
    p /= p.sum()
    return p @ values


def attention_in_chunks(query, key, value, Cq, Ck):
    out = np.empty((len(query), value.shape[1]))
    for q, to in zip(query, out):
        p = key @ q
        p /= np.sqrt(len(q))
        p -= p.max()
        np.exp(p, out=p)
        p /= p.sum()
        np.dot(p, value, out=to)
    return out


UNDER_PAR = {f.__name__: f for f in (row_deltas, safe_softmax, softmax_vjp, attention_row, attention_in_chunks)}


@pytest.mark.parametrize("name", golf.HOLES)
def test_a_hole_can_be_played_under_par(name, capsys, monkeypatch):
    best = {}
    monkeypatch.setattr(golf, "_best", best)
    golf.play(check.find(name).reference)
    par = best[name]
    golf.play(UNDER_PAR[name])
    assert best[name] < par / 1.5
    golf.play(check.find(name).reference)
    assert f"Your best: {best[name]:,}." in capsys.readouterr().out.splitlines()[-1]
    assert best[name] < par


@pytest.mark.parametrize("name", golf.HOLES)
def test_the_score_is_what_the_instrument_says(name):
    reference, args = check.find(name).reference, golf.HOLES[name]()
    extra_bytes(lambda *_: reference(*args), *args)  # the first call keeps something for good
    measured = extra_bytes(lambda *_: reference(*args), *args) / 8
    assert golf.held(reference, name) == pytest.approx(measured, abs=100)


def test_a_wrong_answer_has_no_score(capsys, monkeypatch):
    monkeypatch.setattr(golf, "_best", {})
    wrong = lambda out, dout: out.sum(-1)  # noqa: E731
    wrong.__name__ = "row_deltas"
    golf.play(wrong)
    assert "not right yet" in capsys.readouterr().out
    assert golf._best == {}
    with pytest.raises(ValueError, match="there are row_deltas"):
        golf.play(tile_step)
