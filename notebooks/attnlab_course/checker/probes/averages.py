"""What holds of the weights in a wrong average, where they can be seen: values the identity (EYE), or all 1 (ONES)."""

import re

from attnlab_course.checker.probes.patterns import Pair, same
from attnlab_course.checker.probes.places import are_weights

import numpy as np


def of_weights(pairs: list[Pair]) -> str:
    """What they add up to, whether one is there that should not be or is missing; or nothing."""
    wrong = [(c.label, f, w) for c, f, w in pairs if f.shape == w.shape and f.dtype.kind == "f" and not same(c, f, w)]
    eye = [(f, w) for label, f, w in wrong if re.search("EYE|identity", label) and w.ndim and are_weights(w)]
    sums = [f.sum(-1)[w.sum(-1) > 0] for f, w in eye]
    sums += [f.ravel() for label, f, w in wrong if "ONES" in label and (w == 1).all()]
    if not sums or not all(np.isfinite(f).all() for _, f, _ in wrong):
        return ""
    off = [x for found in sums for x in found.ravel() if not abs(x - 1) < 1e-5]
    if off:
        return f"Your weights add up to {off[0]:.6g} instead of 1, as values of 1 or the identity show."
    extra = [f[(w == 0) & (abs(f) > 1e-6)] for f, w in eye]
    if eye and all(x.size for x in extra):
        return f"A value that should have no weight has {extra[0][0]:.4g}, as values that are the identity show."
    missing = [w[(w > 1e-3) & (f == 0)] for f, w in eye]
    if eye and all(x.size for x in missing):
        return f"A value that should have weight {missing[0][0]:.4g} has none, as values that are the identity show."
    return "It is an average of the values, as the weights add up to 1, but the weights are wrong." if eye else ""
