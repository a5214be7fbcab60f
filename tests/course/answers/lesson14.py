"""Answers to the exercises of lesson 14: right ones, written in other ways, and ones to refuse."""

import jax.numpy as jnp
import numpy as np
import torch

import attnlab
from attnlab.cache import KVCache
from tests.course.answers import edited


def step_by_package(q, k, v, keys, values, t):
    keys[t], values[t] = k, v
    return attnlab.tiled_attention(q[None], keys[: t + 1], values[: t + 1])[0], keys, values


def step_by_cache(q, k, v, keys, values, t):
    """The package's cache, over the arrays that were given."""
    cache = KVCache(keys[None], values[None], t)
    out, cache = cache.attend(q[None, None], k[None, None], v[None, None])
    return out[0, 0], keys, values


def step_in_torch(q, k, v, keys, values, t):
    keys[t], values[t] = k, v
    weights = torch.softmax(keys[: t + 1] @ q / len(q) ** 0.5, 0)
    return weights @ values[: t + 1], keys, values


def step_in_jax(q, k, v, keys, values, t):
    keys, values = keys.at[t].set(k), values.at[t].set(v)
    seen = jnp.arange(len(keys)) <= t
    s = jnp.where(seen, keys @ q / len(q) ** 0.5, -jnp.inf)
    p = jnp.exp(s - s.max())
    return p @ jnp.where(seen[:, None], values, 0) / p.sum(), keys, values


def step_that_clears(q, k, v, keys, values, t):
    """Right output; the slots behind are overwritten."""
    keys[t:] = values[t:] = 0
    return step_by_package(q, k, v, keys, values, t)


def step_output_only(q, k, v, keys, values, t):
    return step_by_package(q, k, v, keys, values, t)[0]


def step_changes_query(q, k, v, keys, values, t):
    q /= q.size**0.5
    keys[t], values[t] = k, v
    return attnlab.safe_attention(q[None], keys[: t + 1], values[: t + 1], scale=1.0)[0], keys, values


def step_copies_in_torch(q, k, v, keys, values, t):
    return step_in_torch(q, k, v, keys.clone(), values.clone(), t)


class Caches:
    """One of the package's caches for each layer."""

    def __init__(self, capacity, array=np.asarray):
        self.kept, self.capacity, self.array = {}, capacity, array

    def __call__(self, layer, q, k, v):
        q, k, v = map(self.array, (q, k, v))
        if layer not in self.kept:
            self.kept[layer] = KVCache.empty(k, v, capacity=self.capacity)
        start = int(self.kept[layer].length)
        at = range(start, start + k.shape[-2])
        q, k = (attnlab.rotary(x, self.array(np.array(at))) for x in (q, k))
        out, self.kept[layer] = self.kept[layer].attend(q, k, v)
        return np.asarray(out)


def text_by_caches(model, prompt, count):
    attend, text = Caches(len(prompt) + count), []
    new = np.array(prompt)
    while len(text) < count:
        new = model.logits(new, attend)[-1:].argmax(-1)
        text.append(int(new[0]))
    return text


def text_token_by_token(model, prompt, count):
    """The prompt as in decoding; the last token is fed, too."""
    attend, text = Caches(len(prompt) + count), list(prompt)
    for t in range(len(prompt) + count):
        logits = model.logits(np.array([text[t]]), attend)
        if t + 1 == len(text) and len(text) < len(prompt) + count:
            text.append(int(logits[0].argmax()))
    return np.array(text[len(prompt) :])


def text_in_torch(model, prompt, count):
    attend, text, new = Caches(len(prompt) + count, torch.as_tensor), [], torch.tensor(prompt)
    for _ in range(count):
        new = torch.as_tensor(model.logits(new, attend))[-1:].argmax(-1)
        text.append(new.item())
    return text


