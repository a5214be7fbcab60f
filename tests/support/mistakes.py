"""A small tiled attention with mistakes that people make, to show that the comparison finds them."""

import numpy as np

from tests.support import oracle
from tests.support.libraries import ARRAYS

MISTAKES = {
    # mistake: a case on which it must show
    "no rescale when the maximum moves": "4-D",
    "sum not rescaled": "4-D",
    "causal mask aligned to the top left": "causal with N < M",
    "lse without the maximum": "4-D",
    "last ragged block clamped, keys repeated": "blocks of 2 by 5, causal",
    "last ragged block dropped": "3-D",
    "head h reads key head h % Hk": "GQA, 2 heads of 4",
    "bias added before scaling": "bias (7, 10)",
    "scale forgotten": "4-D",
    "a large negative number for −∞": "rows that see nothing",
    "window one key too wide": "window 2",
    "offset ignored": "offset -1, causal",
    "segments ignored": "segments, unsorted",
    "dropout before the sum": "dropout 0.5",
    "no division by 1 − p": "dropout 0.5",
    "out in float32": "float16",
    "scores in float16": "float16",
}


def attention(case, mistake=None):
    """(out, lse) of a case by a fold over blocks of 4 keys, with the mistake."""
    arrays = case.arrays("numpy")
    query, key, value = (arrays[name].astype(np.float32) for name in ("query", "key", "value"))
    hq, hk = query.shape[-3], key.shape[-3]
    heads = np.arange(hq) % hk if mistake == "head h reads key head h % Hk" else np.arange(hq) // (hq // hk)
    key, value = key[..., heads, :, :], value[..., heads, :, :]
    keep = dropped(query.shape[:-1], key.shape[-2], case.options)
    s = scores(query, key, arrays.get("bias"), case.options, mistake)
    s[~seen(s.shape, arrays, case.options, mistake)] = -1e9 if mistake == "a large negative number for −∞" else -np.inf
    if mistake == "scores in float16":
        s = s.astype(np.float16).astype(np.float32)
    out, lse = fold(s, value, keep, mistake)
    return out.astype(np.float32 if mistake == "out in float32" else arrays["query"].dtype), lse


def scores(query, key, bias, options, mistake):
    """Scaled scores with bias."""
    scale = 1.0 if mistake == "scale forgotten" else options.get("scale") or query.shape[-1] ** -0.5
    bias = 0 if bias is None else bias.astype(np.float32)
    s = query @ key.swapaxes(-1, -2)
    s = scale * (s + bias) if mistake == "bias added before scaling" else scale * s + bias
    return s.astype(np.float32)


def seen(shape, arrays, options, mistake):
    """The visible positions."""
    options = {**options, **{k: v for k, v in arrays.items() if k in ARRAYS}}
    if mistake == "window one key too wide":
        options["window"] += 1
    if mistake == "offset ignored":
        del options["offset"]
    if mistake == "segments ignored":
        del options["query_segments"], options["key_segments"]
    visible = np.array([oracle.visible(at[:-1], at[-1], *shape[-2:], options) for at in np.ndindex(*shape)])
    visible = visible.reshape(shape)
    top_left = mistake == "causal mask aligned to the top left"
    return np.broadcast_to(np.tri(*shape[-2:], dtype=bool), shape) if top_left else visible


def dropped(rows, m, options):
    """Factors of the probabilities."""
    keep = [oracle.row_dropout(i // rows[-1], i % rows[-1], range(m), options) for i in range(int(np.prod(rows)))]
    return np.array(keep, np.float32).reshape((*rows, m))


def key_blocks(m, mistake):
    """Blocks of 4 keys, the last one shorter."""
    blocks = [slice(start, min(start + 4, m)) for start in range(0, m, 4)]
    if m % 4 and mistake == "last ragged block clamped, keys repeated":
        blocks[-1] = slice(m - 4, m)
    return blocks[:-1] if m % 4 and mistake == "last ragged block dropped" else blocks


def fold(s, value, keep, mistake):
    """The online fold of (m, l, o)."""
    m, l, o = np.full(s.shape[:-1], -np.inf, np.float32), np.float32(0), np.float32(0)
    for cols in key_blocks(s.shape[-1], mistake):
        m_next = np.maximum(m, s[..., cols].max(-1))
        shift = np.where(m_next == -np.inf, np.float32(0), m_next)
        alpha, p = np.exp(m - shift), np.exp(s[..., cols] - shift[..., None])
        z = keep[..., cols]
        z = np.where(z > 0, 1, 0) if mistake == "no division by 1 − p" else z
        l = (1 if mistake == "sum not rescaled" else alpha) * l
        l = l + (p * z if mistake == "dropout before the sum" else p).sum(-1)
        factor = 1 if mistake == "no rescale when the maximum moves" else alpha[..., None]
        o = factor * o + (p * z) @ value[..., cols, :]
        m = m_next
    safe = np.where(l == 0, np.float32(1), l)
    return o / safe[..., None], np.log(safe) + (0 if mistake == "lse without the maximum" else m)
