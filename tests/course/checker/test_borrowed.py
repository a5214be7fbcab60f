"""Answers that leave the task to a library: refused if they are to be one's own, mentioned otherwise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from attnlab_course import check
from attnlab_course.checker.engine import examine
from scipy import special

import attnlab

ALIASES = [torch.nn.functional.scaled_dot_product_attention]  # which hide nothing


def by_torch(q: torch.Tensor, keys, values):
    return ALIASES[0](q[None, None], keys[None], values[None])[0, 0]


def softmax_by_torch(x):
    hidden = (x == -torch.inf).all(-1, keepdim=True)
    return x.masked_fill(hidden, 0).softmax(-1).masked_fill(hidden, 0)


def softmax_by_jax(x):
    hidden = (x == -jnp.inf).all(-1, keepdims=True)
    x, dtype = x.astype(jnp.promote_types(x.dtype, jnp.float32)), x.dtype  # whose sum 65,520 fits
    return jnp.where(hidden, 0, jax.nn.softmax(jnp.where(hidden, 0, x))).astype(dtype)


def softmax_by_scipy(x):
    hidden = (x == -np.inf).all(-1, keepdims=True)
    x, dtype = x.astype(np.promote_types(x.dtype, np.float32)), x.dtype
    return np.where(hidden, 0, special.softmax(np.where(hidden, 0, x), axis=-1)).astype(dtype)


def softmax_by_attnlab(x):
    return attnlab.safe_softmax(x)


def masked_by_jax(x, mask):
    return jax.nn.softmax(jnp.where(mask, x, 0), where=mask)  # all of the exercise


def gradient_by_torch(q, k, v, dout):
    inputs = [x.requires_grad_() for x in (q, k, v)]
    return torch.autograd.grad(torch.softmax(q @ k.T / q.shape[-1] ** 0.5, -1) @ v, inputs, dout)


def gradient_by_jax(q, k, v, dout):
    return jax.vjp(lambda q, k, v: jax.nn.softmax(q @ k.T / q.shape[-1] ** 0.5) @ v, q, k, v)[1](dout)


BORROWED = [
    ("attention_row", by_torch, "torch's scaled_dot_product_attention"),
    ("attention_row", lambda *args: check.find("attention_row").reference(*args), "attnlab_course's attention_row"),
    ("safe_softmax", softmax_by_torch, "torch's softmax"),
    ("safe_softmax", softmax_by_jax, "jax's softmax"),
    ("safe_softmax", softmax_by_scipy, "scipy's softmax"),
    ("safe_softmax", softmax_by_attnlab, "attnlab's safe_softmax"),
    ("masked_softmax", masked_by_jax, "jax's softmax"),
    ("attention_backward", gradient_by_torch, "torch's grad"),
    ("attention_backward", gradient_by_jax, "jax's vjp"),
]


DEAR = (masked_by_jax, gradient_by_jax)  # which compile for every input


@pytest.mark.thin(3)
@pytest.mark.parametrize(("name", "answer", "words"), [
    pytest.param(*row, marks=pytest.mark.full if row[1] in DEAR else ()) for row in BORROWED
])  # fmt: skip
def test_refused_if_it_is_to_be_ones_own(name, answer, words):
    assert examine(check.find(name), answer).state == "right"  # and what JAX has compiled by now is found all the same
    verdict = examine(check.find(name), answer, own=True)
    assert verdict.state == "wrong"
    assert verdict.headline == f"{name}: right, but not your own."
    assert f"It calls {words}" in verdict.diagnosis


@pytest.mark.parametrize(("name", "answer", "words"), [
    BORROWED[5], pytest.param(*BORROWED[-1], marks=pytest.mark.full),
])  # fmt: skip
def test_mentioned_otherwise(name, answer, words):
    verdict = examine(check.find(name), answer)
    assert verdict.state == "right"
    assert verdict.headline.endswith(f"It calls {words}, where you could write your own.")


def softmax(s):
    return torch.exp(s - s.max()) / torch.exp(s - s.max()).sum()


@pytest.mark.parametrize(("name", "answer"), [
    ("attention_row", lambda q, keys, values: torch.softmax(keys @ q / len(q) ** 0.5, 0) @ values),
    ("attention_row", lambda q, keys, values: softmax(keys @ q / len(q) ** 0.5) @ values),
    ("chunked_loss", check.find("chunked_loss").reference),
    ("flash_forward", check.find("flash_forward").reference),
])
def test_what_the_exercise_does_not_ask_for_may_be_called(name, answer):
    """Softmax in an exercise on attention, a function of one's own, the counting machine."""
    assert examine(check.find(name), answer, own=True).state == "right"


def test_under_nbgrader_it_is_the_default(monkeypatch, capsys):
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    with pytest.raises(AssertionError, match="right, but not your own"):
        check.answer(softmax_by_attnlab, "safe_softmax")
    check.answer(softmax_by_attnlab, "safe_softmax", own=False)
    monkeypatch.delenv("NBGRADER_EXECUTION")
    check.answer(softmax_by_attnlab, "safe_softmax")
    check.answer(softmax_by_attnlab, "safe_softmax", own=True)
    said = capsys.readouterr().out.splitlines()
    assert [line for line in said if line.startswith("safe_softmax: right, but")] == 2 * [said[0]]
