"""Beam search: the likeliest continuations, found a token at a time, on shared blocks."""

from collections.abc import Sequence as Many

from attnlab.paged import BlockManager
from attnlab_course.serve.request import Request, Sequence

import numpy as np


def best_continuations(scores: Many[float], rows: Many[np.ndarray], beams: int) -> list[tuple[int, int, float]]:
    """The ``beams`` likeliest ways to go on, the likeliest first, as (beam, token, score): at most beams · V.

    ``scores``: the logarithm of each beam's probability so far; ``rows`` (V,): log-probabilities of its next token. Of
    equal scores the earlier beam's comes first, then the smaller token.
    """
    total = np.asarray(scores)[:, None] + np.asarray(rows)
    order = np.argsort(-total, axis=None, kind="stable")[:beams]
    return [(*map(int, divmod(i, total.shape[1])), float(total.flat[i])) for i in order]


def branch(request: Request, manager: BlockManager) -> list[int]:
    """Exchange the beams of a request, whose rows are known, for the best ways to go on; returns their new tokens.

    A child shares its parent's blocks, and is without where its parent has lost them; then all parents end.
    """
    parents, tokens = request.sequences, []
    request.sequences = []
    scores, rows = [one.score for one in parents], [one.row for one in parents]
    for beam, token, score in best_continuations(scores, rows, request.beams):
        parent = parents[beam]
        child = Sequence(request, len(tokens), list(parent.tokens), list(parent.moments), score)
        if parent in manager:
            manager.fork(parent, child)
        request.sequences.append(child)
        tokens.append(token)
    for parent in parents:
        if parent in manager:
            manager.free(parent)
    return tokens
