"""One problem that the contestants solve, and the arithmetic that it takes."""

from dataclasses import dataclass

from attnlab import costs
from attnlab.core.geometry import Band

import numpy as np


@dataclass(frozen=True)
class Setting:
    """``n`` queries by ``m`` keys of size ``d``; ``gradient``: the forward and its gradients by all three.

    m: None, as many as queries; otherwise causal and window align the last query with the last key. window: (left,
    right), −1 unbounded.
    """

    n: int = 2048
    m: int | None = None
    batch: int = 1
    heads: int = 8
    kv_heads: int = 8
    d: int = 64
    causal: bool = False
    window: tuple[int, int] | None = None
    dtype: str = "float32"
    device: str = "cpu"
    gradient: bool = False

    @property
    def work(self) -> str:
        """The pass that is timed: "forward" or "forward+backward"."""
        return "forward+backward" if self.gradient else "forward"

    @property
    def keys(self) -> int:
        """The number of keys."""
        return self.n if self.m is None else self.m

    @property
    def lengths(self) -> str:
        """Numbers of queries and keys, to print."""
        return f"N = M = {self.n}" if self.keys == self.n else f"N = {self.n}, M = {self.keys}"

    @property
    def band(self) -> Band:
        """Pairs of queries and keys that causal and window leave visible."""
        return Band.of(self.n, self.keys, self.causal, self.window)

    @property
    def visible(self) -> int:
        """Pairs of a query and a key in the band."""
        spans = (self.band.keys(slice(i, i + 1)) for i in range(self.n))
        return sum(max(min(last, self.keys) - max(first, 0), 0) for first, last in spans)

    @property
    def flops(self) -> int:
        """Operations of the matrix products: 4·D for each visible pair and head, 14·D with the gradient."""
        size = self.n, self.keys, self.d, self.d
        products = costs.forward("tiled", *size, heads=self.batch * self.heads).products
        if self.gradient:
            products += costs.backward("tiled", *size, heads=self.batch * self.heads).products
        return products * self.visible // (self.n * self.keys)

    @property
    def dense(self) -> bool:
        """Whether PyTorch's own function needs the band spelled out as a mask of N by M; its causal is top-left."""
        return self.window is not None or (self.causal and self.keys != self.n)

    def mask(self) -> np.ndarray:
        """The band spelled out as booleans (1, 1, N, M)."""
        i, j = np.arange(self.n)[:, None] + self.band.offset, np.arange(self.keys)
        left, right = (self.n + self.keys if side is None else side for side in (self.band.left, self.band.right))
        return ((j >= i - left) & (j <= i + right))[None, None]

    @property
    def sizes(self) -> str:
        """Batch, heads and dtype, to print."""
        heads = f"{self.heads} heads" if self.heads == self.kv_heads else f"{self.heads} heads on {self.kv_heads}"
        return f"batch {self.batch}, " * (self.batch > 1) + f"{heads} of size {self.d}, {self.dtype}"

    def __str__(self) -> str:
        rules = ["causal"] * self.causal + [f"window {self.window}"] * bool(self.window)
        return ", ".join([self.work, self.lengths, self.sizes, *rules])
