"""The inputs that exercises share are what their labels say, and new ones for each answer."""

import numpy as np
from attnlab_course.checker.inputs import SCORES, qkv, score_rows


def test_rows_of_scores_are_what_their_labels_say():
    rising = {kind: [np.diff(x) for label, x in SCORES.items() if label.startswith(kind)] for kind in ("UP", "DOWN")}
    assert all((steps > 0).all() for steps in rising["UP"])
    assert all((steps < 0).all() for steps in rising["DOWN"])
    assert all(max(x) < -1e4 for label, x in SCORES.items() if label.startswith("LOW"))
    assert all(-np.inf in x for label, x in SCORES.items() if label.startswith("EMPTY"))
    assert [len(x) for label, x in SCORES.items() if label.startswith("ONE")] == [1]
    found = score_rows(lambda scores: (scores, 2), "UP", "DOWN", about="; k = 2")
    assert [case.label for case in found] == ["UP: the scores 0, 1, 2; k = 2", "DOWN: the scores 2, 1, 0; k = 2"]
    assert [case.args for case in found] == [([0.0, 1.0, 2.0], 2), ([2.0, 1.0, 0.0], 2)]


def test_queries_keys_and_values():
    assert [x.shape for x in qkv(2, 3, 5, 4)] == [(2, 5), (3, 5), (3, 4)]
    assert [x.shape for x in qkv(2, 3, heads=(6,))] == [(6, 2, 4), (6, 3, 4), (6, 3, 3)]
    *_, v = qkv(2, 3, dv=0, heads=(6,))
    assert np.array_equal(v[5], np.eye(3))
    v[0] = 0  # an array of its own
    assert np.array_equal(v[5], np.eye(3))
    assert not np.array_equal(qkv(2, 3)[0], qkv(2, 4)[0])

