"""One rank of a Cluster: what a program may do. NumPy."""

from collections.abc import Callable

from attnlab.core.arrays.numpy import Lse, Out, accumulator
from attnlab.core.bundle import Inputs, Rules, check_call
from attnlab.core.signature import Window
from attnlab.ring.turns import Agree, Receive
from attnlab.tiled.numpy import tiled_attention
from attnlab.tiled.numpy_grad import backward

import numpy as np
from numpy import ndarray as Array


class Rank:
    """A rank of a Cluster, given to its program: ``index`` of ``size``, its clock ``time`` in seconds.

    ``step`` counts what it has received; a program may set it where its rounds are others. What is sent and computed is
    noted with it. The Cluster hands over how: ``carry(rank, to, arrays)`` and ``note(rank, pairs, flops)``.
    """

    def __init__(self, index: int, size: int, carry: Callable, note: Callable) -> None:
        self.index, self.size = index, size
        self._carry, self._note = carry, note
        self.step, self.time = 0, 0.0

    def send(self, *arrays: Array, to: int) -> None:
        """Send copies of the arrays to rank ``to``. This rank goes on at once, because its link works beside it."""
        self._check_other("to", to)
        for x in arrays:
            if not isinstance(x, np.ndarray):
                raise TypeError(f"rank {self.index} sends a {type(x).__name__}; it must be a NumPy array")
        self._carry(self, to, tuple(x.copy() for x in arrays))

    def receive(self, source: int) -> Receive:
        """To be yielded: ``k, v = yield rank.receive(source)`` gives the arrays of one message, always a tuple."""
        self._check_other("source", source)
        return Receive(source)

    def agree(self, words: str) -> Agree:
        """To be yielded before the first exchange: a ValueError on all ranks unless all say the same. Not counted."""
        return Agree(words)

    def attend(
        self, query: Array, key: Array, value: Array, *, causal: bool = False, window: Window = None,
        offset: int | None = None, scale: float | None = None,
    ) -> tuple[Array, Array]:
        """tiled_attention on this rank, its work counted: (out, lse), both in the accumulation dtype."""
        rules, _, x = check_call("numpy", query, key, value, causal=causal, window=window, offset=offset, scale=scale)
        out, lse = self.forward(rules, x)
        return out.reshape((*query.shape[:-1], value.shape[-1])), lse.reshape(query.shape[:-1])

    def forward(self, rules: Rules, x: Inputs) -> tuple[Out, Lse]:
        """The tiled core, its work counted. A wide query makes out wide: parts are not rounded before they merge."""
        self._work(rules, x, x.query.shape[-1] + x.value.shape[-1])
        wide = x.query.astype(accumulator(x.query), copy=False)
        return tiled_attention.core(rules, (None, None), x._replace(query=wide))

    def backward(self, rules: Rules, x: Inputs, *results: Array) -> tuple[Array, Array, Array]:
        """The tiled gradient, its work counted: dq, dk, dv in the accumulation dtype of (out, lse, dout, dlse)."""
        self._work(rules, x, 3 * x.query.shape[-1] + 2 * x.value.shape[-1])
        wide = Inputs(*(y.astype(accumulator(y), copy=False) for y in x[:3]))
        return backward(rules, (None, None), wide, *results)

    def compute(self, flops: float) -> None:
        """Note other work: the clock moves on by flops / rate."""
        self._note(self, 0, flops)

    def _work(self, rules: Rules, x: Inputs, sizes: int) -> None:
        """Note two operations for every visible pair, head and number of a product."""
        band = rules.band
        i = np.arange(band.n)
        first = 0 if band.low is None else np.clip(i + band.low, 0, band.m)
        last = band.m if band.high is None else np.clip(i + band.high + 1, 0, band.m)
        pairs = int(np.sum(np.broadcast_to(np.maximum(last - first, 0), band.n)))
        self._note(self, pairs, 2 * pairs * sizes * int(np.prod(x.query.shape[:-2])))

    def _check_other(self, name: str, rank: int) -> None:
        if rank == self.index or rank not in range(self.size):
            raise ValueError(f"{name} is {rank}; rank {self.index} of {self.size} exchanges with the other ranks")
