"""Nothing that an honest function does brings the checker down: each case gives a clear message within seconds, leaves
nothing on stderr, and the next check works as if it had not been."""

import contextlib
import functools
import logging
import signal
import sys
import time
import tracemalloc
import warnings
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from attnlab_course import check
from attnlab_course.checker import outcome, sandbox
from attnlab_course.checker.engine import examine
from attnlab_course.checker.exercise import Case, Exercise, Stream

from tests.support import needs

AVERAGE = check.find("average")


def right(weights, values):
    return weights @ values / weights.sum()


def settings():
    """What an answer could leave behind."""
    return (
        np.geterr(),
        list(warnings.filters),
        sys.stdout,
        sys.stderr,
        sys.getrecursionlimit(),
        sys.gettrace(),
        sys.exc_info(),
        signal.getsignal(signal.SIGALRM),
        signal.getitimer(signal.ITIMER_REAL),
    )


def computes_however_busy(monkeypatch):
    """What computes without end is given the time for it, whatever else this machine does."""
    monkeypatch.setattr(sandbox, "PATIENCE", 300)


@pytest.fixture
def verdict_on(capfd, monkeypatch):
    """Examine an answer and see that it leaves no trace."""
    monkeypatch.setitem(outcome.SECONDS, "numpy", 0.4)
    computes_however_busy(monkeypatch)

    def run(answer):
        before = settings()
        verdict = examine(AVERAGE, answer)
        assert settings() == before
        assert capfd.readouterr() == ("", "")
        assert examine(AVERAGE, right).state == "right"
        assert len(verdict.text) < 2000
        assert verdict.html()
        return verdict

    return run


# functions that do not end


def endless(*args):
    while True:
        pass


def slow_to_end(weights, values):
    try:
        endless()
    finally:
        end = time.perf_counter() + 0.3
        while time.perf_counter() < end:
            pass


def big_power(weights, values):
    return 3 ** (10**7) % 2 * values[0]


def prints_without_end(weights, values):
    while True:
        print("still here", weights, flush=True)


# functions that catch what stops them


def recursion_that_catches(weights, values):
    """Two calls at each of a thousand levels."""
    try:
        return recursion_that_catches(weights, values)
    except:  # noqa: E722
        return recursion_that_catches(weights, values)


def deepest_call_that_catches(weights, values):
    """It stays where there is no room for a call."""
    while True:
        try:
            return deepest_call_that_catches(weights, values)
        except:  # noqa: E722
            pass


def recursion_by_a_library(weights, values):
    def key(_):
        try:
            return sorted("ab", key=key)
        except BaseException:
            return sorted("ab", key=key)

    return key(0)


def loop_that_catches(weights, values):
    while True:
        try:
            weights = weights + 1
        except BaseException as error:
            weights = weights * (error is not None)


def continued_in_finally(weights, values):
    while True:
        try:
            weights = weights + 1
        finally:
            continue  # noqa: B012


def suppressed(weights, values):
    while True:
        with contextlib.suppress(BaseException):
            while True:
                pass


def generator_that_catches(weights, values):
    def ones():
        while True:
            try:
                yield 1
            except GeneratorExit:
                raise
            except BaseException:
                pass

    while True:
        with contextlib.suppress(BaseException):
            sum(ones())


@pytest.mark.full
@pytest.mark.parametrize("answer", [
    recursion_that_catches, deepest_call_that_catches, recursion_by_a_library, loop_that_catches, continued_in_finally,
    suppressed, generator_that_catches,
])  # fmt: skip
def test_what_catches_everything_is_stopped(verdict_on, answer):
    assert "stopped after" in verdict_on(answer).text


@pytest.mark.thin(2)
@pytest.mark.parametrize("answer", [endless, slow_to_end, prints_without_end, big_power])
def test_stopped(verdict_on, answer):
    verdict = verdict_on(answer)
    assert verdict.state == "wrong"
    assert "stopped after" in verdict.text
    assert ("Is there a loop" in verdict.text) == (answer is not big_power)


def test_time_is_for_all_inputs_together(verdict_on):
    def average(weights, values):
        end = time.process_time() + 0.25
        while time.process_time() < end:
            pass
        return right(weights, values)

    assert "stopped after" in verdict_on(average).text


def by_loop(weights, values, step=1):
    def add(state):
        i, total = state
        return i + step, total + weights[i] * values[i]

    start = 0, jnp.zeros_like(values[0])
    return jax.lax.while_loop(lambda state: state[0] < len(values), add, start)[1] / weights.sum()


def loops_in_jax(weights, values):
    return by_loop(weights, values, step=0)