def text_rotated_late(model, prompt, count):
    """Keys as they came, concatenated; rotated by their positions at every step."""
    keys, values, text, new = {}, {}, [], list(prompt)

    def attend(layer, q, k, v):
        if layer in keys:
            k, v = np.concatenate([keys[layer], k], 1), np.concatenate([values[layer], v], 1)
        keys[layer], values[layer] = k, v
        at = np.arange(k.shape[1])
        return attnlab.naive_attention(attnlab.rotary(q, at[-q.shape[1] :]), attnlab.rotary(k, at), v, causal=True)

    for _ in range(count):
        new = [int(model.logits(np.array(new), attend)[-1].argmax())]
        text += new
    return text


def text_with_a_second_look(model, prompt, count):
    """Right, and the prompt's keys are computed once more."""
    model.logits(np.array(prompt), Caches(len(prompt)))
    model.logits(np.array(prompt), Caches(len(prompt)))
    return text_by_caches(model, prompt, count)


def calls_by_the_law(q, k, v, sizes):
    """Any split gives what one call gives."""
    return attnlab.safe_attention(attnlab.rotary(q), attnlab.rotary(k), v, causal=True)


def calls_in_torch(q, k, v, sizes):
    keys, values, rows, t = torch.empty_like(k), torch.empty_like(v), [], 0
    for n in sizes:
        at = torch.arange(t, t + n)
        keys[at], values[at] = attnlab.rotary(k[at], at), v[at]
        mask = torch.arange(t + n) <= at[:, None]
        rows.append(torch.nn.functional.scaled_dot_product_attention(
            attnlab.rotary(q[at], at)[None], keys[None, : t + n], values[None, : t + n], attn_mask=mask)[0])
        t += n
    return torch.cat(rows)


def calls_in_jax(q, k, v, sizes):
    """The calls as a mask: a query sees what has come, and of its own call what is not later."""
    at = jnp.arange(len(q))
    return attnlab.safe_attention(attnlab.rotary(q, at), attnlab.rotary(k, at), v, mask=at <= at[:, None])


def calls_not_rotated(q, k, v, sizes):
    return attnlab.safe_attention(q, k, v, causal=True)


def calls_list_of_parts(q, k, v, sizes):
    out = calls_by_the_law(q, k, v, sizes)
    return tuple(np.split(out, np.cumsum(sizes)[:-1]))


def step_by_shared_memory(q, k, v, keys, values, t):
    """PyTorch, from NumPy's arrays."""
    a, b, one = torch.from_numpy(keys), torch.from_numpy(values), torch.from_numpy(q.copy())
    a[t], b[t] = torch.from_numpy(k.copy()), torch.from_numpy(v.copy())
    return (torch.softmax(a[: t + 1] @ one / len(q) ** 0.5, 0) @ b[: t + 1]).numpy(), keys, values


def step_joins(q, k, v, keys, values, t):
    """Writes into the cache, and computes with copies of what was there."""
    all_keys, all_values = np.concatenate([keys[:t], k[None]]), np.concatenate([values[:t], v[None]])
    keys[t], values[t] = k, v
    return attnlab.safe_attention(q[None], all_keys, all_values)[0], keys, values


def step_reads_all_slots(q, k, v, keys, values, t):
    """What is not filled is put right: it is read at every step."""
    keys[t], values[t] = k, v
    seen = np.arange(len(keys)) <= t
    s = np.where(seen, np.nan_to_num(keys) @ q / len(q) ** 0.5, -np.inf)
    p = np.exp(s - s.max())
    return p @ np.where(seen[:, None], values, 0.0) / p.sum(), keys, values


REMEMBERED = {}


def text_remembered(model, prompt, count):
    """By the lengths alone."""
    lengths = len(prompt), count
    REMEMBERED[lengths] = REMEMBERED.get(lengths) or text_by_caches(model, prompt, count)
    return REMEMBERED[lengths]


text_of_a_window = edited(
    "generate", "seen = slice(0, t + q.shape[-2])", "seen = slice(max(0, t - 31), t + q.shape[-2])",
)


