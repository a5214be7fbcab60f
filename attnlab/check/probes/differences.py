"""What a whole number has too much or too little, in all inputs."""

import math
from fractions import Fraction
from itertools import product

from attnlab.check.exercise import Exercise
from attnlab.check.probes.factors import sizes
from attnlab.check.probes.patterns import Pair

SIMPLE = {Fraction(n, d) for d in (1, 2, 4) for n in range(1, 13)}
DEGREE, NAMES = 4, 8  # of a product, and sizes to choose from, at most


def surplus(exercise: Exercise, pairs: list[Pair]) -> str:
    """That every wrong number is off by the same product of sizes, if three of them at least are; or nothing."""
    if not all(x.shape == () and x.dtype.kind in "iuf" and x == x // 1 for _, *both in pairs for x in both):
        return ""
    off = [(sizes(exercise, case), int(f) - int(w)) for case, f, w in pairs if f != w]
    names = [name for name in off[0][0] if all(name in found for found, _ in off)] if len(off) > 2 else []
    powers = sorted(product(range(3), repeat=min(len(names), NAMES)), key=sum)
    for power in (p for p in powers if 0 < sum(p) <= DEGREE):
        values = [math.prod(found[name] ** p for name, p in zip(names, power)) for found, _ in off]
        rates = {Fraction(apart, value) for (_, apart), value in zip(off, values)}
        if len(rates) == 1 and len(set(values)) > 1 and abs(rate := rates.pop()) in SIMPLE:
            by = [str(abs(rate))] * (abs(rate) != 1) + [n + "²" * (p == 2) for n, p in zip(names, power) if p]
            return f"{{which}} is too {'large' if rate > 0 else 'small'} by {' · '.join(by)} wherever it is wrong."
    return ""


def overflow(pairs: list[Pair]) -> str:
    """Whole numbers whose upper bits are lost."""
    if not all(f.shape == w.shape and f.dtype.kind in "iu" and w.dtype.kind in "iu" for _, f, w in pairs):
        return ""
    lost = all((x - y) % 2**32 == 0 for _, f, w in pairs for x, y in zip(f.ravel().tolist(), w.ravel().tolist()))
    return "{which} is the right one but for multiples of 2³²: do whole numbers of 32 bits overflow?" if lost else ""