def test_a_loop_of_jax_that_is_not_seen_to_end_never_runs_here(monkeypatch):
    monkeypatch.setitem(outcome.SECONDS, "jax", 0.05)
    monkeypatch.setattr(sandbox.Watch, "computed", lambda self: 0.0)
    assert examine(AVERAGE, loops_in_jax).state == "not checked"


@pytest.mark.full
def test_a_loop_of_jax_is_stopped(monkeypatch):
    assert examine(AVERAGE, by_loop).state == "right"
    computes_however_busy(monkeypatch)
    monkeypatch.setitem(outcome.SECONDS, "jax", 1)
    assert "stopped after" in examine(AVERAGE, loops_in_jax).text


# functions that raise


def recursion(weights, values):
    return recursion(weights, values)


def exits(weights, values):
    sys.exit(3)


class Base(BaseException):
    pass


class Silent(Exception):
    def __str__(self):
        raise ValueError("no words")


class Wordy(Exception):
    def __init__(self):
        super().__init__("word " * 10_000)


def raising(error):
    def average(weights, values):
        raise error

    return average


@pytest.mark.parametrize(("answer", "words"), [
    (recursion, "RecursionError"),
    (exits, "SystemExit"),
    (raising(Base("mine")), "Base: mine"),
    (raising(StopIteration(3)), "StopIteration: 3"),
    (raising(Silent()), "Silent"),
    (raising(Wordy()), "Wordy: word word"),
    (raising(ExceptionGroup("two", [ValueError("a"), KeyError("b")])), "two (2 sub-exceptions)"),
    (raising(KeyError("<b>")), "KeyError: '<b>'"),
    (lambda weights, values: undefined, "NameError: name 'undefined' is not defined"),  # noqa: F821
    (lambda weights, values: np.ones(10**15), "Unable to allocate"),
    (lambda weights: weights, "takes 1 positional argument but 2 were given"),
    (lambda *, weights, values: 1, "takes 0 positional arguments but 2 were given"),
])
def test_error_is_told(verdict_on, answer, words):
    verdict = verdict_on(answer)
    assert verdict.state == "wrong"
    assert words in " ".join(verdict.text.split())


def test_interrupt_of_the_user_is_not_caught():
    with pytest.raises(KeyboardInterrupt):
        examine(AVERAGE, raising(KeyboardInterrupt()))
    assert examine(AVERAGE, right).state == "right"


def test_error_in_an_answer_that_ours_calls():
    """The answer is called from a function of the exercise: the learner's line is shown, not that."""

    def next_capacity(length):
        raise ValueError("no idea")

    verdict = examine(check.find("next_capacity"), next_capacity)
    assert "ValueError: no idea" in verdict.text
    assert "in your line 2: raise ValueError" in verdict.text
    assert "answer(" not in verdict.text


def test_error_in_what_judges_shows_none_of_our_lines():
    def judge(case, got):
        return secret(got)

    def secret(got):
        return got["secret"]

    verdict = examine(replace(AVERAGE, judge=judge), right)
    assert "IndexError" in verdict.text
    assert "secret" not in verdict.text


def test_error_in_a_function_of_the_learners(verdict_on):
    def average(weights, values):
        return helper(weights) @ values if len(weights) == 5 else right(weights, values)

    said = " ".join(verdict_on(average).text.split())
    assert "ValueError: no in helper, line 2: raise" in said
    assert "five random rows" in said


def helper(weights):
    raise ValueError("no")


# results that are no array of numbers


class Poisonous:
    """Every question is answered with an error."""

    def refuses(self, *args, **kwargs):
        raise RuntimeError("no")

    __getattr__ = __array__ = __eq__ = __len__ = __bool__ = __repr__ = refuses
    __hash__ = None


def generator(weights, values):
    yield weights @ values


async def coroutine(weights, values):
    return weights @ values


def returning(result):
    return lambda weights, values: result


NESTED = []
NESTED.append(NESTED)


@pytest.mark.parametrize(("answer", "words"), [
    (returning(None), "returned None; is a return missing?"),
    (lambda weights, values: print("hello"), "returned None; is a return missing? It printed: hello"),
    (returning({"a": 1}), "a dict that is not an array of numbers"),
    (returning([[1.0], [1.0, 2.0]]), "a list that is not an array of numbers"),
    (returning(NESTED), "a list that is not an array of numbers"),
    (returning(right), "a function that is not an array of numbers"),
    (returning(Poisonous()), "a Poisonous that is not an array of numbers"),
    (returning(10**400), "an int that is not an array of numbers"),
    (returning(range(2)), "expected shape (1,), got (2,)"),
    (returning((1.0, 2.0)), "expected one result, got a tuple of 2"),
    (returning(np.array([np.nan])), "got [nan]"),
    (returning(np.ma.masked_all(1)), "average: not right yet."),
    (generator, "a generator"),
    (coroutine, "is async"),
    (lambda weights, values: np.zeros((30_000, 30_000)), "expected shape (1,), got (30000, 30000)"),
])
def test_result_is_named(verdict_on, answer, words):
    verdict = verdict_on(answer)
    assert verdict.state == "wrong"
    assert words in " ".join(verdict.text.split())


