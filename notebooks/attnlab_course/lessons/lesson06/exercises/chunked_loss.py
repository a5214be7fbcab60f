"""Lesson 06, ★★★: a loss whose gradient takes memory that grows only with n, and whose keys are chunked, too."""

from functools import partial

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Cost, Exercise, Mistake, but
from attnlab_course.checker.fingerprints import far_queries
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


def whole_by_hand(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The standard formula without the library's softmax."""
    s = query.shape[-1] ** -0.5 * query @ key.T
    e = torch.exp(s - s.detach().amax(-1, keepdim=True))
    return (e / e.sum(-1, keepdim=True) @ value).sum()


def recomputed(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The standard formula in one checkpoint."""
    return checkpoint(whole, query, key, value, use_reentrant=False, preserve_rng_state=False)


def rows_alone(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Query chunks of the standard formula, each in a checkpoint."""
    again = partial(checkpoint, use_reentrant=False, preserve_rng_state=False)
    return sum(again(whole, q, key, value) for q in query.split(32))


def arrays(seed: int, n: int, m: int, d: int, dv: int) -> tuple[np.ndarray, ...]:
    """Random query, key and value."""
    rng = np.random.default_rng(seed)
    return tuple(rng.normal(size=size) for size in ((n, d), (m, d), (m, dv)))


def cases() -> list[Case]:
    """One chunk of each; several of each, with scores that grow from chunk to chunk; large scores."""
    checkpoint(torch.sin, torch.ones(1, requires_grad=True), use_reentrant=False)  # the first imports more, for seconds
    q, k, v = arrays(2, 96, 160, 8, 4)  # no multiples of 64
    steep = np.linspace(0.2, 2000, 160)[:, None]
    return [
        Case("one chunk of 32 queries and 32 keys", arrays(0, 32, 32, 4, 2)),
        Case("RECT, UP: 96 queries, 160 keys, the scores grow from chunk to chunk, to thousands", (q, k * steep, v)),
        *far_queries(lambda q, k: (q, k, v), q, k, "; 96 queries, 160 keys"),
    ]


def long(n: int) -> tuple[np.ndarray, ...]:
    """Self-attention of n tokens: narrow, so that what grows with n² is not hidden by what grows with n."""
    return arrays(n, n, n, 8, 8)


def wide() -> tuple[np.ndarray, ...]:
    """One chunk of queries, many keys."""
    return arrays(7, 32, 8192, 4, 4)


ROWS = "again(attend, q, key, value)"
KEPT = "again(summary, q, k, v)", "summary(q, k, v)", ROWS, "attend(q, key, value)"
RANDOM = ", preserve_rng_state=False", ""

EXERCISE = Exercise(
    lesson="06", stars=3, reference=chunked_loss, cases=cases, gradients=(0, 1, 2), library="torch",
    costs=(
        Cost(
            growth(long, 128, 256, gradients=(0, 1, 2)),
            2.2,
            "the memory of value and gradient grew {found:.1f}× when n went from 128 to 256; {limit} is allowed. What "
            "is kept, or built again, for all pairs of chunks at once?",
        ),
        Cost(
            exponentials_at_once(wide, 8192), 1,
            "With 32 queries and 8192 keys it computed {found:.1f} × 8192 exponentials at once; the limit is {limit}. "
            "Are the keys chunked, too?",
        ),
    ),
    hints=(
        "Start from the forward pass of lesson 05: a loop over query chunks, and in it, summaries of key chunks, "
        "combined.",
        "Wrap the summary of one chunk in a checkpoint, with q, k and v of the chunk as arguments.",
        "Then wrap the work of one query chunk as well: then only inputs and one number per chunk are kept.",
        "In JAX: jax.checkpoint on the function given to lax.map, and on the one given to lax.scan. In PyTorch: "
        "torch.utils.checkpoint.checkpoint(f, q, k, v, use_reentrant=False, preserve_rng_state=False).",
    ),
    mistakes=(
        Mistake("Value and gradient are right, but you hold an n × n matrix at once. Either a checkpoint wraps all of "
                "attention, and recomputing rebuilds the matrix in the backward pass; or nothing is recomputed, and "
                "autodiff keeps the matrix, whole or tile by tile (section 5). Checkpoint the pieces: the summary of a "
                "chunk of keys, and the work of a chunk of queries.",
                recomputed, but("(whole,", "(whole_by_hand,", of=recomputed), but(*KEPT), but(*KEPT, "s.detach()", "s"),
                whole, whole_by_hand),
        Mistake("Value and gradient are right, and their memory grows with n alone, but each chunk of queries meets "
                "all keys at once: Cq · M numbers (eq. 5.9). For short texts, that's enough; here, chunk the keys, too "
                "(section 5).",
                rows_alone),
        Mistake("Value and gradient are right and the tiles are recomputed, but every call to torch.utils.checkpoint "
                "also keeps the state of the random generator, 5 KB, and there's a call for each tile. Nothing here is "
                "random: pass preserve_rng_state=False (section 9).",
                but(*RANDOM), but(*RANDOM, ROWS, "attend(q, key, value)")),
        Mistake(phrases.no_gradient("section 9", what="The inputs"),
                but(ROWS, "again(attend, q.detach(), key.detach(), value.detach())")),
        Mistake(phrases.no_gradient("section 9", what="Key and value"),
                but(ROWS, "again(attend, q, key.detach(), value.detach())")),
        Mistake(phrases.no_gradient("section 9", what="Queries"), but(ROWS, "again(attend, q.detach(), key, value)")),
        Mistake(phrases.l_constant("eqs. 6.5 and 6.9"), but("o / l[:, None]", "o / l.detach()[:, None]")),
        Mistake("The value is right, but the gradient isn't: you differentiate the maxima inside the summaries, but "
                "not the factors e^(m_c − m). The terms through m_c cancel only if both are, or neither (eq. 6.9).",
                but("torch.exp(m_c - m)", "torch.exp(m_c - m).detach()", "s.detach()", "s")),
        Mistake(phrases.averages("lesson 05, eq. 5.5"),
                but("(o / l[:, None]).sum()", "sum((o / l[:, None]).sum() for _, l, o in parts) / len(parts)")),
        Mistake(phrases.different_maxima("lesson 05, eq. 5.4"), but("torch.exp(m_c - m)", "torch.ones_like(m)")),
        Mistake(phrases.unscaled("eq. 1.1"), but("q.shape[-1] ** -0.5 * q", "q")),
        Mistake(phrases.unshifted("lesson 02, section 2"),
                but("m = s.detach().amax(-1)", "m = torch.zeros_like(s[:, 0])")),
        Mistake(phrases.one_maximum("lesson 02, eq. 2.3"),
                but("s.detach().amax(-1)", "s.detach().amax().expand(len(q))")),
        Mistake(phrases.starts_at_number("lesson 02, eq. 2.3"),
                but("s.detach().amax(-1)", "s.detach().amax(-1).clamp(min=0)")),
    ),
)
