"""The questions, each asked by running the function on scores whose weights tell the possible answers apart.

An answer is the name of the one candidate that predicts the weights seen, where they aren't left open by NaN. If none
does it's the weights themselves; if two do, "a or b", and the question was a bad one.
"""

import math
from collections.abc import Callable
from typing import Any

from attnlab.conventions.calling import NEAR, SCORES, Array, Call, D, Missing, hid, letters, softmax, to_numpy
from attnlab.core.arguments import dtype_name

import numpy as np

INF, NONE = math.inf, "–"
ONE = np.eye(1, 4).repeat(4, 0)  # four queries, as the last sees all even where it's causal unless told
SEEN = np.arange(4) != np.full((4, 1), 2)  # key 2 is hidden
BIAS = np.array([[0, 0.7, -1, 0.2]]).repeat(4, 0)
CAPPED = np.tanh(2 * ONE) / 2  # by a cap of 1/2
STEPS = np.arange(4)[:, None] / 8 + np.zeros(5)  # all scores of query n are n/8
LSE = np.arange(4) / 8 + math.log(5)
SCALES = {"1/√D": D**-0.5, "1": 1.0, "1/D": 1 / D, "√D": D**0.5}
EMPTY = {"boolean mask": ["mask"], "−∞ mask": ["bias"], "half by each": ["mask", "bias"], "causal": ["causal"]}
SINKS = {"a score": math.log(2), "a score, then scaled": D**-0.5 * math.log(2), "a weight": math.log(math.log(2))}

# Keys that a query sees: how many on its left, how many on its right, and whether the diagonal ends at the last key.
ALL = {"sees all": (INF, INF, 0)}
SQUARE = {"up to its own": (INF, 0, 0), "before its own": (INF, -1, 0), "from its own on": (0, INF, 0)}
LONG = ALL | {"bottom right": (INF, 0, 1), "top left": (INF, 0, 0),
              "bottom right, own hidden": (INF, -1, 1), "top left, own hidden": (INF, -1, 0)}  # fmt: skip
WINDOWS = {f"{left} left, {right} right, {name}": (left, right, at) for left in (1, 2) for right in (0, 1, 2, INF)
           for name, at in (("bottom right", 1), ("top left", 0))}  # fmt: skip
BOTH = {name: x for name, x in WINDOWS.items() if x[1] in (0, 2)}  # with causal: it counts, or doesn't


def named(seen: Array, candidates: dict[str, Any]) -> str:
    """The candidates that predict what was seen."""
    fits = [name for name, x in candidates.items() if np.all(np.isnan(x) | (abs(seen - x) < NEAR))]
    return " or ".join(fits) or str(np.array(seen).round(3).tolist())