# functions that touch what is not theirs


def warns(weights, values):
    warnings.warn("careful", stacklevel=1)
    logging.getLogger("attnlab.learner").warning("careful")
    np.zeros(1) / np.zeros(1)
    np.exp(np.float32(1000))
    return right(weights, values)


def changes_settings(weights, values):
    np.seterr(all="raise")
    warnings.simplefilter("error")
    return right(weights, values)


def replaces_stdout(weights, values):
    sys.stdout = sys.stderr = None
    return right(weights, values)


def closes_stdout(weights, values):
    sys.stdout.close()
    return right(weights, values)


def uses_stdout(weights, values):
    sys.stdout.flush()
    assert not sys.stdout.isatty()
    sys.stdout.writelines(["a", "b"])
    print(sys.stdout.encoding, "ä", end="")
    print("to stderr", file=sys.stderr)
    return right(weights, values)


@pytest.mark.parametrize("answer", [warns, changes_settings, replaces_stdout, closes_stdout, uses_stdout])
def test_right_all_the_same(verdict_on, answer):
    verdict = verdict_on(answer)
    assert verdict.state == "right", verdict.text


def test_what_was_printed_is_shown_if_the_answer_is_wrong(verdict_on):
    def average(weights, values):
        print("weights are", weights)
        return weights[0]

    assert "It printed: weights are [1. 2.]" in verdict_on(average).text


def in_place(weights, values):
    weights /= weights.sum()
    return weights @ values


def in_place_and_back(weights, values):
    values *= 2
    result = right(weights, values)
    values /= 2
    return result / 2


def renames(weights, values):
    weights = weights / weights.sum()
    return weights @ values


def reshapes(weights, values):
    result = right(weights, values)
    values.resize((0, 0), refcheck=False)
    return result


@pytest.mark.parametrize(
    ("answer", "fine"), [(in_place, False), (reshapes, False), (in_place_and_back, True), (renames, True)]
)
def test_inputs_are_to_stay(verdict_on, answer, fine):
    verdict = verdict_on(answer)
    assert verdict.state == ("right" if fine else "wrong")
    assert ("changes its inputs" in verdict.text) is not fine


def test_an_input_that_may_be_written_to():
    def fill(kept, t):
        kept[t] = 1.0
        return kept

    def fill_all(kept, t):
        t[:] = kept[:] = 1.0
        return kept

    case = Case("", (np.zeros(3), np.array([2])))
    exercise = Exercise(lesson="00", stars=1, reference=fill, cases=lambda: [case], hints=(), writes=(0,))
    assert examine(exercise, fill).state == "right"
    assert "changes its inputs" in examine(exercise, fill_all).text
    assert not case.args[0].any()


# callables of every kind


class Callable:
    """An object to call, which looks like functools.partial."""

    func = None

    def __call__(self, weights, values):
        return right(weights, values)

    method = __call__

    @staticmethod
    def static(weights, values):
        return right(weights, values)


class Array(np.ndarray):
    """A class whose instances are results."""

    def __new__(cls, weights, values):
        return np.asarray(right(weights, values)).view(cls)


def wraps_itself(weights, values):
    return right(weights, values)


wraps_itself.__wrapped__ = wraps_itself


def with_hole():
    def average(weights, values):
        return later(weights, values) if len(weights) < 1000 else hole(weights, values)

    def later(weights, values):
        return right(weights, values)

    if len(sys.argv) < 0:
        hole = later
    return average


@pytest.mark.parametrize("answer", [
    functools.partial(lambda extra, weights, values: right(weights, values), None),
    Callable(),
    Callable().method,
    Callable.static,
    Array,
    functools.wraps(right)(lambda *args: right(*args)),
    wraps_itself,
    with_hole(),
    lambda weights, values, *, axis=0: right(weights, values),
])
def test_any_callable(verdict_on, answer):
    verdict = verdict_on(answer)
    assert verdict.state == "right", verdict.text


@pytest.mark.parametrize("answer", [len, np.matmul, str.join, Callable, type])
def test_wrong_callable_is_told(verdict_on, answer):
    assert verdict_on(answer).state == "wrong"


@pytest.mark.parametrize("wrap", [functools.partial, functools.lru_cache])
def test_a_kernel_that_is_no_function_is_told(wrap):
    needs("triton")
    exercise = check.find("softmax_kernel")
    assert "a kernel is a function" in examine(exercise, wrap(exercise.reference)).text


