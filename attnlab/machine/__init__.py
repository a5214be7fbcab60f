"""A machine that counts: so far, a vector in slow memory that counts every load and every store."""

from attnlab.machine.softmaxes import TALLIES, count
from attnlab.machine.vector import CountingVector, traffic

__all__ = ["TALLIES", "CountingVector", "count", "traffic"]
