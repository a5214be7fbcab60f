"""Right answers pass in styles that one might not expect: as learners write them from the statement alone."""

import itertools
import math
import types
import warnings
from fractions import Fraction

import numpy as np
import pytest
import torch
from attnlab_course import check
from attnlab_course.checker.engine import examine
from attnlab_course.checker.exercise import Case, Exercise, but
from attnlab_course.checker.library import named_library
from attnlab_course.instruments.machine import Machine
from attnlab_course.lessons.lesson09.exercises.flash_forward import flash_forward

# ufunc keywords on machine tiles


flash_with_guard = but(
    "/ l_new[:, None]  # eq. 8.4",
    "\n            o_new = np.divide(o_new, l_new[:, None], out=0 * o_new, where=l_new[:, None] > 0)",
).apply(flash_forward)


def test_ufunc_keywords_on_a_tile():
    machine = Machine()
    t = machine.load(machine.put("x", np.arange(6.0).reshape(2, 3)))
    assert t.sum(where=t > 2) == 12
    assert t.max(where=t < 3, initial=0) == 2
    assert [x.tolist() for x in np.divmod(t, 4)] == [[[0, 0, 0], [0, 1, 1]], [[0, 1, 2], [3, 0, 1]]]
    np.log(t, out=t, where=t > 1)
    np.add.at(t, (0, 0), 1)
    assert t[0].tolist() == [1, 1, math.log(2)]
    assert machine.work.exponentials == 6


# streams


def stats_by_next(stream):
    m = next(stream, -math.inf)
    l = 1.0 if m > -math.inf else 0.0
    for x in stream:
        new = max(m, x)
        if new > -math.inf:
            l = l * math.exp(m - new) + math.exp(x - new)
        m = new
    return m, l


def row_by_islice(q, pairs):
    l = o = 0.0
    while block := list(itertools.islice(pairs, 16)):
        k, v = (np.array(x) for x in zip(*block))
        e = np.exp(k @ q / len(q) ** 0.5)
        l, o = l + e.sum(), o + e @ v
    return o / l


# lists, exact numbers, no rows, and a value returned besides writing


def step_as_list(O, l, m, s, v):
    m_new = np.maximum(m, s.max(1))
    shift = np.where(m_new == -np.inf, 0, m_new)
    old, p = np.exp(m - shift) * l, np.exp(s - shift[:, None])
    l_new = old + p.sum(1)
    return [(old[:, None] * O + p @ v) / np.where(l_new == 0, 1, l_new)[:, None], l_new, m_new]


def visible_by_lists(n, m, causal, window):
    a, b = window or (n + m, n + m)
    b = min(b, 0) if causal else b
    return [[-a <= j - (i + m - n) <= b for j in range(m)] for i in range(n)]


def counted_and_returned(x, out):
    check.find("safe_softmax_counted").reference(x, out)
    return sum(out.values())


def exactly(*args):
    return Fraction(check.find("best_chunk").reference(*args))


# PyTorch, where nothing says so


def row_by_methods(q, keys, values):
    return (keys @ q / len(q) ** 0.5).softmax(0) @ values


@torch.no_grad()
def row_without_gradients(q, keys, values):
    return row_by_methods(q, keys, values)


def row_annotated(q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor):
    return row_by_methods(q, keys, values)


def row_scripted(q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor):
    return (keys @ q / len(q) ** 0.5).softmax(0) @ values


MINE = types.ModuleType("my_helpers")  # a learner's own, which is imported no longer
exec("import torch\n\ndef soft(x):\n    return torch.softmax(x, 0)\n", vars(MINE))
soft = MINE.soft


def scripted(function):
    """Compiled by a way of old that learners still find."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(function)


@pytest.mark.parametrize(("name", "answer"), [
    ("flash_forward", flash_with_guard),
    ("online_stats", stats_by_next),
    ("lazy_row", row_by_islice),
    ("tile_step", step_as_list),
    ("visible_mask", visible_by_lists),
    ("safe_softmax_counted", counted_and_returned),
    ("best_chunk", exactly),
    ("attention_row", row_by_methods),
    ("attention_row", row_without_gradients),
    ("attention_row", row_annotated),
    ("attention_row", lambda q, keys, values: soft(keys @ q / len(q) ** 0.5) @ values),
    ("attention_row", scripted(row_scripted)),
])
def test_right_in_another_style(name, answer):
    verdict = examine(check.find(name), answer)
    assert verdict.state == "right", verdict.text


def test_a_compiled_function_is_not_compiled_while_checking():
    """A cold cache takes longer than a check may; what is compiled is the same function."""
    traced = []

    def backend(module, inputs):
        traced.append(module)
        return module.forward

    compiled = torch.compile(row_annotated, backend=backend)
    assert examine(check.find("attention_row"), compiled).state == "right"
    assert traced == []
    assert torch.compile(torch.sin, backend=backend)(torch.ones(2)).shape == (2,)
    assert traced != []


@pytest.mark.parametrize("answer", [scripted(row_scripted), torch.nn.Softmax(-1), torch.no_grad()(len)])
def test_library_of_what_is_no_plain_function(answer):
    assert named_library(answer) == "torch"


def test_annotations_that_name_what_there_is_not():
    """Python 3.14 looks their names up when somebody asks, where it did so at the def."""

    class Unknown(dict):
        def values(self):
            raise NameError("name 'Tensor' is not defined")

    def online_stats(stream):
        x = torch.stack([torch.as_tensor(x) for x in stream] or [torch.tensor(-torch.inf)])
        return float(x.max()), float(torch.exp(x - x.max()).nan_to_num(0.0).sum())

    online_stats.__annotations__ = Unknown()
    assert named_library(online_stats) == "torch"
    assert "NameError" not in examine(check.find("online_stats"), online_stats).text


def double(x):
    """Twice x."""
    return 2 * x


def test_one_thread_while_checking():
    """The threads of PyTorch spin while they wait, which is no computing of the answer's."""
    threads = torch.get_num_threads()
    seen = []
    case = Case("a vector", (np.ones(2),))

    def answer(x):
        seen.append(torch.get_num_threads())
        return 2 * x

    assert examine(Exercise("00", 1, double, lambda: [case], ("x",)), answer).state == "right"
    assert set(seen) == {1}
    assert torch.get_num_threads() == threads
