"""One tile of scores, in PyTorch."""

import functools
import math
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

from attnlab.contract import Rules
from attnlab.scores.torch_dropout import Seed, kept
from attnlab.scores.torch_dropout import threefry as threefry
from attnlab.tiles import Band
from attnlab.typing import Bool, Float

import torch
from torch import Tensor as Array

Query = Float[Array, "*batch Hk G N D"]
Key = Float[Array, "*batch Hk M D"]
Value = Float[Array, "*batch Hk M Dv"]
Mask = Bool[Array, "*#batch #Hk #G #N #M"] | None
Bias = Float[Array, "*#batch #Hk #G #N #M"] | None
Out = Float[Array, "*batch Hk G N Dv"]
Lse = Float[Array, "*batch Hk G N"]

Rows = Float[Array, "*batch Hk G R D"]
Keys = Float[Array, "*batch Hk C D"]
Values = Float[Array, "*batch Hk C Dv"]
Tile = Float[Array, "*batch Hk G R C"]
Visible = Bool[Array, "*#batch #Hk #G #R #C"] | None
Shift = Float[Array, "*#batch #Hk #G #R #C"] | None


def no_autocast(function: Callable) -> Callable:
    """As a decorator: autocast is off inside, or tile products would be bfloat16 under a float32 label."""

    @functools.wraps(function)
    def wrapped(query: Any, *args: Any, **kwargs: Any) -> Any:
        device = query.device.type
        off = torch.autocast(device, enabled=False) if torch.amp.is_autocast_available(device) else nullcontext()
        with off:
            return function(query, *args, **kwargs)

    return wrapped


