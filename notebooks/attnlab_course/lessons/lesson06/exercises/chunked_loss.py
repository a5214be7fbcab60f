"""Lesson 06, ★★★: a loss whose gradient takes memory that grows only with n, and whose keys are chunked, too."""

from functools import partial

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Cost, Exercise, Mistake, but
from attnlab_course.checker.fingerprints import far_queries
from attnlab_course.checker.inputs import qkv
from attnlab_course.checker.operations import exponentials_at_once
from attnlab_course.checker.promises import growth

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint


def chunked_loss(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Sum of the entries of softmax(q kᵀ / √D) v; query (N, D), key (M, D), value (M, Dv), lengths multiples of 32."""
    again = partial(checkpoint, use_reentrant=False, preserve_rng_state=False)

    def summary(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        s = q.shape[-1] ** -0.5 * q @ k.T
        m = s.detach().amax(-1)
        p = torch.exp(s - m[:, None])
        return m, p.sum(-1), p @ v

    def attend(q: Tensor, key: Tensor, value: Tensor) -> Tensor:
        parts = [again(summary, q, k, v) for k, v in zip(key.split(32), value.split(32))]
        m = torch.stack([m_c for m_c, _, _ in parts]).amax(0)
        factors = [torch.exp(m_c - m) for m_c, _, _ in parts]
        l = sum(f * l_c for f, (_, l_c, _) in zip(factors, parts))
        o = sum(f[:, None] * o_c for f, (_, _, o_c) in zip(factors, parts))
        return (o / l[:, None]).sum()

    return sum(again(attend, q, key, value) for q in query.split(32))


def whole(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The standard formula."""
    return (torch.softmax(query.shape[-1] ** -0.5 * query @ key.T, -1) @ value).sum()


def recomputed(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The standard formula in one checkpoint."""
    return checkpoint(whole, query, key, value, use_reentrant=False, preserve_rng_state=False)


def rows_alone(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Query chunks of the standard formula, each in a checkpoint."""
    return sum(recomputed(q, key, value) for q in query.split(32))


def cases() -> list[Case]:
    """One chunk of each; several of each, with scores that grow from chunk to chunk; large scores."""
    checkpoint(torch.sin, torch.ones(1, requires_grad=True), use_reentrant=False)  # the first imports more, for seconds
    q, k, v = qkv(96, 160, 8, 4)  # no multiples of 64
    steep = np.linspace(0.2, 2000, 160)[:, None]
    return [
        Case("one chunk of 32 queries and 32 keys", qkv(32, 32, 4, 2)),
        Case("RECT, UP: 96 queries, 160 keys, the scores grow from chunk to chunk, to thousands", (q, k * steep, v)),
        *far_queries(lambda q, k: (q, k, v), q, k, "; 96 queries, 160 keys"),
    ]


ROWS = "again(attend, q, key, value)"
KEPT = "again(summary, q, k, v)", "summary(q, k, v)", ROWS, "attend(q, key, value)"

EXERCISE = Exercise(
    lesson="06", stars=3, reference=chunked_loss, cases=cases, gradients=(0, 1, 2), library="torch",
    costs=(
        Cost(growth(lambda n: qkv(n, n, 8, 8), 128, 256, gradients=(0, 1, 2)), 2.2,  # narrow: what grows with n² shows
             "the memory of value and gradient grew {found:.1f}× when n went from 128 to 256; {limit} is allowed. What "
             "is kept, or built again, for all pairs of chunks at once?"),
        Cost(exponentials_at_once(lambda: qkv(32, 8192, 4, 4), 8192), 1,
             "With 32 queries and 8192 keys it computed {found:.1f} × 8192 exponentials at once; the limit is {limit}. "
             "Are the keys chunked, too?"),
    ),
    hints=(
        "Start from the forward pass of lesson 05: a loop over query chunks, and in it, summaries of key chunks.",
        "Wrap the summary of one chunk in a checkpoint, given its q, k and v; and then the work of one query chunk.",
        "jax.checkpoint on the functions given to lax.map and lax.scan, or torch.utils.checkpoint.checkpoint(f, q, k, "
        "v, use_reentrant=False, preserve_rng_state=False).",
    ),
    without={
        "q.shape[-1] ** (-0.5)": phrases.unscaled("eq. 1.1"),
        "f": phrases.different_maxima("lesson 05, eq. 5.4"),
    },
    mistakes=(
        Mistake("Value and gradient are right, but you hold an n × n matrix at once. A checkpoint around all of "
                "attention rebuilds it in the backward pass, and without one, autodiff keeps it, whole or in tiles. "
                "Checkpoint the summary of a chunk of keys, and the work of a chunk of queries (section 5).",
                recomputed, but(*KEPT), but(*KEPT, "s.detach()", "s"), whole),
        Mistake("Value and gradient are right, and their memory grows with n alone, but each chunk of queries meets "
                "all keys at once: Cq · M numbers (eq. 5.9). Chunk the keys, too.",
                rows_alone),
        Mistake("Value and gradient are right, but each checkpoint, one per tile, also keeps the state of the random "
                "generator, 5 KB. Nothing here is random: pass preserve_rng_state=False (section 7).",
                but(", preserve_rng_state=False", ""),
                but(", preserve_rng_state=False", "", ROWS, "attend(q, key, value)")),
        Mistake(phrases.no_gradient("section 7", what="Queries, or keys and values,"),
                but(ROWS, "again(attend, q.detach(), key.detach(), value.detach())"),
                but(ROWS, "again(attend, q, key.detach(), value.detach())"),
                but(ROWS, "again(attend, q.detach(), key, value)")),
        Mistake(phrases.l_constant("eqs. 6.5 and 6.9"), but("o / l[:, None]", "o / l.detach()[:, None]")),
    ),
)
