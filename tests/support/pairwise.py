"""A part of a table of options in which every two options that meet in the table still meet."""

import random
from itertools import combinations

import pytest


def pairs(row):
    """Every two values of a row, with their columns."""
    return set(combinations(enumerate(row), 2))


def pairwise(rows, dear=()):
    """The indices of few rows that hold every pair of the table; the same ones each time.

    Rows that bring the most new pairs come first. Among those that bring as many, rows without a value of ``dear`` do,
    and then chance decides, so that a column of few values is spread over the values of a long one.
    """
    order, seen, chosen = list(range(len(rows))), set(), []
    random.Random(0).shuffle(order)
    order.sort(key=lambda i: not set(dear).isdisjoint(rows[i]))
    columns = len(rows[0]) if rows else 0
    for wanted in range(columns * (columns - 1) // 2, 0, -1):
        for i in order:
            new = pairs(rows[i]) - seen
            if len(new) >= wanted:
                chosen.append(i)
                seen |= new
    return sorted(chosen)


def parameters(rows, dear=(), name="-".join):
    """``rows`` for pytest.mark.parametrize, called ``name(row)``; what is left out runs in ``make test-all``.

    Of the rows with a value of ``dear`` one in six is kept.
    """
    rows = list(rows)
    kept = set(pairwise(rows, dear))

    def marks(i):
        few = [pytest.mark.thin(6)] if not set(dear).isdisjoint(rows[i]) else []
        return few if i in kept else pytest.mark.full

    return [pytest.param(*row, id=name(row), marks=marks(i)) for i, row in enumerate(rows)]


def in_turn(names, first):
    """Every second name; another test with the other ``first`` has the rest, and ``make test-all`` runs all in both."""
    return [pytest.param(name, marks=() if i % 2 == first else pytest.mark.full) for i, name in enumerate(names)]
