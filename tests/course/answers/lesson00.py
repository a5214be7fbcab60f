"""Answers to the exercise of lesson 00: right ones, written in other ways, and ones to refuse."""

import jax.numpy as jnp
import torch

from tests.course.answers import edited


def loop(weights, values):
    return sum(a * b for a, b in zip(weights, values)) / sum(weights)


def normalized_first(weights, values):
    return jnp.einsum("n,nd->d", weights / jnp.sum(weights), values)


def with_torch(weights, values):
    return torch.sum(weights[:, None] * values, dim=0) / torch.sum(weights)


def along_columns(weights, values):
    p = weights / weights.sum()
    return (values * p).sum(1) if values.shape[1] == len(p) else p @ values

def by_distinct_weights(weights, values):
    table = dict(zip(weights.tolist(), values))
    return sum(w * v for w, v in table.items()) / sum(table)


in_whole_blocks = edited(
    "average",
    "    return",
    "    n = len(weights) // 64 * 64 or None\n    weights, values = weights[:n], values[:n]\n    return",
)

RIGHT = [("average", loop), ("average", normalized_first), ("average", with_torch)]

REFUSED = [
    ("average", lambda weights, values: weights @ values / (2 * weights.sum()), "ONES"),
    ("average", lambda weights, values: (weights @ values / weights.sum()).sum(), "expected shape (1,), got ()"),
    ("average", lambda weights, values: weights @ values / (weights.sum() + 1e-12), "weights near 10⁻¹⁵"),
    ("average", along_columns, "weights near 10⁻¹⁵"),
    ("average", by_distinct_weights, "two weights are equal"),
    ("average", in_whole_blocks, "130"),
]