def accumulator(x: Array) -> torch.dtype:
    """The dtype of m, l and o: float64 for float64, float32 for everything else."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def cut(x: Array | None, rows: slice, cols: slice) -> Array | None:
    """The part of a mask or bias over one tile; an axis of size 1 stays 1."""
    if x is None:
        return None
    return x[..., rows if x.shape[-2] > 1 else slice(None), cols if x.shape[-1] > 1 else slice(None)]


def visibility(mask: Mask, bias: Bias, band: Band, rows: slice, cols: slice, device: torch.device) -> Visible:
    """True where query i sees key j; None if the whole tile is visible. No axis is expanded."""
    rules = []
    if not band.full(rows, cols):
        i = torch.arange(rows.start, rows.stop, dtype=torch.int32, device=device)[:, None] + band.offset
        j = torch.arange(cols.start, cols.stop, dtype=torch.int32, device=device)
        rules += [j >= i - band.left] if band.left is not None else []
        rules += [j <= i + band.right] if band.right is not None else []
        rules = [functools.reduce(torch.logical_and, rules)[None, None]]
    if mask is not None:
        rules.append(cut(mask, rows, cols))
    if bias is not None:
        rules.append(cut(bias, rows, cols) != -math.inf)
    return functools.reduce(torch.logical_and, rules) if rules else None


def read(
    key: Key, value: Value, mask: Mask, bias: Bias, band: Band, rows: slice, cols: slice, look: bool = False
) -> tuple[Keys, Values, Shift, Visible]:
    """What one tile reads from memory besides its queries: k, v and bias, and what is visible.

    With ``look`` a tile that turns out to be visible throughout counts as such, and nothing in it is masked. That
    needs the values of a mask, which torch.func.vmap does not tell.
    """
    visible = visibility(mask, bias, band, rows, cols, key.device)
    visible = None if look and visible is not None and not anywhere(~visible) else visible
    k, v = take(key[..., cols, :], visible), take(value[..., cols, :], visible)
    return k, v, None if bias is None else narrow(cut(bias, rows, cols), k.dtype), visible


def columns(key: Key, value: Value, bias: Bias) -> Iterator[tuple[slice, Keys, Values, Shift]]:
    """One key after the other: its position, k_j, v_j and bias_j.

    The arrays are cut once: the gradient of a slice is as large as what it was cut from.
    """
    m = key.shape[-2]
    shifts = [bias] * m if bias is None or bias.shape[-1] == 1 else bias.split(1, -1)
    for j, k, v, shift in zip(range(m), key.split(1, -2), value.split(1, -2), shifts):
        yield slice(j, j + 1), k, v, shift if shift is None else narrow(shift, accumulator(key))


def take(x: Keys, visible: Visible) -> Keys:
    """A tile of K or V in the accumulation dtype; keys that no query of the tile sees become 0.

    A hidden key may hold NaN, and 0 · NaN is NaN: a weight of 0 alone would not keep it out.
    """
    x = x.to(accumulator(x))
    return x if visible is None else torch.where(anywhere(visible, -3, -2)[..., None], x, 0)


def anywhere(x: Bool[Array, "..."], *axes: int) -> Bool[Array, "..."]:
    """x.any(axes): the largest byte, which a CPU finds at least five times as fast. Of nothing there is no largest."""
    return x.to(torch.uint8).amax(axes).bool() if x.numel() else x.any(axes)


def hidden(visible: Visible) -> bool:
    """Whether no query of the tile sees a key of it: then nothing needs to be computed."""
    return visible is not None and not anywhere(visible)


def sees(visible: Visible) -> Bool[Array, "*#batch #Hk #G #R"] | bool:
    """True where a query sees any key of the tile."""
    return True if visible is None else anywhere(visible, -1)


def only(seen: Bool[Array, "*#batch #Hk #G #R"] | bool, x: Rows) -> Rows:
    """x with 0 for the queries that see nothing, which may hold NaN, and no gradient for them."""
    return x if seen is True else torch.where(seen[..., None], x, 0)


def scores(q: Rows, k: Keys, bias: Shift, visible: Visible, room: Array | None = None) -> Tile:
    """s = q kᵀ + bias of one tile, −∞ where invisible; q (or k) comes already scaled, the bias already cut."""
    s = matmul(only(sees(visible), q), k.mT, room)
    out = s if s is room else None
    if bias is not None:
        s = torch.add(s, bias, out=out)
    if visible is None:
        return s
    limit = torch.where(visible, math.inf, -math.inf).to(s.dtype)
    return torch.minimum(s, limit, out=out)  # on a CPU faster than where on s


def narrow(bias: Array, dtype: torch.dtype) -> Array:
    """The bias in the accumulation dtype; a finite number too large for it stays finite, a shift."""
    if bias.dtype == torch.float64 and dtype != torch.float64:
        largest = torch.finfo(dtype).max
        bias = torch.where(bias.isfinite(), bias.clamp(-largest, largest), bias)
    return bias.to(dtype)


def matmul(
    a: Float[Array, "*batch Hk G R X"], b: Float[Array, "*batch Hk X Y"], room: Array | None = None
) -> Float[Array, "*batch Hk G R Y"]:
    """a @ b for every query head: the G heads of a group are rows of one product, so K is never repeated.

    Written to ``room`` if it has the shape: memory that a CPU has not touched before is slow.
    """
    *heads, g, r, x = a.shape
    if room is None or room.shape != (*heads, g, r, b.shape[-1]):
        return (a.reshape((*heads, g * r, x)) @ b).reshape((*heads, g, r, b.shape[-1]))
    torch.bmm(a.reshape((-1, g * r, x)), b.reshape((-1, *b.shape[-2:])), out=room.view((-1, g * r, b.shape[-1])))
    return room


def add_matmul(x: Rows, a: Tile, b: Keys) -> None:
    """x += a @ b for every query head, in place and in one pass over x, which is contiguous."""
    *_, g, r, y = x.shape
    x.view((-1, g * r, y)).baddbmm_(a.reshape((-1, g * r, a.shape[-1])), b.reshape((-1, *b.shape[-2:])))


def drop(p: Tile, seed: Seed, rules: Rules, rows: slice, cols: slice) -> Tile:
    """p with dropped probabilities set to 0 and the others divided by 1 − dropout."""
    if rules.dropout == 0:
        return p
    factor = 0 if rules.dropout == 1 else 1 / (1 - rules.dropout)
    return torch.where(kept(seed, rules, rows, cols, p.device), p, 0).mul_(factor)
