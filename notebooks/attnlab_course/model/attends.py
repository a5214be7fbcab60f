"""Attention to plug into the model: ``attend(layer, query, key, value) -> out``, arrays not yet rotated.

query (..., Hq, N, D), key and value (..., Hk, N, D), out (..., Hq, N, D). A model with a learned sink needs the pair
(out, lse) instead, which ``return_lse=True`` gives. Array-free: one file serves three libraries.
"""

from collections.abc import Callable
from typing import Any

import attnlab
from attnlab.cache import KVCache
from attnlab_course.model.decoder import namespace


def dense(method: str = "tiled", **options: Any) -> Callable:
    """Causal attention over all tokens of the call, by ``attnlab.attention`` with these options: ``window=`` and so on.

    Positions are counted from 0, which loses nothing: products of rotated vectors see distances alone.
    """

    def attend(layer: int, query: Any, key: Any, value: Any) -> Any:
        return attnlab.attention(attnlab.rotary(query), attnlab.rotary(key), value, method, causal=True, **options)

    return attend


class Cached:
    """Attention with one cache a layer: every call brings the next tokens, and the caches take their keys.

        cached = model.Cached(KVCache, capacity=1024)
        lm.logits(prompt, cached)
        lm.logits(next_tokens, cached)

    ``kind``: KVCache or RollingCache, made at a layer's first call as ``kind.empty(key, value, **options)``. Keys are
    rotated by their position in the text, unless the cache rotates them itself: ``Cached(RollingCache, window=64,
    sinks=4, rotary=10000.0, sink_positions="cache")``. ``caches``: layer -> cache, which may also be given: in JAX a
    jitted step takes it as an argument and returns it. ``return_lse``: for a model with a learned sink.
    """

    def __init__(
        self, kind: Any = KVCache, caches: dict[int, Any] | None = None, return_lse: bool = False, **options: Any
    ) -> None:
        self.kind, self.caches, self.return_lse, self.options = kind, dict(caches or {}), return_lse, options

    def __call__(self, layer: int, query: Any, key: Any, value: Any) -> Any:
        cache = self.caches[layer] if layer in self.caches else self.kind.empty(key, value, **self.options)
        if getattr(cache, "rotary", None) is None:
            xp = namespace(query)
            place = {"device": query.device} if xp.__name__ == "torch" else {}
            positions = cache.length + xp.arange(query.shape[-2], **place)
            query, key = (attnlab.rotary(x, positions) for x in (query, key))
        out, self.caches[layer] = cache.attend(query, key, value, return_lse=self.return_lse)
        return out