capacity_that_stays = edited("next_capacity", "max(length // 2, 1)", "length // 2")
step_in_double = edited(
    "decode_step", "    return p",
    "    if keys.dtype != float:\n        keys, values = keys.astype(float), values.astype(float)\n    return p",
)
step_by_the_old_maximum = edited("decode_step", "s.max()", "s[: max(t, 1)].max()")
step_without_small = edited("decode_step", "    return p", "    p[p < 1e-3] = 0\n    return p")
calls_unshifted = edited("in_calls", "np.exp(s - s.max(1, keepdims=True))", "np.exp(s)")
calls_hidden_by_a_number = edited("in_calls", "s, -np.inf)", "s, -1e4)")
calls_of_a_window = edited(
    "in_calls", "<= at[:, None],", "<= np.where(np.arange(t + n) < t - 64, -1, at[:, None]),",
)
text_reads_one_twice = edited(  # the last one of the prompt
    "generate", "    for _", "    model.logits(np.array(new), attend)\n    t, new = len(new) - 1, new[-1:]\n    for _",
)
text_sees_its_chunk = edited(
    "generate", "causal=True", "causal=t == 0", "    for _",
    "    while len(new) > 16:\n        model.logits(np.array(new[:16]), attend)\n        t, new = t + 16, new[16:]\n"
    "    for _",
)
text_least_likely = edited("generate", "argmax", "argmin")
text_of_bytes = edited("generate", "logits[-1].argmax())", "logits[-1].argmax()) % 256")
text_of_one_at_least = edited("generate", "range(count)", "range(max(count, 1))")


def capacity_by_a_float(length):
    return int(1.48 * length) + 1 if length > 20 else length + 8


def capacity_by_two_fifths(length):
    """A little too little."""
    return max(int(1.4 * length), length + 1)


def capacity_rounded_up(length):
    return -(-3 * length // 2)


RIGHT = [
    ("next_capacity", capacity_rounded_up),
    ("next_capacity", capacity_by_a_float),
    ("decode_step", step_by_package),
    ("decode_step", step_by_cache),
    ("decode_step", step_in_torch),
    ("decode_step", step_in_jax),
    ("decode_step", step_by_shared_memory),
    ("generate", text_by_caches),
    ("generate", text_token_by_token),
    ("generate", text_in_torch),
    ("generate", text_rotated_late),
    ("in_calls", calls_by_the_law),
    ("in_calls", calls_in_torch),
    ("in_calls", calls_in_jax),
]

REFUSED = [
    ("next_capacity", capacity_by_two_fifths, "rows per token"),
    ("next_capacity", capacity_that_stays, "slots at first: 1;"),
    ("decode_step", step_that_clears, "part 2 of 3"),
    ("decode_step", step_output_only, "tuple of 3"),
    ("decode_step", step_changes_query, "changes its inputs"),
    ("decode_step", step_copies_in_torch, "copied at every step"),
    ("decode_step", step_joins, "old ones are copied"),
    ("decode_step", step_reads_all_slots, "reads slots that are not filled"),
    ("generate", text_remembered, "a third prompt"),
    ("generate", text_of_a_window, "sixty-four new tokens"),
    ("generate", text_least_likely, "ONE"),
    ("generate", text_with_a_second_look, "for each token and layer"),
    ("in_calls", calls_not_rotated, "four tokens"),
    ("in_calls", calls_list_of_parts, "one result"),
    ("in_calls", calls_unshifted, "HIGH"),
    ("in_calls", calls_hidden_by_a_number, "LOW"),
    ("decode_step", step_in_double, "copied at every step"),
    ("decode_step", step_by_the_old_maximum, "the new key alone"),
    ("decode_step", step_without_small, "one old key"),
    ("in_calls", calls_of_a_window, "331 tokens"),
    ("generate", text_reads_one_twice, "not the next ones"),
    ("generate", text_sees_its_chunk, "150 tokens"),
    ("generate", text_of_bytes, "600 different tokens"),
    ("generate", text_of_one_at_least, "no new token"),
]
