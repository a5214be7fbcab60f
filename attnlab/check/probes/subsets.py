"""Arguments with some keys only, or some items of a stream, or with keys that are invented or read twice."""

from collections.abc import Callable, Iterator
from typing import Any

from attnlab.check.exercise import Stream

import numpy as np

PAIRED = ({"key", "value"}, {"keys", "values"}, {"k", "v"}, {"K", "V"})
CHOICES: dict[str, Callable[[int], list[int]]] = {
    "all {one}s but the last": lambda m: [*range(m - 1)],
    "all {one}s but the first": lambda m: [*range(1, m)],
    "the first {one} alone": lambda m: [0],
    "the last {one} alone": lambda m: [m - 1],
    "the first {one} read twice": lambda m: [0, *range(m)],
    "the last {one} read twice": lambda m: [*range(m), m - 1],
}
CHUNKS: dict[str, Callable[[int, int], list[int]]] = {
    "the first `{size}` keys alone": lambda m, size: [*range(min(size, m))],
    "whole chunks of `{size}` keys, without the rest": lambda m, size: [*range(m // size * size)],
    "a last chunk of `{size}` keys that begins earlier, so that some are read twice": lambda m, size: [
        min(start, max(m - size, 0)) + j for start in range(0, m, size) for j in range(min(size, m))
    ],
    "zeros for keys and values at the end, up to a whole chunk of `{size}`": lambda m, size: [
        j if j < m else -1 for j in range(m + -m % size)
    ],
}


def subsets(names: list[str], first: tuple) -> Iterator[tuple[str, Callable[[tuple], dict[int, Any]]]]:
    """Ways of choosing items of each stream, or keys; an index of -1 stands for zeros."""
    streams = [i for i, x in enumerate(first) if isinstance(x, Stream)]
    paired = next(([names.index(name) for name in pair] for pair in PAIRED if pair <= set(names)), [])
    if streams:
        for said, choice in CHOICES.items():
            yield said.format(one="item"), lambda args, c=choice: {i: _items(args[i], c) for i in streams}
    elif paired and all(isinstance(first[i], np.ndarray) and first[i].ndim == 2 for i in paired):
        for said, choice in CHOICES.items():
            yield said.format(one="key"), lambda args, c=choice: _keys(args, paired, c)
        for j, x in enumerate(first):
            for said, chunks in CHUNKS.items() if type(x) is int and x > 0 else ():
                yield said.format(size=names[j]), lambda args, j=j, c=chunks: _keys(
                    args, paired, lambda m: c(m, args[j])
                )


def _items(stream: Stream, choice: Callable[[int], list[int]]) -> Stream:
    """Some items of a stream."""
    items = list(stream.make())
    return Stream(lambda: iter([items[j] for j in choice(len(items))]))


def _keys(args: tuple, paired: list[int], choice: Callable[[int], list[int]]) -> dict[int, Any]:
    """The rows of keys and values that are chosen, and the columns of each mask, which hides no zeros."""
    length = len(args[paired[0]])
    chosen = np.array(choice(length), int)
    rows = {i: np.where(chosen[:, None] < 0, 0, args[i][chosen]) for i in paired}
    masks = {i: x for i, x in enumerate(args) if isinstance(x, np.ndarray) and x.dtype == bool}
    return rows | {i: x[..., chosen] | (chosen < 0) for i, x in masks.items() if x.shape[-1:] == (length,)}
