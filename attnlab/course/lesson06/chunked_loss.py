"""Lesson 06, ★★★: a loss whose gradient takes memory that grows only with n."""

from attnlab.check.promises import growth
from attnlab.check.exercise import Case, Cost, Exercise, Function, Mistake

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

SIZE = 32


def chunked_loss(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Sum of the entries of softmax(q kᵀ / √D) v; query (N, D), key (M, D), value (M, Dv), lengths multiples of 32."""
    return loss()(query, key, value)


def recomputed(function: Function) -> Function:
    """``function``, of which autodiff keeps the inputs only."""
    return lambda *inputs: checkpoint(function, *inputs, use_reentrant=False, preserve_rng_state=False)


def with_random_state(function: Function) -> Function:
    """The same, keeping the state of the random generator at every call, too."""
    return lambda *inputs: checkpoint(function, *inputs, use_reentrant=False)


def kept(function: Function) -> Function:
    """``function`` as it is."""
    return function


def loss(
    *, wrap_summary: Function = recomputed, wrap_rows: Function = recomputed,
    before: Function = lambda q, k, v: (q, k, v), scale: Function = lambda d: d**-0.5,
    combine: Function | None = None, cut: Function = Tensor.detach,
) -> Function:
    """The loss as a function, each step of which can be replaced by a wrong one."""

    def summary(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        s = scale(q.shape[-1]) * q @ k.T
        m = cut(s).amax(-1)
        p = torch.exp(s - m[:, None])
        return m, p.sum(-1), p @ v

    part = wrap_summary(summary)

    def rows(q: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return (combine or total)([part(q, k, v) for k, v in zip(key.split(SIZE), value.split(SIZE))])

    def attempt(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        query, key, value = before(query, key, value)
        chunk = wrap_rows(rows)
        return sum(chunk(q, key, value) for q in query.split(SIZE))

    return attempt


def total(summaries: list[tuple[Tensor, Tensor, Tensor]]) -> Tensor:
    """⊕ over all summaries, divided and added up."""
    m = torch.stack([m_c for m_c, _, _ in summaries]).amax(0)
    factors = [torch.exp(m_c - m) for m_c, _, _ in summaries]
    l = sum(f * l_c for f, (_, l_c, _) in zip(factors, summaries))
    o = sum(f[:, None] * o_c for f, (_, _, o_c) in zip(factors, summaries))
    return (o / l[:, None]).sum()


def mean_of_chunks(summaries: list[tuple[Tensor, Tensor, Tensor]]) -> Tensor:
    """The chunks' own outputs, averaged."""
    return (sum(o / l[:, None] for _, l, o in summaries) / len(summaries)).sum()


def without_factors(summaries: list[tuple[Tensor, Tensor, Tensor]]) -> Tensor:
    """Sums of chunks that have maxima of their own."""
    return (sum(o for _, _, o in summaries) / sum(l for _, l, _ in summaries)[:, None]).sum()


def constant_sum(summaries: list[tuple[Tensor, Tensor, Tensor]]) -> Tensor:
    """The right value; l has no gradient."""
    return total([(m, l.detach(), o) for m, l, o in summaries])


def constant_factors(summaries: list[tuple[Tensor, Tensor, Tensor]]) -> Tensor:
    """The right value; the maxima within the chunks are differentiated, the factors are not."""
    m = torch.stack([m_c for m_c, _, _ in summaries]).amax(0)
    factors = [torch.exp(m_c - m).detach() for m_c, _, _ in summaries]
    l = sum(f * l_c for f, (_, l_c, _) in zip(factors, summaries))
    o = sum(f[:, None] * o_c for f, (_, _, o_c) in zip(factors, summaries))
    return (o / l[:, None]).sum()


def whole(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The standard formula."""
    return (torch.softmax(q.shape[-1] ** -0.5 * q @ k.T, -1) @ v).sum()


def whole_by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The standard formula without the library's softmax."""
    s = q.shape[-1] ** -0.5 * q @ k.T
    e = torch.exp(s - s.detach().amax(-1, keepdim=True))
    return (e / e.sum(-1, keepdim=True) @ v).sum()


def unshifted(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The bare formula."""
    e = torch.exp(q.shape[-1] ** -0.5 * q @ k.T)
    return (e / e.sum(-1, keepdim=True) @ v).sum()


def detached(*which: int) -> Function:
    """Cuts some of the three inputs off."""
    return lambda *inputs: tuple(x.detach() if i in which else x for i, x in enumerate(inputs))


def arrays(seed: int, n: int, m: int, d: int, dv: int) -> tuple[np.ndarray, ...]:
    """Random query, key and value."""
    rng = np.random.default_rng(seed)
    return tuple(rng.normal(size=size) for size in ((n, d), (m, d), (m, dv)))


def cases() -> list[Case]:
    """One chunk of each; several of each, with scores that grow from chunk to chunk; large scores."""
    recomputed(torch.sin)(torch.ones(1, requires_grad=True))  # PyTorch imports more at its first call, for seconds
    q, k, v = arrays(2, 64, 96, 8, 4)
    steep, q_high, k_high = np.linspace(0.2, 5, 96)[:, None], q.copy(), k.copy()
    q_high[:, 0], k_high[:, 0] = 100, 30  # the product of these, by √D: 1061
    return [
        Case("one chunk of 32 queries and 32 keys", arrays(0, 32, 32, 4, 2)),
        Case("RECT, UP: 64 queries, 96 keys, the scores grow from chunk to chunk", (q, k * steep, v)),
        Case("HIGH: all scores near 1000", (q_high, k_high, v)),
    ]


def long(n: int) -> tuple[np.ndarray, ...]:
    """Self-attention of n tokens."""
    return arrays(n, n, n, 32, 32)


EXERCISE = Exercise(
    lesson="06",
    stars=3,
    reference=chunked_loss,
    cases=cases,
    gradients=(0, 1, 2),
    library="torch",
    hints=(
        "Start from the forward pass of lesson 05: a loop over query chunks, in it summaries of key chunks, combined.",
        "Wrap the summary of one chunk in a checkpoint, with q, k and v of the chunk as arguments.",
        "Then wrap the work of one query chunk as well: nothing but inputs and one number a chunk is kept.",
        "In JAX: jax.checkpoint on the function given to lax.map, and on that given to lax.scan. In PyTorch: "
        "torch.utils.checkpoint.checkpoint(f, q, k, v, use_reentrant=False, preserve_rng_state=False).",
    ),
    mistakes=(
        Mistake(
            "Value and gradient are right, but an n × n matrix is held at once. Either a checkpoint stands around all "
            "of attention: recomputing then rebuilds the matrix in the backward pass. Or nothing is recomputed, and "
            "autodiff keeps the matrix, whole or tile by tile (section 5). Checkpoint the piece: the summary of a "
            "chunk of keys, and the work of a chunk of queries.",
            recomputed(whole),
            recomputed(whole_by_hand),
            loss(wrap_summary=kept, wrap_rows=kept),
            loss(wrap_summary=kept, wrap_rows=kept, cut=lambda s: s),
            whole,
            whole_by_hand,
        ),
        Mistake(
            "Value and gradient are right and the tiles are recomputed, but every call of torch.utils.checkpoint also "
            "keeps the state of the random generator, 5 KB, and there is a call for each tile. Nothing here is random: "
            "say preserve_rng_state=False (section 9).",
            loss(wrap_summary=with_random_state, wrap_rows=with_random_state),
            loss(wrap_summary=with_random_state, wrap_rows=kept),
        ),
        Mistake(
            "The value is right, but no gradient arrives: the inputs were detached, or are reached in a way that "
            "autodiff does not see. Pass the tensors themselves as arguments of the checkpointed function (section 9).",
            loss(before=detached(0, 1, 2)),
        ),
        Mistake(
            "The value is right, but key and value get no gradient: a checkpointed function sees only the tensors it "
            "is given. Pass key and value as arguments, not detached, not through a closure (section 9).",
            loss(before=detached(1, 2)),
        ),
        Mistake(
            "The value is right, but the query gets no gradient. Pass it as an argument, not detached, not through a "
            "closure (section 9).",
            loss(before=detached(0)),
        ),
        Mistake(
            "The value is right, the gradient is not: it stops at l, as if dS were P ∘ dP. Only the maximum may be a "
            "constant, because the result does not depend on it; it does depend on l (eq. 6.5, 6.9).",
            loss(combine=constant_sum),
        ),
        Mistake(
            "The value is right, the gradient is not: the maxima inside the summaries are differentiated, the factors "
            "e^(m_c − m) are not. The terms through m_c cancel only if both are, or neither (eq. 6.9).",
            loss(combine=constant_factors, cut=lambda s: s),
        ),
        Mistake(
            "You average the outputs of the chunks. A chunk weighs as much as its l: add the o and the l of all "
            "chunks, then divide (lesson 05).",
            loss(combine=mean_of_chunks),
        ),
        Mistake(
            "You add summaries that have maxima of their own. Bring them to one maximum first: multiply each l and o "
            "by e^(m_c − m) (lesson 05).",
            loss(combine=without_factors),
        ),
        Mistake("The scores lack their scale 1/√D (eq. 1.1).", loss(scale=lambda d: 1.0)),
        Mistake(
            "Your softmax is the bare one and overflows for large scores. Subtract the maximum of each row, chunk by "
            "chunk (lesson 02).",
            unshifted,
        ),
    ),
    costs=(
        Cost(
            growth(long, 128, 256, gradients=(0, 1, 2)),
            2.2,
            "the memory of value and gradient grew {found:.1f}× when n went from 128 to 256; {limit} is allowed",
        ),
    ),
)
