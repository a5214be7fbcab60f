"""Writes the function that makes another one keep attnlab's contract, from the answers that it gave, and tries it."""

from typing import Any

from attnlab.conventions.calling import D, Call, pack, to_numpy
from attnlab.safe import safe_attention

import numpy as np

SOURCE = """
import {module} as xp


def attention(query, key, value, *, causal=False, window=None, mask=None, {bias}scale=None):
    n, m, dtype = query.shape[-2], key.shape[-2], query.dtype
    if m == 0:
        return xp.zeros((*query.shape[:-1], value.shape[-1]), dtype=dtype{device})
    i, j = xp.arange(n{device})[:, None] + (m - n), xp.arange(m{device})
    window = window if isinstance(window, tuple) else (window, window)
    left, right = (n + m if w in (None, -1) else w for w in window)
    visible = (j >= i - left) & (j <= i + (min(right, 0) if causal else right))
    visible = xp.broadcast_to(visible if mask is None else visible & mask, (*query.shape[:-1], m))
    LINES
    used = visible.reshape(*key.shape[:-2], -1, m).any(-2)[..., None]  # what is hidden may hold NaN
    query, key, value = (xp.where(w, x, 0.0) for w, x in ((live, query), (used, key), (used, value)))
    query = query * ((query.shape[-1] ** -0.5 if scale is None else scale) / ({default}))
    out = function({arrays}, {option})
    return xp.where(live, (out[0] if isinstance(out, tuple) else out){back}, 0.0).{cast}(dtype)
""".lstrip()
SCALES = {"1/√D": "query.shape[-1] ** -0.5", "1/D": "query.shape[-1] ** -1.0", "√D": "query.shape[-1] ** 0.5"}
FINITE = "visible = visible if bias is None else visible & (bias > -xp.inf)"
LIVE = "live = visible.any(-1)[..., None]"
ADD = "bias = xp.where(visible, 0.0 if bias is None else {added}, xp.where(live, -xp.inf, 0.0))"
WIDEN = "query, key, value = (x.{cast}(xp.float32) for x in (query, key, value))"
HEADS = "heads = xp.arange(query.shape[-3]) * key.shape[-3] // query.shape[-3]"
REPEAT = "key, value = (x[..., heads, :, :] for x in (key, value))"


def source(answers: dict[str, str], call: Call) -> str:
    """Its lines. One mask says all; a row that sees nothing sees everything there, and is set to 0 afterwards."""
    full = "".join(a for a in "BHNM" if a in call.axes + "M")
    name = {role: name for role, (name, axes) in call.ways.items() if axes == full}
    torch, swap = call.library == "torch", [".swapaxes(-3, -2)" * ("NH" in x) for x in (call.axes, call.out_axes)]
    words = {"module": {"jax": "jax.numpy"}.get(call.library, call.library), "device": ", device=query.device" * torch}
    words |= {"arrays": ", ".join(x + swap[0] for x in ("query", "key", "value")), "back": swap[1]}
    words |= {"bias": "", "cast": "to" if torch else "astype"}
    words["default"] = SCALES.get(answers["scale, unless given"], f"{call.scale:.7g}")
    if "bias" in name and answers["a float mask"].startswith("added"):
        words["added"] = f"bias / ({words['default']})" if "before" in answers["a float mask"] else "bias"
        words |= {"bias": "bias=None, ", "option": f"{name['bias']}=bias.{words['cast']}(query.dtype)"}
    elif "mask" in name and answers["True in a boolean mask"] in ("attend", "hide"):
        words["option"] = f"{name['mask']}={'' if call.attend else '~'}(visible | ~live)"
    else:
        raise ValueError("it has no mask that says for every query of every head what it sees")
    lines = [FINITE, LIVE, ADD] if words["bias"] else [LIVE]
    lines += [WIDEN] * any("float16: " in x and answer not in ("right", "–") for x, answer in answers.items())
    lines += [HEADS, REPEAT] * ("grouped" in call.ways or answers["4 query heads on 2"] not in ("h // G", "–"))
    return SOURCE.replace("LINES", "\n    ".join(lines)).format(**words)


def trial(lines: str, call: Call) -> None:
    """Random inputs beside safe_attention, with a query that sees nothing, and NaN in a key that nobody sees."""
    names: dict[str, Any] = {"function": call.function}
    exec(lines, names)
    random, axes = np.random.default_rng(3), "".join(a for a in "BHND" if a in call.axes)
    for n, m, rules in ((3, 5, {"causal": True}), (5, 3, {"window": (1, 0)}), (4, 4, {"scale": -0.3})):
        arrays = [random.normal(size=(2, heads, length, D)) for heads, length in ((4, n), (2, m), (2, m))]
        given = {"mask": random.random((2, 4, n, m)) < 0.7, "bias": random.normal(size=(2, 4, n, m))}
        given["mask"][:, :, 1], given["mask"][..., 1], given["bias"][:, 1, 2] = False, False, -np.inf
        arrays[1][:, :, 1] = arrays[2][:, :, 1] = np.nan
        given = given if FINITE in lines else {"mask": given["mask"]}
        options = {name: call.array(x, axes) for name, x in (given | rules).items()}
        out = to_numpy(names["attention"](*(call.array(x, axes) for x in arrays), **options))
        off = abs(out - pack(safe_attention(*arrays, **given, **rules), axes)).max()
        if not off < 0.03:  # bfloat16's
            raise ValueError(f"it can't be adapted so: {off:.2g} off for N = {n}, M = {m} and {[*rules]}")
