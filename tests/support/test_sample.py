"""The cases that run every day hold every value, are few, and are the same in every process."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.sample import choose, values


@given(cases=st.lists(st.sets(st.integers(0, 9), max_size=4), max_size=30))
def test_no_value_is_lost(cases):
    chosen = choose(cases)
    assert set().union(*(cases[i] for i in chosen)) == set().union(*cases)
    assert len(chosen) == len(set(chosen)) <= len(set().union(*cases))


def test_a_table_needs_as_many_cases_as_its_longest_column():
    assert len(choose([set(row) for row in product("abc", "de", "fghi")])) == 4


def test_each_algorithm_of_each_library_comes_before_further_cases():
    names = "library", "algorithm", "case"
    cases = [values(dict(zip(names, row)), 40) for row in product("njt", "abcdef", range(100))]
    first = [cases[i] for i in choose(cases)[:60]]
    assert {*product("njt", "abcdef")} <= set().union(*first)


@pytest.mark.thin(3)
@pytest.mark.parametrize("many", range(9))
@pytest.mark.parametrize("few", "ab")
def test_here(few, many, request):
    """Of 18 cases nine hold every value; thin(3) leaves six of them, which come first. The night runs all."""
    runs = [item for item in request.session.items if getattr(item, "originalname", "") == "test_here"]
    if request.config.option.markexpr and not any(request.node.nodeid in arg for arg in request.config.args):
        assert len(runs) == 6
        assert {item.callspec.params["few"] for item in runs} == {"a", "b"}
