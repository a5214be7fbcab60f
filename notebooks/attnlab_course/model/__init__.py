"""A small language model over bytes, trained on the standard library's sources: every attention can be plugged in.

    x = embedding[tokens]
    in each block   x += attention(norm(x)) wo,    x += (silu(norm(x) w_gate) ∘ norm(x) w_up) w_down
    logits = norm(x) embeddingᵀ

A decoder-only transformer as of today: RMSNorm, rotary positions, grouped heads, SwiGLU, no bias, the embedding tied to
the output. One dictionary of parameters serves NumPy, JAX (a pytree) and PyTorch (``Transformer``, an nn.Module):

    embedding (257, width)              norm (width,)                    and for each layer i
    blocks.i.norm_attention (width,)    blocks.i.norm_feed (width,)      blocks.i.sink (heads,)  if the model has sinks
    blocks.i.wq (width, heads · d)      blocks.i.wk, blocks.i.wv (width, kv_heads · d)
    blocks.i.wo (heads · d, width)      blocks.i.w_gate, blocks.i.w_up (width, hidden), blocks.i.w_down (hidden, width)

``make model`` trains it anew. Used from notebook 14 on.
"""

from attnlab.core.other_names import errors_end_at_calls
from attnlab_course.model.attends import Cached, dense
from attnlab_course.model.config import FIRST, Config
from attnlab_course.model.language import Model, bits, tokens
from attnlab_course.model.store import NAMES, excerpt, load, training

__all__ = ["FIRST", "NAMES", "Cached", "Config", "Model", "bits", "dense", "excerpt", "load", "tokens", "training"]

errors_end_at_calls(__name__)
