"""What an exercise is: one small file holds the reference, the inputs, the mistakes, the costs and the hints."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

Function = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """One input: arguments, and what is special about them in the words of the course.

    Write arrays in NumPy, whatever library the answer is in; what can be read once is a :class:`Stream`.
    """

    label: str
    args: tuple


class Stream:
    """Items that flow by once, in order. ``make`` is called anew for each answer and yields them."""

    def __init__(self, make: Callable[[], Iterable]) -> None:
        self.make = make
        self.items: Iterator | None = None
        self.ended = self.again = False

    def __iter__(self) -> "Stream":
        self.again |= self.ended
        return self

    def __next__(self) -> Any:
        self.items = iter(self.make()) if self.items is None else self.items
        try:
            return next(self.items)
        except StopIteration:
            self.ended = True
            raise


@dataclass(frozen=True)
class Mistake:
    """A misconception: what to say of it, and the wrong implementations that have it.

    Wrong implementations that no output can tell apart share one mistake. One that returns right values
    and costs too much is a mistake as well.
    """

    say: str
    wrong: tuple[Function, ...]

    def __init__(self, say: str, *wrong: Function) -> None:
        object.__setattr__(self, "say", say)
        object.__setattr__(self, "wrong", wrong)


@dataclass(frozen=True)
class Cost:
    """A promise about what an answer costs.

    ``measure(answer, library)`` returns a number, which must not exceed ``limit``; ``say`` explains a
    larger one, with ``{found:.1f}`` and ``{limit}`` to fill in. Measured only where all values are right.
    """

    measure: Callable[[Function, str], float]
    limit: float | int
    say: str


@dataclass(frozen=True)
class Exercise:
    """One exercise.

    ``reference``   the right answer; its name is the exercise's, its docstring the statement
    ``cases``       makes the inputs, smallest first
    ``mistakes``    the catalogue of misconceptions
    ``costs``       what the answer may cost
    ``hints``       graded, from a nudge to nearly the solution
    ``gradients``   positions of the arguments by which derivatives are compared, too
    ``library``     of an answer that names none; with gradients it is "torch" or "jax"
    ``dtype``       whether the result's dtype must be the reference's
    ``judge``       for an exercise with many right answers: judge(case, got) says what is wrong, or None
    """

    lesson: str
    stars: int
    reference: Function
    cases: Callable[[], list[Case]]
    hints: tuple[str, ...]
    mistakes: tuple[Mistake, ...] = ()
    costs: tuple[Cost, ...] = ()
    gradients: tuple[int, ...] = ()
    library: str = "numpy"
    dtype: bool = False
    judge: Callable[[Case, Any], str | None] | None = None

    @property
    def name(self) -> str:
        """The name of the exercise: that of the reference."""
        return self.reference.__name__
