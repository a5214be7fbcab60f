"""attnlab in equinox: its ``MultiheadAttention``, whose heads are attended to by tiles.

    from attnlab.adapters.equinox import MultiheadAttention

    layer = MultiheadAttention(num_heads, query_size, key=key)
    out = jax.vmap(layer)(x, x, x)
"""

from collections.abc import Callable

from attnlab.core.arrays.jax import Array
from attnlab.core.dispatch import library_missing
from attnlab.tiled import tiled_attention

import jax
import jax.numpy as jnp
try:
    import equinox
except ModuleNotFoundError as error:
    raise library_missing("equinox") from error

__all__ = ["MultiheadAttention"]


class MultiheadAttention(equinox.nn.MultiheadAttention):
    """equinox's layer with its parameters, arguments and results, and without a matrix of weights."""

    def __call__(
        self, query: Array, key_: Array, value: Array, mask: Array | None = None, *, key: Array | None = None,
        inference: bool | None = None, process_heads: Callable | None = None,
    ) -> Array:
        """Attention of query (N, Q) over key_ (M, K) and value (M, V), one example: ``jax.vmap`` maps a batch.

        ``mask``: booleans, (N, M) or (H, N, M), True = attend. ``key``: for dropout, one for each example.
        ``process_heads``: a function of the three arrays of heads, (N, H, D) and twice (M, H, D), such as a rotary
        embedding. Returns (N, O); where a query sees no key, equinox averages the values, and here the heads are 0.
        """
        projections = zip((query, key_, value), (self.query_proj, self.key_proj, self.value_proj))
        heads = [jax.vmap(project)(x).reshape(len(x), self.num_heads, -1) for x, project in projections]
        heads = heads if process_heads is None else process_heads(*heads)
        inference = self.dropout.inference if inference is None else inference
        rate = 0.0 if inference else self.dropout.p
        if rate and key is None:
            raise ValueError("key is None; dropout needs one, or inference=True")
        seed = jax.random.bits(key, (), "uint32") if rate else None
        heads = (jnp.moveaxis(x, 1, 0) for x in heads)
        out = tiled_attention(*heads, mask=mask, dropout=rate, seed=seed)
        return jax.vmap(self.output_proj)(jnp.moveaxis(out, 0, 1).reshape(len(query), -1))
