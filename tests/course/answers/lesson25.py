"""Answers to the exercises of lesson 25: right ones, written in other ways, and ones to refuse."""

import jax
import jax.numpy as jnp
import numpy as np
import torch

from tests.course.answers import edited


def step_by_columns(S, q, k, v, a, b):
    """Each number of a value has a column of the state, which corrects it."""
    columns = [a * s + b * (x - a * np.dot(k, s)) * k for s, x in zip(S.T, v)]
    return np.array([np.dot(q, s) for s in columns]), np.stack(columns, 1)


def step_in_torch(S, q, k, v, a, b):
    S = a * S
    S = S + k[:, None] * (b * (v - k @ S))[None]
    return q @ S, S


def step_with_a_gate_on_the_write(S, q, k, v, a, b):
    """Decay of the old alone in the second term, and of the new in the first."""
    S = a * S + np.outer(k, a * b * v - b * (k @ (a * S)))
    return q @ S, S


def weights_in_loops(g):
    C = len(g)
    G = np.zeros((C, C))
    for j in range(C):
        for i in range(j, C):
            G[i, j] = np.exp(g[j + 1 : i + 1].sum())
    return G


def weights_in_jax(g):
    below = jnp.tri(len(g), k=-1, dtype=bool)
    return jnp.tril(jnp.exp(jnp.where(below, g[:, None], 0).cumsum(0)))


def chunk_by_substitution(q, k, v, b, g, S):
    """Row by row; each G from its own sum."""
    since, (A, P) = np.exp(np.cumsum(g, 0)), np.zeros((2, len(q), len(q)))
    for i, j in zip(*np.tril_indices(len(q))):
        faded = k[j] * np.exp(g[j + 1 : i + 1].sum(0))
        A[i, j], P[i, j] = b[i] * k[i] @ faded, q[i] @ faded
    W = b[:, None] * (v - since * k @ S)
    for i in range(1, len(W)):
        W[i] -= A[i, :i] @ W[:i]
    left = np.array([np.exp(g[j + 1 :].sum(0)) for j in range(len(g))])
    return since * q @ S + P @ W, since[-1, :, None] * S + (left * k).T @ W


def chunk_in_torch(q, k, v, b, g, S):
    below = torch.ones(len(g), len(g)).tril(-1).bool()[..., None]
    sums = torch.where(below, g[:, None], 0).cumsum(0)
    A, P = ((x[:, None] * k * sums.exp()).sum(-1).tril() for x in (b[:, None] * k, q))
    W = torch.linalg.solve_triangular(A, b[:, None] * (v - g.cumsum(0).exp() * k @ S), upper=False, unitriangular=True)
    since = g.cumsum(0).exp()
    return since * q @ S + P @ W, since[-1, :, None] * S + (sums[-1].exp() * k).T @ W


def chunk_in_jax(q, k, v, b, g, S):
    since, G = jnp.exp(g.cumsum(0)), jax.vmap(weights_in_jax, 1, 2)(g)
    A, P = (jnp.einsum("if,jf,ijf->ij", x, k, G) for x in (b[:, None] * k, q))
    W = jax.scipy.linalg.solve_triangular(A, b[:, None] * (v - since * k @ S), lower=True, unit_diagonal=True)
    return since * q @ S + P @ W, since[-1, :, None] * S + (G[-1] * k).T @ W


def gates_by_name(task):
    return {"crowd": (1, 1, 0.15), "names": (0.9, 1, 0.8), "documents": (0.0, 1, 0.1)}[task]


def gates_that_nearly_forget(task):
    if task == "documents":
        return 0.05, 1.0, 0.15
    return 1.0, 1.0, 0.05 if task == "crowd" else 0.85


def gates_of_the_figure(task):
    """The best rates of section 2's figure, for keys of 16 numbers."""
    return (0.0, 1.0, 0.1) if task == "documents" else (1.0, 1.0, 0.1 if task == "crowd" else 0.5)


RIGHT = [
    ("delta_step", step_by_columns),
    ("delta_step", step_in_torch),
    ("decay_weights", weights_in_loops),
    ("decay_weights", weights_in_jax),
    ("delta_chunk", chunk_by_substitution),
    ("delta_chunk", chunk_in_torch),
    ("delta_chunk", chunk_in_jax),
    ("choose_gates", gates_by_name),
    ("choose_gates", gates_that_nearly_forget),
]

REFUSED = [
    ("delta_step", step_with_a_gate_on_the_write, "decays by half"),
    ("decay_weights", edited("decay_weights", "np.where(below, g[", "np.where(below, np.maximum(g, -8)["), "RESET"),
    ("delta_chunk", edited("delta_chunk", "v - (since * k) @ S", "v - (np.exp(g) * k) @ S"), "SPLIT"),
    ("choose_gates", gates_of_the_figure, "answers to names"),
    ("choose_gates", edited("choose_gates", '"names": (1.0, 1.0, 0.75)', '"names": (1.0, 1.0, 0.35)'), "names"),
    ("choose_gates", edited("choose_gates", '"crowd": (1.0, 1.0, 0.1)', '"crowd": (1.0, 1.5, 0.1)'),
     "gates lie from 0 to 1"),
]
