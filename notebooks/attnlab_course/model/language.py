"""The model as its users meet it: logits, bits and greedy text, in the library of its parameters."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from attnlab.core.arguments import dtype_name, integer, kind_of
from attnlab_course.model import decoder
from attnlab_course.model.attends import Cached, dense
from attnlab_course.model.config import FIRST, Config
from attnlab_course.model.decoder import namespace

import numpy as np


@dataclass(frozen=True)
class Model:
    """A transformer: its ``config`` and its ``parameters``, name -> array, all of one library and dtype."""

    config: Config
    parameters: dict[str, Any] = field(repr=False)

    def logits(self, tokens: Any, attend: Callable | None = None) -> Any:
        """Logits of the next token: (..., N) integers -> (..., N, 257), in the parameters' dtype.

        ``tokens``: an array of NumPy or of the parameters' library. ``attend(layer, query, key, value) -> out``: any
        attention, by default ``dense()``; it gets queries (..., Hq, N, D), keys and values (..., Hk, N, D) that are not
        rotated yet, and gives (..., Hq, N, D). Differentiable by the parameters in JAX and PyTorch, if ``attend`` is.
        """
        attend = dense(return_lse=self.config.sink) if attend is None else attend
        xp, tokens = namespace(self.parameters["embedding"]), self._integers(tokens)
        if xp.__name__ == "torch":
            from attnlab_course.model.torch import logits

            return logits(self.config, self.parameters, tokens, attend)
        return decoder.logits(xp, self.config, self.parameters, tokens, attend)

    def generate(
        self, prompt: bytes | str, count: int, attend: Callable | None = None, *, cached: bool = True
    ) -> bytes:
        """The ``count`` bytes that follow ``prompt``, each the likeliest: greedy text.

        ``attend``: what remembers the tokens that it was given, by default ``Cached`` with a KVCache of the right size;
        every token is computed once. With ``cached=False`` all tokens are computed anew for every byte, and ``attend``
        is as in ``logits``.
        """
        text = tokens(prompt, first=self.config.first)
        if not len(text):
            raise ValueError("prompt is empty; a model that was trained without a first token needs at least one byte")
        if attend is None and cached:
            attend = Cached(capacity=len(text) + integer("count", count, 0), return_lse=self.config.sink)
        new, found = text, []
        for _ in range(count):
            row = self.logits(new if cached else text, attend)[..., -1, :FIRST]
            found.append(int(row.argmax()))
            new, text = np.array(found[-1:]), np.append(text, found[-1])
        return bytes(found)

    def _integers(self, x: Any) -> Any:
        if kind_of(x) is None or not dtype_name(x).startswith(("int", "uint")):
            raise TypeError(f"tokens is of type {type(x).__name__}; it must be an array of integers")
        last = self.config.vocabulary - 1
        if isinstance(x, np.ndarray) and x.size and not 0 <= x.min() <= x.max() <= last:
            raise ValueError(f"tokens reach from {x.min()} to {x.max()}; they must lie in 0 … {last}")
        like = self.parameters["embedding"]
        xp = namespace(like)
        return xp.as_tensor(x, device=like.device).long() if xp.__name__ == "torch" else xp.asarray(x)


def tokens(text: bytes | str, first: bool = True) -> np.ndarray:
    """The tokens of a text, (N,) int64: its bytes, in UTF-8, with FIRST in front unless ``first`` is False."""
    data = text.encode() if isinstance(text, str) else text
    if not isinstance(data, bytes):
        raise TypeError(f"text is of type {type(text).__name__}; it must be bytes or a string")
    return np.array([FIRST] * first + list(data), np.int64)


def bits(logits: Any, tokens: Any) -> np.ndarray:
    """Bits that each next token costs, −log₂ p: (..., N, 257) logits and their (..., N) tokens -> (..., N − 1) float64.

    Entry i is the cost of token i + 1, given tokens 0 … i. Any library; the result is NumPy's.
    """
    x, next_tokens = np.asarray(logits, np.float64)[..., :-1, :], np.asarray(tokens)[..., 1:, None]
    if x.shape[:-1] != next_tokens.shape[:-1]:
        shapes = f"logits has shape {tuple(logits.shape)}, tokens {tuple(tokens.shape)}"
        raise ValueError(f"{shapes}; they must be (..., N, 257) and (..., N)")
    lse = np.logaddexp.reduce(x, -1)
    return (lse - np.take_along_axis(x, next_tokens, -1)[..., 0]) / np.log(2)
