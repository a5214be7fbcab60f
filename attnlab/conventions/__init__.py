"""What does an attention function mean by its arguments? Run it on small inputs, and read that off the results.

    found = conventions.of(torch.nn.functional.scaled_dot_product_attention)
    print(found)                # a table; * where attnlab's contract says something else
    found.differences(other)    # where two functions differ
    print(found.adapter())      # the lines that make it keep attnlab's contract, checked

Keys and values are rows of the unit matrix: a query's entries are its scores, and its output is its weights. Answers
hold for what was run: at most 8 tokens of size 8, in float32 unless it's said, on one device, with one set of options.
Libraries take another path for each of these: ask every configuration that you use, and in a process that you can lose,
as a C++ kernel may end it on an odd mask, or on no keys.
"""

import contextlib
import html
import os
import random
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

from attnlab.conventions.adapter import source, trial
from attnlab.conventions.calling import LAYOUTS, Call, Missing, find_call, find_ways, said
from attnlab.conventions.questions import NONE, QUESTIONS, Probe
from attnlab.conventions.rotation import rotary
from attnlab.core.arguments import LIBRARIES, check_choice
from attnlab.core.other_names import errors_end_at_calls

import numpy as np

__all__ = ["Conventions", "of", "rotary"]


@dataclass(frozen=True)
class Conventions:
    """What a function answered: "–" where it couldn't be asked, "refused" where it raised; ``reasons`` says why."""

    call: Call
    answers: dict[str, str]
    reasons: dict[str, str]

    def differences(self, other: "Conventions | None" = None) -> dict[str, tuple[str, str]]:
        """{question: (this one's answer, the other's)} where they differ; without another, from attnlab's contract.

        A question that one of the two couldn't be asked is left out.
        """
        theirs = other.answers if other else {x: contract for x, (contract, _) in QUESTIONS.items()}
        both = {x: (answer, theirs.get(x, NONE)) for x, answer in self.answers.items()}
        return {x: pair for x, pair in both.items() if pair[0] != pair[1] and NONE not in pair}

    def adapter(self) -> str:
        """Source of ``attention(query, key, value, *, causal, window, mask, bias, scale)``, which keeps the contract.

        It calls the one that was asked by the name ``function``, takes as many axes, and costs N·M. It has been run on
        random inputs of size 8 beside ``attnlab.safe_attention``. Raises ValueError where the function has no mask that
        could say everything, or where results differ.
        """
        lines = source(self.answers, self.call)
        with undisturbed():
            trial(lines, self.call)
        return lines

    def rows(self) -> list[tuple[str, str, str]]:
        """The table: a mark where the contract differs, what was asked, the answer with its reason."""
        ways = ", ".join(f"{role} by {name} {axes}".strip() for role, (name, axes) in self.call.ways.items())
        how = f"{LIBRARIES[self.call.library]}, {self.call.axes} → {self.call.out_axes}; {ways}"
        reasons, differ = {x: f" ({reason})" for x, reason in self.reasons.items()}, self.differences()
        rows = [("*" * (x in differ), x, answer + reasons.get(x, "")) for x, answer in self.answers.items()]
        return [("", self.call.name, how), *rows]

    def __str__(self) -> str:
        lines = (f"{mark:1} {question:<29} {answer}" for mark, question, answer in self.rows())
        return "\n".join(textwrap.fill(line, 110, subsequent_indent=" " * 32) for line in lines)

    def _repr_html_(self) -> str:
        rows = [map(html.escape, row) for row in self.rows()]
        cells = [f"<td>{a}</td><td>{b}</td><td>{f'<b>{c}</b>' if a else c}</td>" for a, b, c in rows]
        return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def of(
    function: Callable, *, axes: str | None = None, names: dict[str, str] | None = None, library: str | None = None,
    device: Any = None, patience: float = 60.0, questions: Iterable[str] = tuple(QUESTIONS),
) -> Conventions:
    """The conventions of ``function(query, key, value, ...)``, an attention in NumPy, JAX or PyTorch.

    It returns the output, or a tuple that begins with it; what else it needs ``functools.partial`` can hold. What isn't
    given is found by trying: ``axes`` of the query, such as BNHD; ``names``, {role: its keyword} for the roles in
    ``conventions.calling.ROLES``; ``library``, numpy, jax or torch. ``device``: where arrays go. ``patience``:
    seconds that a call may take. ``questions``: some of QUESTIONS. Random generators, the environment and PyTorch's
    number of threads are afterwards what they were. Raises TypeError where the function can't be called as attention,
    TimeoutError where its first call takes longer, and ValueError where it hides something unless told.
    """
    answers, reasons = dict[str, str](), dict[str, str]()
    with undisturbed():
        kinds = [check_choice("library", library, LIBRARIES)] if library else [x for x in LIBRARIES if x in sys.modules]
        layouts = (check_choice("axes", axes, LAYOUTS),) if axes else LAYOUTS
        call = Probe(**vars(find_call(function, kinds, layouts, device, patience)))
        find_ways(call, names or {})
        for question in [check_choice("a question", x, QUESTIONS) for x in questions]:
            try:
                answers[question] = QUESTIONS[question][1](call)
            except (Missing, ModuleNotFoundError) as error:
                answers[question], reasons[question] = NONE, str(error)
            except Exception as error:
                answers[question], reasons[question] = "refused", said(error)
    return Conventions(call, answers, reasons)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """No warnings; and what the function changes of generators, environment and threads is put back."""
    with contextlib.ExitStack() as back, warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
        back.callback(random.setstate, random.getstate())
        back.callback(np.random.set_state, np.random.get_state())  # noqa: NPY002
        if torch := sys.modules.get("torch"):
            back.callback(torch.set_rng_state, torch.get_rng_state())
            back.callback(torch.set_num_threads, torch.get_num_threads())
            back.enter_context(torch.inference_mode(False))  # gradients
        back.enter_context(mock.patch.dict(os.environ))
        yield


errors_end_at_calls(__name__)