class Probe(Call):
    """A function to which questions are put."""

    def reads(self, scores: Array, candidates: dict[str, Array], first: int = -1, **roles: Any) -> str:
        """Of which scores are the weights the softmax, for the queries from ``first`` on?"""
        return named(self.weights(scores, **roles)[first:], {x: softmax(y)[first:] for x, y in candidates.items()})

    def pattern(self, n: int, m: int, bands: dict[str, tuple], **roles: Any) -> str:
        """Which keys do queries of equal scores see?"""
        near = {name: np.arange(m) - np.arange(n)[:, None] - at * (m - n) for name, (_, _, at) in bands.items()}
        seen = {name: (near[name] >= -left) & (near[name] <= right) for name, (left, right, _) in bands.items()}
        return self.reads(np.zeros((n, m)), {name: hid(x) for name, x in seen.items()}, 0, **roles)

    def floating(self) -> str:
        """With half the scale where that's 1, as a scale that came after the bias shows."""
        factor = 0.5 if "scale" in self.ways and abs(self.scale - 1) < NEAR else 1.0
        scores, roles = factor * ONE, {"scale": factor * self.scale} if factor < 1 else {}
        return self.reads(ONE, {
            "added after the scale": scores + BIAS, "added before the scale": scores + factor * self.scale * BIAS,
            "subtracted": scores - BIAS, "multiplied": scores * BIAS, "taken for boolean": scores + hid(BIAS != 0),
        }, bias=BIAS, **roles)  # fmt: skip

    def together(self, first: str, second: str) -> str:
        """Two ways to hide: the first hides key 2, the second what isn't causal, or key 0."""
        other = np.tri(4) > 0 if second == "causal" else np.arange(4) > np.zeros((4, 1))
        candidates = {"both": hid(SEEN & other), f"{first} alone": hid(SEEN), f"{second} alone": hid(other)}
        return self.reads(np.zeros((4, 4)), candidates, 0, **self.hide(**{first: SEEN, second: other}))

    def hidden(self) -> str:
        """The weight of a hidden key, where its score is 10¹², or else the others' are −10¹²."""
        cases = {"at a score of 10¹²": 1e12 * ~SEEN, "beside −10¹²": -1e12 * SEEN}
        weights = {name: self.weights(x, **self.hide(mask=SEEN))[-1, 2] for name, x in cases.items()}
        return ", ".join(f"{weight:.2g} {name}" for name, weight in weights.items() if weight != 0) or "0"

    def leaks(self, which: int) -> str:
        """NaN in key 2, or in its value, which a mask, or else causal, hides from both queries."""
        role, n, m = ("mask", 2, 4) if "mask" in self.ways else ("causal", 3, 3)
        arrays = self.inputs(np.zeros((n, m)))
        arrays[which][2] = np.nan
        out = self(*arrays, **self.hide(**{role: SEEN[:n]}))
        return "leaks" if np.isnan(out[:, :, :2]).any() else "stays hidden"

    def heads(self) -> str:
        """Which of 2 key heads does each of 4 query heads read? All values of head g are unit vector g."""
        value = np.zeros((1, 2, 3, D)) + np.eye(2, D)[:, None]
        roles = dict.fromkeys({"grouped"} & {*self.ways}, True)
        read = tuple(self(np.zeros((1, 4, 2, D)), 0 * value, value, **roles)[0, :, 0].argmax(-1).tolist())
        return {(0, 0, 1, 1): "h // G", (0, 1, 0, 1): "h mod Hk", (0,): NONE}.get(read, str(read))  # (0,): no such axis

    def nothing(self, *roles: str) -> dict[str, Any]:
        """Scores whose row 0 sees nothing, and what hides all from it; of two roles each hides half."""
        if roles == ("causal",):
            if "bottom right" not in self.pattern(5, 3, LONG, causal=True):
                raise Missing("no such row")
            return {"scores": np.eye(1, 2).repeat(4, 0), "causal": True}
        shown = [np.eye(3, 1) == 0 | (np.arange(4) // 2 == k) * (len(roles) > 1) for k in range(2)]
        return {"scores": ONE[:3], **self.hide(**dict(zip(roles, shown)))}

    def empty(self, *roles: str) -> str:
        """The row that sees nothing, as weights. Its scores differ, or a mean would look like a softmax."""
        row = self.weights(**self.nothing(*roles))[0]
        names = {"0": 0 * row, "mean": 0 * row + 1 / row.size, "as if it saw all": softmax(np.eye(1, row.size)[0])}
        names |= {"all on what only the mask hides": np.array([0, 0, 0.5, 0.5])} if len(roles) > 1 else {}
        return "NaN" if np.isnan(row).all() else named(row, names)

    def slope(self, role: str) -> str:
        """The gradients of that row."""
        tops = {name: abs(x).max() for name, x in self.gradient(**self.nothing(role)).items()}
        wrong = {name: "NaN" if np.isnan(x) else "not 0" for name, x in tops.items() if not x < 1e-6}
        return ", ".join(f"{what} for {name}" for name, what in wrong.items()) or "0"

    def lse(self, scores: Array, **options: Any) -> Any:
        """What comes beside the output, if it's asked for."""
        return self.results(*self.inputs(scores), lse=True, **options)[1]

    def half(self, size: int) -> str:
        """70,000 equal keys and values of 1; or the last query has q·k = 8 · size² with keys 1 and 2, and 0 with 0."""
        if not size and not self.weights(np.zeros((3, 4)))[2].all():
            raise Missing("hides keys, unless told")
        key = np.zeros((1, 1, 3 if size else 70_000, D))
        key[:, :, 1:] = size
        value, right = (np.eye(3, D)[None, None], np.array([0, 0.5, 0.5])) if size else (key + 1, np.ones(3))
        roles = {"scale": D**-0.5} if "scale" in self.ways else {}
        return named(self(key[:, :, :3], key, value, dtype="float16", **roles)[0, 0, 2, :3].round(2), {"right": right})

    def dropped(self, what: str) -> str:
        """Half of 244 weights of 1/4 in 2 examples and 3 heads: by what they're multiplied, or which axes are alike."""
        found = self(*self.inputs(np.zeros((2, 3, 64, 4))), dropout=0.5)[..., 3:, :4]
        kept, axes = found > 1e-6, ("examples", "heads", "queries")
        if what == "factor":
            whole = np.allclose(found.sum(-1)[kept.any(-1)], 1)
            return "until they sum to 1" if whole else named(found[kept], {"by 1/(1 − p)": 0.5, "not at all": 0.25})
        shared = [axis for axis in range(3) if kept.shape[axis] > 1 and (kept == kept.take([0], axis)).all()]
        return ", ".join(axes[axis] for axis in shared) or "nothing"


QUESTIONS: dict[str, tuple[str, Callable[[Probe], str]]] = {
    "axes": ("heads before tokens", lambda c: f"heads {'after' if 'NH' in c.axes else 'before'} tokens"),
    "scale, unless given": ("1/√D", lambda c: named(np.array(c.scale), SCALES)),
    "scale of 0": ("as given", lambda c: c.reads(ONE, {"as given": 0 * ONE, "taken for none": ONE}, scale=0.0)),
    "twice the scale": ("as given", lambda c: c.reads(ONE, {
        "as given": 2 * ONE, "beside 1/√D": 2 * D**-0.5 * ONE, "divides": ONE / (2 * c.scale**2)}, scale=2 * c.scale)),
    "a query, unless told": ("sees all", lambda c: c.pattern(4, 4, ALL | {"up to its own": (INF, 0, 0)})),
    "causal, N = M": ("up to its own", lambda c: c.pattern(4, 4, SQUARE, causal=True)),
    "causal, N < M": ("bottom right", lambda c: c.pattern(3, 5, LONG, causal=True)),
    "causal, N > M": ("bottom right", lambda c: c.pattern(5, 3, LONG, causal=True)),
    "causal, N = 1": ("sees all", lambda c: c.pattern(1, 5, ALL | {"top left": (INF, 0, 0)}, causal=True)),
    "window 2": ("2 left, 2 right, bottom right", lambda c: c.pattern(4, 8, WINDOWS, window=2)),
    "window 2, causal": ("2 left, 0 right, bottom right", lambda c: c.pattern(4, 8, BOTH, window=2, causal=True)),
    "window (2, 1)": ("2 left, 1 right, bottom right", lambda c: c.pattern(4, 8, WINDOWS, window=(2, 1))),
    "True in a boolean mask": ("attend", lambda c: c.reads(ONE, {
        "attend": ONE + hid(SEEN), "hide": ONE + hid(~SEEN), "1, added": ONE + SEEN}, mask=SEEN)),
    "a float mask": ("added after the scale", Probe.floating),
    "boolean mask and causal": ("both", lambda c: c.together("mask", "causal")),
    "float mask and causal": ("both", lambda c: c.together("bias", "causal")),
    "boolean and float mask": ("both", lambda c: c.together("mask", "bias")),
    "cap and boolean mask": (NONE, lambda c: c.reads(ONE, {
        "the cap first": CAPPED + hid(SEEN), "the mask first": np.where(SEEN, CAPPED, -0.5),
    }, softcap=0.5, **c.hide(mask=SEEN))),
    "cap and float mask": (NONE, lambda c: c.reads(ONE, {
        "the cap first": CAPPED + BIAS, "the mask first": np.tanh(2 * (ONE + BIAS)) / 2}, softcap=0.5, bias=BIAS)),
    "weight of a hidden key": ("0", Probe.hidden),
    "NaN in a hidden key": ("stays hidden", lambda c: c.leaks(1)),
    "NaN in a hidden value": ("stays hidden", lambda c: c.leaks(2)),
    "4 query heads on 2": ("h // G", Probe.heads),
    **{f"sees nothing: {how}": ("0", lambda c, roles=roles: c.empty(*roles)) for how, roles in EMPTY.items()},
    "sees nothing: M = 0": ("0", lambda c: named(c(*(np.zeros((1, 1, n, D)) for n in (2, 0, 0))), {"0": 0.0})),
    **{f"its gradient: {how}": ("0", lambda c, role=role: c.slope(role))
       for how, (role, *more) in EMPTY.items() if not more},
    "lse": ("natural", lambda c: named(to_numpy(c.lse(STEPS)).ravel()[:4], {
        "natural": LSE, "base 2": LSE / math.log(2), "no logarithm": np.exp(LSE)})),
    "lse: axes": ("BHN", lambda c: letters(c.lse(SCORES))),
    "lse: dtype for float16": ("float32", lambda c: dtype_name(c.lse(ONE, dtype="float16"))),
    "lse: sees nothing": ("-inf", lambda c: f"{to_numpy(c.lse(**c.nothing('mask'))).ravel()[0]:.3g}"),
    "sink": (NONE, lambda c: named(c.weights(ONE, sink=np.full((1, 1), math.log(2)))[-1:], {
        name: softmax(np.append(ONE[:1], [[x]], 1))[:, :4] for name, x in SINKS.items()})),
    "float16: 70,000 keys": ("right", lambda c: c.half(0)),
    "float16: q·k of 131,072": ("right", lambda c: c.half(128)),
    "float16: score of 185,000": ("right", lambda c: c.half(256)),
    "dropout scales the kept": ("by 1/(1 − p)", lambda c: c.dropped("factor")),
    "dropout is shared by": ("nothing", lambda c: c.dropped("shared")),
}  # fmt: skip
"""{question: (the contract's answer, what asks)}; "–" where the contract has no such argument."""
