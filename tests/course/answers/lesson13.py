"""Right and refused answers to the exercises of lesson 13."""

import math
from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import torch

from tests.course.answers import edited


def remedy_in_fractions(programs, sms, products, exponentials, memory):
    """Work in waves and not over a share; the first of the least."""
    products, exponentials, memory = (Fraction(x) for x in (products, exponentials, memory))
    slots = Fraction(sms * math.ceil(Fraction(programs, sms)), programs)
    plans = [(products + exponentials, memory), (max(products, exponentials) * slots, memory),
             ((products + exponentials / 2) * slots, memory), ((products + exponentials) * slots, memory / 2)]
    return min(range(4), key=lambda i: max(plans[i]))


def remedy_in_arrays(programs, sms, products, exponentials, memory):
    full, both = programs / (math.ceil(programs / sms) * sms), products + exponentials
    work = np.divide([both, max(products, exponentials), both - exponentials / 2, both], [1, full, full, full])
    return int(np.argmin(np.maximum(work, [memory, memory, memory, memory / 2])))


def remedy_for_the_worst(programs, sms, products, exponentials, memory):
    """For whatever looks worst."""
    busy = programs / (-(-programs // sms) * sms)
    if memory > (products + exponentials) / busy:
        return 3
    return 0 if busy < 0.9 else 2 if exponentials > products else 1


def exp2_kept_blocks(s, v, block):
    """No fold: first all maxima, then all sums, a block at a time; a smallest number starts the maximum."""
    t, spans = s / np.log(2), [slice(first, first + block) for first in range(0, s.shape[1], block)]
    m = np.max([t[:, cols].max(1) for cols in spans], axis=0, initial=-1e300)
    l, o = 0.0, 0.0
    for cols in spans:
        p = np.exp2(t[:, cols] - m[:, None])
        l, o = l + p.sum(1), o + p @ v[cols]
    lse = np.where(l > 0, m + np.log2(np.where(l > 0, l, 1)), -np.inf)
    return np.divide(o, l[:, None], out=np.zeros_like(o), where=l[:, None] > 0), lse * np.log(2)


def exp2_in_jax(s, v, block):
    t = s * jnp.log2(jnp.e)
    m, l, o = jnp.full(len(s), -jnp.inf), jnp.zeros(len(s)), 0.0
    for first in range(0, s.shape[1], block):
        part = t[:, first : first + block]
        new = jnp.maximum(m, part.max(1))
        shift = jnp.where(new == -jnp.inf, 0, new)
        p, a = jnp.exp2(part - shift[:, None]), jnp.exp2(m - shift)
        m, l, o = new, a * l + p.sum(1), a[:, None] * o + p @ v[first : first + block]
    l = jnp.where(l == 0, 1, l)
    return o / l[:, None], (m + jnp.log2(l)) * jnp.log(2)


def exp2_divides_weights(s, v, block):
    """Right values; the weights are divided, not the output."""
    t = s * np.log2(np.e)
    m = t.max(1)
    p = np.exp2(t - np.where(m == -np.inf, 0, m)[:, None])
    l = np.where(m == -np.inf, 1, p.sum(1))
    return (p / l[:, None]) @ v, (m + np.log2(l)) * np.log(2)


def bits_of_sums(t, c):
    """Powers of x, np.where at the end; NaN is never touched."""
    t = np.maximum(t, -127.0)
    n = np.floor(t).astype(int)
    x = t - n
    p = sum(c[i] * x**i for i in range(4)).astype(np.float32)
    found = np.ldexp(p, n).astype(np.float32)
    found[t < -126] = 0
    return found


def bits_in_torch(t, c):
    live = t >= -126
    n = torch.where(live, t, 0.0).floor()
    x = torch.where(live, t, 0.0) - n
    p = c[0] + x * (c[1] + x * (c[2] + x * c[3]))
    return torch.where(live, (p.view(torch.int32) + (n.int() << 23)).view(torch.float32), 0.0)


def lazy_at_once(s, v, block, threshold):
    """References first, attention of whole rows after."""
    t = s * np.log2(np.e)
    r, rescalings = np.full(len(s), -np.inf), 0
    for first in range(0, s.shape[1], block):
        top = t[:, first : first + block].max(1)
        rescalings += int(((top > r + threshold) & np.isfinite(r)).sum())
        r = np.where(top > r + threshold, top, r)
    p = np.exp2(t - np.where(np.isfinite(r), r, 0)[:, None])
    l = p.sum(1)
    some = np.where(l > 0, l, 1)
    return p @ v / some[:, None], np.where(l > 0, (r + np.log2(some)) * np.log(2), -np.inf), rescalings


def lazy_in_torch(s, v, block, threshold):
    r, l, o = torch.full(s.shape[:1], -torch.inf, dtype=s.dtype), torch.zeros(len(s), dtype=s.dtype), 0.0
    rescalings = 0
    for t, values in zip((s * math.log2(math.e)).split(block, 1), v.split(block)):
        top = t.amax(1)
        moved = top > r + threshold
        rescalings += int((moved & r.isfinite()).sum())
        new = torch.where(moved, top, r)
        shift = torch.where(new == -torch.inf, 0.0, new)
        a, p = torch.exp2(r - shift), torch.exp2(t - shift[:, None])
        r, l, o = new, a * l + p.sum(1), a[:, None] * o + p @ values
    l = torch.where(l == 0, 1.0, l)
    return o / l[:, None], (r + torch.log2(l)) * math.log(2), rescalings


def exponential_clipped(t, c):
    """Below −126 the smallest normal number, for 0."""
    t = np.maximum(t, np.float32(-126))
    n = np.floor(t).astype(int)
    return np.ldexp(np.polyval(c[::-1], t - n), n).astype(np.float32)


bits_of_one_and_more = edited("exp2_polynomial", "(c[0] +", "(1 +")
bits_without_a_whole = edited("exp2_polynomial", "x = t - n ", "x = (t - n) % 1 ")
lazy_begins_anew = edited(
    "lazy_rescale", "new = np.where(moved, top, r)", "new = np.where(moved | (top == -INF), top, r)",
)
remedy_with_idle_polynomials = edited("next_remedy", "/ 2) / busy, memory)", "/ 2) / busy, memory / busy)")
exp2_in_single = edited("fold_exp2", "* s[:, first", "* s.astype(np.float32)[:, first")
lazy_in_base_e = edited(
    "lazy_rescale", "np.log2(np.e) * ", "", "np.exp2", "np.exp", "np.log2(total)) * np.log(2)", "np.log(total))",
)
lazy_after_the_block = edited(  # the weights refer to the old r
    "lazy_rescale", "np.exp2(t - shift[:, None])  #",
    "np.exp2(t - np.where(r == -INF, shift, r)[:, None]) * np.exp2(np.where(r == -INF, 0, r - shift))[:, None]  #",
)


RIGHT = [
    ("next_remedy", remedy_in_fractions),
    ("next_remedy", remedy_in_arrays),
    ("fold_exp2", exp2_kept_blocks),
    ("fold_exp2", exp2_in_jax),
    ("exp2_polynomial", bits_of_sums),
    ("exp2_polynomial", bits_in_torch),
    ("lazy_rescale", lazy_at_once),
    ("lazy_rescale", lazy_in_torch),
]


REFUSED = [
    ("next_remedy", remedy_for_the_worst, "small heads: exponentials twice the products"),
    ("next_remedy", remedy_with_idle_polynomials, "three quarters busy, exponentials"),
    ("lazy_rescale", lazy_in_base_e, "natural units"),
    ("exp2_polynomial", bits_of_one_and_more, "another cubic"),
    ("exp2_polynomial", bits_without_a_whole, "whose fraction is 1"),
    ("lazy_rescale", lazy_begins_anew, "the second of three blocks"),
    ("fold_exp2", exp2_divides_weights, "times for each number"),
    ("exp2_polynomial", exponential_clipped, "LOW"),
    ("fold_exp2", exp2_in_single, "near −100000"),
    ("lazy_rescale", lazy_after_the_block, "0, 1, 1000, 999"),
]
