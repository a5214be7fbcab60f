"""Functions of a notebook are compiled in a process of their own."""

import pytest
from attnlab_course.instruments.planned import printed_by_a_process


def double(n):
    return 2 * n


@pytest.mark.full
def test_functions_travel_as_text():
    calls = "print(double(21))", "planned_bytes(lambda *x: double(x[0]) @ x[1].T, [64])"
    doubled, planned = printed_by_a_process([double], *calls)
    assert doubled == 42
    assert planned > 64 * 64
    with pytest.raises(RuntimeError, match="ended with 3"):
        [*printed_by_a_process([], "sys.exit(3)")]
