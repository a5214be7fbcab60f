"""One problem that the contestants solve, and the arithmetic that it takes."""

from dataclasses import dataclass
from typing import Any

from attnlab import costs
from attnlab.call import make_band
from attnlab.geometry import Band

import numpy as np


@dataclass(frozen=True)
class Setting:
    """``n`` queries and as many keys of size ``d``; ``gradient``: the forward and its gradients by all three.

    window: (left, right), −1 unbounded. padding: a mask (1, 1, 1, M) hides the last eighth of the keys. block_q,
    block_k: of tiled, None its own.
    """

    n: int = 2048
    batch: int = 1
    heads: int = 8
    kv_heads: int = 8
    d: int = 64
    causal: bool = False
    window: tuple[int, int] | None = None
    padding: bool = False
    dtype: str = "float32"
    device: str = "cpu"
    gradient: bool = False
    block_q: int | None = None
    block_k: int | None = None

    @property
    def work(self) -> str:
        """What is timed."""
        return "forward+backward" if self.gradient else "forward"

    @property
    def band(self) -> Band:
        """What causal and window leave visible."""
        return make_band(self.n, self.n, self.causal, self.window)

    @property
    def visible(self) -> int:
        """Pairs of a query and a key in the band; a mask hides scores, but spares no work."""
        spans = (self.band.keys(slice(i, i + 1)) for i in range(self.n))
        return sum(max(min(last, self.n) - max(first, 0), 0) for first, last in spans)

    @property
    def flops(self) -> int:
        """Of the matrix products on visible pairs: 4·D a pair and head; with the gradient 3.5 times that."""
        size = self.n, self.n, self.d, self.d
        products = costs.forward("tiled", *size, heads=self.batch * self.heads).products
        if self.gradient:
            products += costs.backward("tiled", *size, heads=self.batch * self.heads).products
        return products * self.visible // self.n**2

    @property
    def dense(self) -> bool:
        """Whether PyTorch's own function needs the band spelled out as a mask of N by M."""
        return self.window is not None or (self.causal and self.padding)

    def mask(self, dense: bool = False) -> Any:
        """The boolean mask that is passed along, NumPy, or None; ``dense``: the band too."""
        if not self.padding and not dense:
            return None
        i, j = np.arange(self.n)[:, None], np.arange(self.n)
        mask = (j < self.n - self.n // 8)[None] if self.padding else np.ones((1, self.n), bool)
        if dense:
            left, right = (self.n if side is None else side for side in (self.band.left, self.band.right))
            mask = mask & (j >= i - left) & (j <= i + right)
        return mask[None, None]

    def __str__(self) -> str:
        heads = f"{self.heads} heads" if self.heads == self.kv_heads else f"{self.heads} heads on {self.kv_heads}"
        rules = ["causal"] * self.causal + [f"window {self.window}"] * bool(self.window) + ["padding"] * self.padding
        batch = f"batch {self.batch}, " * (self.batch > 1)
        return ", ".join([self.work, f"N = M = {self.n}", f"{batch}{heads} of size {self.d}", self.dtype, *rules])
