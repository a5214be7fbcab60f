"""The cases of a test that ``make test`` runs: few that hold every value of each of its parameters, or most of them."""

from math import ceil
from zlib import crc32

import pytest


def choose(cases):
    """The indices of few sets that hold every element of all of them; those that bring most come first."""
    order, seen, chosen = [*range(len(cases))], set(), []
    for wanted in range(max(map(len, cases), default=0), 0, -1):
        for i in order:
            if len(cases[i] - seen) >= wanted:
                chosen.append(i)
                seen |= cases[i]
    return chosen


def values(params, n):
    """What a case holds: the value of each parameter; where only one in n runs, each algorithm of each library, too."""
    pair = {(params["library"], params["algorithm"])} if n > 1 and {"library", "algorithm"} <= {*params} else set()
    return {(name, repr(x)) for name, x in params.items()} | pair


def leave_to_the_night(items, n):
    """Mark cases of a test that needn't run every day as full: at most one in n stays."""
    items = sorted(items, key=lambda item: crc32(item.nodeid.encode()))  # in no order of their parameters
    chosen = choose([values(item.callspec.params, n) for item in items])
    for i in {*range(len(items))} - {*chosen[: ceil(len(items) / n)]}:
        items[i].add_marker(pytest.mark.full)
