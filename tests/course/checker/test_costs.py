"""The instruments of the checkers: what a JAX program holds, which operations are done, what rounding loses."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from attnlab_course.checker import promises
from attnlab_course.checker.engine import examine
from attnlab_course.checker.exercise import Case, Cost, Exercise
from attnlab_course.checker.fingerprints import far_queries
from attnlab_course.checker.jaxprs import held_bytes, trace_program
from attnlab_course.checker.operations import done

X = np.arange(1.0, 65.0)
TILE = X.nbytes


def tiles_in_a_list(x):
    kept = [x * i for i in range(2, 10)]
    return sum(jnp.sum(tile) for tile in kept)


def tiles_one_by_one(x):
    return sum(jnp.sum(x * i) for i in range(2, 10))


@jax.jit
def squared(x):
    return jnp.sin(x) ** 2


def in_calls(x):
    return sum(jnp.sum(squared(x + i)) for i in range(8))


def in_a_loop(x):
    return jax.lax.scan(lambda total, i: (total + jnp.sum(x * i), x * i), 0.0, jnp.arange(8.0))


def repeated_for_a_product(x):
    return jnp.ones((2, 8)) @ x.reshape(8, 8) @ jnp.repeat(x[:8], 8).reshape(8, 8)


@pytest.mark.parametrize(("program", "tiles"), [
    (tiles_in_a_list, 8), (tiles_one_by_one, 1), (in_calls, 1), (in_a_loop, 1), (repeated_for_a_product, 1),
])  # fmt: skip
def test_an_array_of_jax_lives_until_its_last_use(program, tiles):
    assert tiles <= held_bytes(trace_program(program, (X,))) / TILE < tiles + 0.5


def test_what_autodiff_keeps_is_held_and_what_is_recomputed_is_not():
    def loss(x):
        return sum(jnp.sum(jnp.sin(x * i) ** 2) for i in range(8))

    def recomputed(x):
        return sum(jax.checkpoint(lambda x, i=i: jnp.sum(jnp.sin(x * i) ** 2))(x) for i in range(8))

    kept, again = (held_bytes(trace_program(f, (X,), (0,))) / TILE for f in (loss, recomputed))
    assert kept > 8
    assert again < 5


def test_what_is_repeated_is_held_no_longer_than_its_repetitions():
    """The row maxima of a tile are no use when the next tile comes."""

    def program(count):
        def tiles(x):
            top = jnp.full((64, 1), -jnp.inf)
            for i in range(count):
                top = jnp.maximum(top, (x[:, None] * x * i).max(1, keepdims=True))
            return top

        return held_bytes(trace_program(tiles, (X,)))

    assert program(16) == program(4)


@pytest.mark.parametrize("library", ["numpy", "torch", "jax"])
@pytest.mark.parametrize("inverse", [lambda x: 1 / x, lambda x: x**-1.0])
def test_divisions_by_computed_numbers_are_seen(inverse, library):
    seen = done(lambda x: inverse(x / x[3]) + x / 2.0, (X,), library)
    assert [(x.by, x.size) for x in seen if x.kind == "division" and x.by > 1] == [(64, 64)]
    assert not any(x.kind == "natural" for x in seen)


@pytest.mark.parametrize(("library", "exp"), [("numpy", np.exp), ("torch", torch.exp), ("jax", jnp.exp)])
def test_exponentials_in_base_e_are_seen(library, exp):
    assert any(x.kind == "natural" for x in done(lambda x: exp(x / 99) + 2.0**x, (X,), library))


@pytest.mark.parametrize(("library", "module"), [("numpy", np), ("torch", torch), ("jax", jnp)])
def test_a_logarithm_in_base_two_is_no_natural_one(library, module):
    """In JAX, log2 is a primitive since 0.12; before, it is two natural logarithms and a division."""

    def kinds(answer):
        return {x.kind for x in done(answer, (X,), library)}

    assert kinds(lambda x: module.log2(x) * math.log(2)) == {"other"}
    assert "natural" in kinds(lambda x: module.log(x) / math.log(2) + module.log2(x))


def test_loops_count_as_often_as_they_run():
    seen = done(lambda x: jax.lax.fori_loop(0, 7, lambda i, y: x / (y + 1), x), (X,), "jax")
    assert sum(x.kind == "division" for x in seen) == 7
    assert done(lambda x: jax.lax.while_loop(lambda y: y[0] < 9, lambda y: y * 2, x), (X,), "jax") is None
    assert {x.kind for x in done(lambda x: x * jnp.log(2), (X,), "jax")} == {"other"}  # a constant's logarithm
    assert done(lambda x: 1 / np.asarray(x), (X,), "numpy") is None  # what is hidden is not measured


def test_writing_into_new_arrays_is_seen():
    def answer(x):
        total = np.zeros(64)
        total += x
        return np.divide(1, total, out=np.empty(64), where=total > 2)

    assert [x.by for x in done(answer, (X,), "numpy") if x.kind == "division"] == [64]
    assert type(np.zeros(3)) is np.ndarray


@pytest.mark.parametrize(
    ("library", "exp"), [("numpy", np.exp), ("numpy", lambda k: np.exp(np.asarray(k))), ("jax", jnp.exp)]
)
def test_rounding_tells_a_fold_from_a_tree(library, exp):
    def fold(query, key, value, Ck):
        total = weights = 0.0
        for k, v in zip(key, value):
            total, weights = total + exp(k) * v, weights + exp(k)
        return (total / weights)[None]

    def tree(query, key, value, Ck):
        pairs = [(exp(k) * v, exp(k)) for k, v in zip(key, value)]
        while len(pairs) > 1:
            pairs = [(a[0] + b[0], a[1] + b[1]) for a, b in zip(pairs[::2], pairs[1::2])]
        return (pairs[0][0] / pairs[0][1])[None]

    assert promises.lost_in_rounding(fold, library) > 0.4
    assert promises.lost_in_rounding(tree, library) < 0.05


def test_far_scores_lie_where_they_should():
    rng = np.random.default_rng(0)
    found = far_queries(lambda q, k: (q @ k.T / 2,), rng.normal(size=(3, 4)), rng.normal(size=(5, 4)))
    assert [case.label[:4].strip(": ") for case in found] == ["LOW", "HIGH", "ROWS"]
    for case, level in zip(found, ([-1e5] * 3, [1e5] * 3, [0, 5e4, 1e5])):
        assert np.abs(case.args[0] - np.reshape(level, (3, 1))).max() < 10


def by_outer(x):
    small = x[:1]
    table = np.multiply.outer(x, x)
    return table.sum() + small.sum()


def by_rows(x):
    small = x[:1]
    table = [x * y for y in x]
    return np.sum(table[0]) + small.sum()


@pytest.mark.parametrize(("whole", "line"), [(by_outer, "np.multiply.outer(x, x)"), (by_rows, "[x * y for y in x]")])
def test_the_line_that_holds_the_peak_is_named(whole, line):
    measure = promises.peak(lambda n: (np.ones(n),), 1000, 1000)
    cost = Cost(measure, 2, "it held {found:.0f} times as much")
    exercise = Exercise("00", 1, whole, lambda: [Case("ONE: one", (np.ones(1),))], ("x",), (), (cost,))
    verdict = examine(exercise, whole)
    assert verdict.evidence == (f"Most is held in your line 3: table = {line}",)


def by_tenth(x):
    small = x[:1]
    table = x[::10] + 1
    return table.sum() + small.sum()


def test_large_inputs_do_not_hide_the_line_that_holds_the_peak():
    assert promises.line_of_peak(by_tenth, (np.ones(10**5),)) == "Most is held in your line 3: table = x[::10] + 1"


@pytest.mark.parametrize(("numbers", "state"), [([3, 1], "right"), ([1, 3], "right"), ([3, 3], "wrong")])
def test_a_cost_that_something_else_raised_once_is_measured_again(numbers, state):
    left = iter(numbers)
    cost = Cost(lambda f, library: next(left), 2, "it held {found:.0f}")
    exercise = Exercise("00", 1, by_rows, lambda: [Case("ONE: one", (np.ones(1),))], ("x",), (), (cost,))
    assert examine(exercise, by_rows).state == state
