"""The oracle itself, against values worked out elsewhere."""

import numpy as np
import pytest

from tests.support import oracle


def test_threefry_gives_the_published_words():
    """The known answers that come with Random123, for zero, all ones and the digits of π."""
    assert oracle.threefry(0, 0, 0, 0) == 0x6B200159
    assert oracle.threefry(0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF) == 0x1CB996FC
    assert oracle.threefry(0x13198A2E, 0x03707344, 0x243F6A88, 0x85A308D3) == 0xC4923A9C
    assert oracle.threefry(7, 5, 3, 9) == 3241440516


def test_two_keys_by_hand():
    """Scores log 1 and log 3: weights 1/4 and 3/4."""
    query, key = np.array([[1.0]]), np.log([[1.0], [3.0]])
    out, lse, _ = oracle.attention(query, key, np.array([[0.0], [4.0]]))
    np.testing.assert_allclose(out, [[3.0]])
    np.testing.assert_allclose(lse, [np.log(4)])


def test_the_band_by_hand():
    """2 queries of 4 keys: query 0 stands over key 2."""
    seen = [[oracle.in_band(i, j, 2, 4, True, (1, None)) for j in range(4)] for i in range(2)]
    assert seen == [[False, True, True, False], [False, False, True, True]]


OPTIONS = {
    "plain": {},
    "causal": {"causal": True, "scale": -0.7},
    "window, rows that see nothing": {"window": (0, 1), "mask": np.array([[True], [False], [True]])},
    "bias, dropout": {"bias": np.array([[0.5, -np.inf, 1.0, 2.0, 0.0]]), "dropout": 0.4, "seed": 3},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_gradients_match_finite_differences(name):
    options, random = OPTIONS[name], np.random.default_rng(0)
    arrays = {"query": random.normal(size=(2, 3, 2)), "key": random.normal(size=(1, 5, 2))}
    arrays["value"] = random.normal(size=(1, 5, 3))
    arrays |= {"bias": options["bias"]} if "bias" in options else {}
    rest = {key: x for key, x in options.items() if key != "bias"}
    dout, dlse = random.normal(size=(2, 3, 3)), random.normal(size=(2, 3))

    def loss(**arrays):
        out, lse, _ = oracle.attention(**arrays, **rest)
        return np.sum(out * dout) + np.sum(np.where(np.isfinite(lse), lse, 0) * dlse)

    grads = oracle.gradients(**arrays, dout=dout, dlse=dlse, **rest)
    for key, x in arrays.items():
        numeric = difference(lambda moved, key=key: loss(**{**arrays, key: moved}), x)
        np.testing.assert_allclose(getattr(grads, key), numeric, atol=1e-7, err_msg=key)


def difference(function, x, step=1e-5):
    """Central differences of a number by every element of x."""
    grad = np.zeros(x.shape)
    for at in np.ndindex(*x.shape):
        if np.isfinite(x[at]):
            move = np.zeros(x.shape)
            move[at] = step
            grad[at] = (function(x + move) - function(x - move)) / (2 * step)
    return grad