# costs, streams, gradients


NAIVE = check.find("naive_attention")


def at_large_sizes(what):
    def naive_attention(query, key, value, causal):
        if query.size > 10_000:
            what()
        return NAIVE.reference(query, key, value, causal)

    return naive_attention


@pytest.mark.thin(3)
@pytest.mark.parametrize(("what", "words"), [
    (endless, "Its cost could not be measured: it was stopped after"),
    (lambda: 1 / 0, "Its cost could not be measured: ZeroDivisionError: division by zero in <lambda>, line 1: "),
    (lambda: np.ones(2_000_000), "too expensive"),
])
def test_trouble_at_large_sizes_only(capfd, monkeypatch, what, words):
    monkeypatch.setitem(outcome.SECONDS, "numpy", 1.0)
    computes_however_busy(monkeypatch)
    verdict = examine(NAIVE, at_large_sizes(what))
    assert verdict.state == "wrong"
    assert words in " ".join(verdict.text.split())
    assert not tracemalloc.is_tracing()
    assert examine(NAIVE, NAIVE.reference).state == "right"
    assert capfd.readouterr() == ("", "")


def test_a_cost_that_cannot_be_traced_is_not_measured():
    def in_jax(q, pairs):
        out, lse = online.reference(q, pairs)
        return jnp.asarray(out), lse

    online = check.find("online_row")
    verdict = examine(online, in_jax)
    assert verdict.state == "right", verdict.text
    assert verdict.headline.endswith("(JAX); its cost is not measured in JAX.")


def total(stream):
    """The sum of a stream."""
    return sum(stream)


THREE = Case("three numbers", (Stream(lambda: iter([1.0, 2.0, 3.0])),))
STREAM = Exercise("00", 1, total, lambda: [THREE], ("Add.",))


@pytest.mark.parametrize(("answer", "words"), [
    (lambda stream: sum(list(stream)), "right"),
    (lambda stream: sum(stream) / sum(1 for _ in stream), "reads the stream a second time"),
    (lambda stream: sum(next(stream) for _ in range(3)), "right"),
    (lambda stream: sum(next(stream) for _ in range(2)), "expected 6"),
    (lambda stream: sum(next(stream) for _ in range(4)), "RuntimeError: generator raised StopIteration"),
])
def test_stream(capfd, answer, words):
    assert words in " ".join(examine(STREAM, answer).text.split())
    assert examine(STREAM, total).state == "right"
    assert capfd.readouterr() == ("", "")


def square(x):
    """The square."""
    return torch.square(x)


def squares():
    return [Case("one number", (np.array(3.0),)), Case("HIGH: two", (np.array([2.0, 1e3]),))]


SQUARE = Exercise(lesson="00", stars=1, reference=square, cases=squares, hints=("x",), gradients=(0,), library="torch")


@pytest.mark.parametrize(("answer", "words"), [
    (lambda x: x * x, "right, on 2 inputs."),
    (lambda x: jnp.square(x), "right, on 2 inputs (JAX)."),
    (lambda x: torch.square(x).detach(), "gradient of x: expected 0.7544 got 0. No gradient arrives"),
    (lambda x: jax.lax.stop_gradient(x) ** 2, "gradient of x: expected 0.7544 got 0. No gradient arrives"),
    (lambda x: np.square(x), "NumPy has no gradients: write this answer in PyTorch or JAX."),
    (lambda x: torch.tensor(x.tolist()) ** 2, "gradient of x: expected 0.7544 got 0. No gradient arrives"),
    (lambda x: x.add_(1) * x, "a leaf Variable that requires grad"),
    (lambda x: jnp.float64(float(x)) ** 2, "ConcretizationTypeError"),
])
def test_gradients(capfd, answer, words):
    assert words in " ".join(examine(SQUARE, answer).text.split())
    assert capfd.readouterr() == ("", "")
    assert examine(SQUARE, square).state == "right"


def test_callable_without_a_name(capsys):
    answer = functools.partial(right)
    check.answer(answer, "average")
    assert capsys.readouterr().out == f"average: right, on {len(check.find('average').cases())} inputs.  ✓ ★\n"
    with pytest.raises(TypeError, match="say which exercise it answers"):
        check.answer(answer)


@pytest.mark.parametrize("x", [np.array(3.0), np.arange(4.0)[::-1], np.ones((2, 0)), np.arange(6.0).reshape(2, 3).T])
@pytest.mark.parametrize("answer", [lambda x: x * x, lambda x: jnp.square(x), square])
def test_inputs_of_every_layout_arrive(x, answer):
    plain = replace(SQUARE, cases=lambda: [Case("an array", (x,))], gradients=(), library="numpy", reference=np.square)
    assert examine(plain, answer).state == "right"


