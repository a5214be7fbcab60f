"""The part of a table that is chosen loses no pair, is small, and is the same in every process.

Of its dear rows, one in six runs every day.
"""

from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.attnlab.algorithms import test_agreement, test_gradients
from tests.support.pairwise import pairs, pairwise, parameters

TABLES = {
    "agreement": ([*test_agreement.matrix()], ["jax"]),
    "gradients": ([*test_gradients.matrix("torch", "jax")], []),
}


def all_pairs(rows):
    """Every pair of a table."""
    return set().union(*map(pairs, rows))


@given(rows=st.lists(st.tuples(*[st.integers(0, 4)] * 3), unique=True, max_size=60))
def test_no_pair_of_any_table_is_lost(rows):
    for dear in ((), (0,), (1, 2)):
        assert all_pairs(rows[i] for i in pairwise(rows, dear)) == all_pairs(rows)


@pytest.mark.parametrize("table", TABLES)
def test_no_pair_of_a_table_is_lost(table):
    rows, dear = TABLES[table]
    kept = pairwise(rows, dear)
    assert all_pairs(rows[i] for i in kept) == all_pairs(rows)
    assert kept == pairwise(rows, dear) == sorted(set(kept))
    shares = Counter(rows[i][:2] for i in kept)
    assert min(shares.values()) >= 10, "each algorithm meets each library often"


def test_what_is_left_out_runs_with_the_full_table():
    rows = list(product("ab", "cd", "ef"))
    marked = [row.values for row in parameters(rows) if row.marks]
    assert len(marked) == len(rows) - len(pairwise(rows)) > 0
    assert [row.id for row in parameters(rows)][:2] == ["a-c-e", "a-c-f"]


def test_dear_rows_that_are_kept_are_thinned():
    marks = {row.values: {mark.name for mark in row.marks} for row in parameters(product("ab", "cd", "ef"), dear="a")}
    assert {name for row in marks if row[0] == "a" for name in marks[row]} == {"thin", "full"}
    assert not any("thin" in marks[row] for row in marks if row[0] == "b")
