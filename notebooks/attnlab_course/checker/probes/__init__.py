"""What is true of a wrong result, in any exercise: said where no mistake of the catalog fits.

A probe is said only if it holds in every input that fails and contradicts none that is right. Where none tells how the
whole result differs, a slip may (:mod:`attnlab_course.checker.slips`), and we say in which places it differs.
"""

import re
from collections.abc import Callable

from attnlab_course.checker.compare import title
from attnlab_course.checker.diagnosis import TELLING
from attnlab_course.checker.exercise import Case, Exercise
from attnlab_course.checker.outcome import Outcome
from attnlab_course.checker.probes.differences import EXACT, PLACES, Probe, same
from attnlab_course.checker.probes.regions import region

import numpy as np

LARGEST = 10**7  # numbers of a result that is looked at
Seen = list[tuple[Case, Outcome, Outcome, bool]]
"""For each input: the case, what was found, what is wanted, and whether it is right."""


def observations(exercise: Exercise, seen: Seen, slip: Callable[[], str]) -> str:
    """What holds of the wrong results, or nothing. ``slip`` finds the sentence of the slip that does the same."""
    said = _of_inputs(seen)
    place = region(exercise, [(case, right) for case, *_, right in seen]) or _of_kinds(seen)
    returned = [row for row in seen if not row[1].kind]
    if exercise.judge is not None or not returned:
        return " ".join(filter(None, [slip(), said])) or place
    if any(found.arrays.keys() != wanted.arrays.keys() for _, found, wanted, _ in returned):
        return said or place
    if any(x.size > LARGEST for _, found, *_ in returned for x in found.arrays.values()):
        return said or place
    if all(same(case, f.arrays[name], w.arrays[name]) for case, f, w, _ in returned for name in w.arrays):
        return said or ("" if len(returned) == len(seen) else place)  # not the values are wrong, but their dtype
    with np.errstate(all="ignore"):
        lead, how, where = _of_parts(exercise, returned)
    told = how or " ".join(filter(None, [slip(), where]))
    if len(returned) < len(seen):
        lead, told = "", f"Where it returns something: {told[0].lower()}{told[1:]}" if told else ""
    return " ".join(filter(None, [lead, told, said or ("" if how else place)]))


def _of_inputs(seen: Seen) -> str:
    """Whether a few kinds of input fail and no other."""
    kinds = [match[0] if (match := re.match("[A-Z]{2,}", case.label)) else "" for case, *_ in seen]
    wrong = list(dict.fromkeys(kind for kind, (*_, right) in zip(kinds, seen) if not right))
    kept = {kind for kind, (*_, right) in zip(kinds, seen) if right}
    if len(wrong) <= 3 and all(wrong) and not kept & set(wrong) and sum(right for *_, right in seen) >= 2:
        return f"It is right on all inputs but {', '.join(wrong[:-1])}{' and ' if wrong[1:] else ''}{wrong[-1]}."
    fails = sum(not right for *_, right in seen)
    return f"Of {len(seen)} inputs only this one fails." if fails == 1 and len(seen) > 2 else ""


def _of_kinds(seen: Seen) -> str:
    """Which kinds of input are right and which fail, if that can be told apart and nothing else is the matter."""
    found: dict[bool, dict[str, None]] = {True: {}, False: {}}
    for case, *_, right in seen:
        match = re.match("[A-Z]{3,}", case.label)
        found[right][match[0] if match else re.split("[:;]", case.label)[0]] = None
    good, bad = ([kind for kind in found[x] if kind not in found[not x]] for x in (True, False))
    if not good or not bad or any(outcome.kind in TELLING for _, outcome, *_ in seen):
        return ""
    first, second = ("; ".join(kinds[:3]) + (" and others" if kinds[3:] else "") for kinds in (good, bad))
    return f"It is right on {first}, and wrong on {second}."


def _of_parts(exercise: Exercise, seen: Seen) -> tuple[str, str, str]:
    """Which parts are right; how each differs that is wrong; and where those differ of which that can be said."""
    pairs = {name: [(c, f.arrays[name], w.arrays[name]) for c, f, w, _ in seen] for name in seen[0][2].arrays}
    wrong = [name for name in pairs if not all(same(*pair) for pair in pairs[name])]
    right = [title(name, exercise) for name in pairs if name not in wrong and name.startswith(("part", "gradient"))]
    results = [name for name in wrong if not name.startswith("gradient")]  # where they are wrong, gradients are, too
    how, unknown = _said(exercise, pairs, results or wrong, EXACT)
    where, _ = _said(exercise, pairs, results or wrong, (*EXACT, *PLACES))
    return f"Right in all inputs: {', '.join(right)}." if right and wrong else "", "" if unknown else how, where


def _said(
    exercise: Exercise, pairs: dict[str, list], names: list[str], probes: tuple[Probe, ...]
) -> tuple[str, bool]:
    """What holds of each of the arrays ``names``, by the first probe that fits, and whether there is none for one."""
    said: dict[str, list[str]] = {}
    for name in names:
        found = next(filter(None, (probe(pairs[name]) for probe in probes)), "")
        said.setdefault(found, []).append(title(name, exercise) or ("your result" if names[1:] else "Your result"))
    each = [text.format(which=("Each of " if of[1:] else "") + " and ".join(of)) for text, of in said.items()]
    return " ".join(filter(None, each)), "" in said
