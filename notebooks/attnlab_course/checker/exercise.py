"""What an exercise is: one small file holds the reference, the inputs, the mistakes, the costs and the hints."""

import functools
import inspect
import linecache
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from attnlab_course.checker.result_names import parts_of, find_returned

Function = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """One input: arguments, and what is special about them in the words of the course.

    Write arrays in NumPy, whatever library the answer is in; what can be read once is a :class:`Stream`.
    """

    label: str
    args: tuple


class Stream:
    """Items that flow by once, in order. ``make`` is called anew for each answer and yields them.

    ``again``: whether somebody began anew after the end and asked for an item; there is none.
    ``handed``: the items handed out so far, where they are looked at afterwards.
    """

    def __init__(self, make: Callable[[], Iterable]) -> None:
        self.make = make
        self.items: Iterator | None = None
        self.handed: list[Any] = []
        self.ended = self.anew = self.again = False

    def __iter__(self) -> "Stream":
        self.anew = self.ended
        return self

    def __next__(self) -> Any:
        self.items = iter(self.make()) if self.items is None else self.items
        self.again |= self.anew
        try:
            return next(self.items)
        except StopIteration:
            self.ended = True
            raise


@dataclass(frozen=True)
class Edit:
    """A wrong answer, told by how it differs from a right one. Made by :func:`but`."""

    pairs: tuple[tuple[str, str], ...]
    of: Function | None

    def apply(self, reference: Function) -> Function:
        """The reference, or ``of``, with the old texts replaced by the new ones. ValueError if one does not occur."""
        function = self.of or reference
        source = inspect.getsource(function)
        for old, new in self.pairs:
            if old not in source:
                raise ValueError(f"{old!r} does not occur in {function.__name__}, and so cannot be edited")
            source = source.replace(old, new)
        file = f"<{function.__name__}, edited {self.pairs}>"
        linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file  # a traceback shows the edit
        scope = dict(vars(sys.modules[function.__module__]))
        exec(compile(source, file, "exec"), scope)
        return scope[function.__name__]


def but(*edits: str, of: Function | None = None) -> Edit:
    """The reference, but with ``edits``: old text, new text, old text, new text and so on, made in this order.

    Every occurrence is replaced; a text that does not occur is an error. ``of``: another function of the same file
    to edit. What stands in the file besides may be used, so a new text can call a helper.
    """
    return Edit(tuple(zip(edits[::2], edits[1::2], strict=True)), of)


@dataclass(frozen=True)
class Mistake:
    """A misconception: what to say of it, and the wrong implementations that have it.

    Wrong implementations that call for the same words share one mistake. One that returns right values
    and costs too much is a mistake as well. ``seen``: how the label of the case begins that shows it, where the first
    one that fails would contradict ``say``. Most differ from the reference by a few characters and are written so,
    by :func:`but`; what has another structure is a function. What many exercises say is a phrase,
    see ``notebooks/attnlab_course/checker/phrases.py``.
    """

    say: str
    wrong: tuple[Function, ...]
    seen: str

    def __init__(self, say: str, *wrong: Function | Edit, seen: str = "") -> None:
        object.__setattr__(self, "say", say)
        object.__setattr__(self, "wrong", wrong)
        object.__setattr__(self, "seen", seen)


@dataclass(frozen=True)
class Cost:
    """A promise about what an answer costs.

    ``measure(answer, library)`` returns a number, which must not exceed ``limit``; ``say`` explains a
    larger one, with ``{found:.1f}`` and ``{limit}`` to fill in. Measured only where all values are right.
    A measure that does not reach into a library returns None.
    """

    measure: Callable[[Function, str], float | None]
    limit: float | int
    say: str

    def words(self, found: float) -> str:
        """``say`` of a number above the limit, with as many digits as tell them apart, and the limit."""
        digits = next((d for d in range(9) if f"{found:.{d}f}" != f"{self.limit:.{d}f}"), 9)
        say = re.sub(r"\{found:\.(\d)f\}", lambda spec: f"{found:.{max(int(spec[1]), digits)}f}", self.say)
        said = say.format(found=found, limit=self.limit)
        if "{limit" in self.say:
            return said
        return f"{said} The limit is {self.limit}." if said.endswith(".") else f"{said}; the limit is {self.limit}"


@dataclass(frozen=True)
class Exercise:
    """One exercise.

    ``reference``   the right answer; its name is the exercise's, its docstring the statement
    ``cases``       makes the inputs, smallest first
    ``mistakes``    the catalogue of misconceptions, at most five: those that say why
    ``costs``       what the answer may cost
    ``hints``       two or three, graded, from a nudge to nearly the solution
    ``gradients``   positions of the arguments by which derivatives are compared, too
    ``library``     of an answer that names none; with gradients it is "torch" or "jax"
    ``dtype``       whether the result's dtype must be the reference's; a dtype: or at least as wide as that
    ``writes``      positions of the arguments that an answer may write to, such as a cache
    ``judge``       for an exercise with many right answers: judge(case, got) says what is wrong, or None
    ``run``         for an answer that is no plain function: run(answer) is one that takes the arguments of a case
    ``needs``       a package that not everybody has; without it nothing is checked
    ``without``     what to say of an answer that leaves something out, by the text of a term, factor, argument, call or
                    statement of the reference, as ast.unparse prints it
    ``where``       the equation or section to look at, as in "eq. 7.11", where a line of the reference cites none
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
    dtype: bool | type = False
    writes: tuple[int, ...] = ()
    judge: Callable[[Case, Any], str | None] | None = None
    run: Callable[[Function], Function] | None = None
    needs: str = ""
    without: dict[str, str] = field(default_factory=dict)
    where: str = ""

    def __post_init__(self) -> None:
        """Edits become functions."""
        made = [
            Mistake(m.say, *(w.apply(self.reference) if isinstance(w, Edit) else w for w in m.wrong), seen=m.seen)
            for m in self.mistakes
        ]
        object.__setattr__(self, "mistakes", tuple(made))

    @property
    def name(self) -> str:
        """The name of the exercise: that of the reference."""
        return self.reference.__name__

    @functools.cached_property
    def parts(self) -> tuple[str, ...]:
        """The names of what the reference returns, if that is a tuple; empty names where it has none."""
        return parts_of(self.reference)

    @functools.cached_property
    def returns(self) -> bool:
        """Whether the reference returns anything; otherwise it writes."""
        return bool(find_returned(self.reference))
