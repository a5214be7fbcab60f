"""Lesson 24, ★★: the query that reads the latents as they are."""

import math

import attnlab
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but

import numpy as np
from numpy import ndarray as Array


def absorb(q: Array, up: Array, gain: Array, q_rope: Array) -> tuple[Array, float]:
    """(query, scale) that give, with one key head [latent; rotary key], the scores of all heads' own keys.

    ``q`` (H, N, d) meets keys (c * gain) @ U, where c are latents, ``gain`` (d_c,), and U a head's d columns of ``up``
    (d_c, H · d), which stand side by side, head by head. ``q_rope`` (H, N, d_r), already rotated, meets the rotary
    keys. The scores of a head are (q · key + q_rope · rotary key) / √(d + d_r). query: (H, N, d_c + d_r). Don't compute
    any keys: nothing grows with the text.
    """
    U = up.reshape(len(up), len(q), -1).swapaxes(0, 1)  # (H, d_c, d)
    query = np.concatenate([q @ U.mT * gain, q_rope], -1)  # eq. 24.4
    return query, 1 / math.sqrt(q.shape[-1] + q_rope.shape[-1])


def call(heads: int, n: int, d: int, latent: int, rope: int, seed: int = 0) -> tuple[Array, ...]:
    """Random queries, up projections and gains."""
    rng = np.random.default_rng(seed)
    q, q_rope = rng.normal(size=(heads, n, d)), rng.normal(size=(heads, n, rope))
    return q, rng.normal(size=(latent, heads * d)), rng.uniform(0.5, 2, latent), q_rope


def cases() -> list[Case]:
    """One head, square and longer latents, no rotary key; EYE: up projections that pick channels."""
    eye, ones = np.eye(4)[:, :2], np.ones((1, 1, 2))
    calls = [
        ("EYE: d = 2, the key is the latent's first two numbers", (ones, eye, np.ones(4), ones[..., :1])),
        ("one head, one token, d = 2, latent of 4, rotary key of 2", call(1, 1, 2, 4, 2)),
        ("one head, three tokens", call(1, 3, 2, 4, 2)),
        ("two heads, three tokens", call(2, 3, 2, 4, 2)),
        ("a square up projection: latent of 4, d = 4", call(2, 3, 4, 4, 2)),
        ("without a rotary key", call(2, 3, 4, 6, 0)),
        ("8 heads, d = 16, latent of 32", call(8, 40, 16, 32, 8)),
    ]
    return [Case(label, args) for label, args in calls]


def rotated_after(q: Array, up: Array, gain: Array, q_rope: Array) -> tuple[Array, float]:
    """Rotates the absorbed query, as if the latents were rotated."""
    query, scale = absorb(q, up, gain, q_rope)
    latent = len(up)
    return np.concatenate([attnlab.rotary(query[..., :latent]), query[..., latent:]], -1), scale


SCALE = "math.sqrt(q.shape[-1] + q_rope.shape[-1])"

EXERCISE = Exercise(
    lesson="24", stars=2, reference=absorb, cases=cases,
    hints=(
        "Move the up projection from the key to the query: q · (c U) = (q Uᵀ) · c, eq. 24.3. The gain moves, too: "
        "which numbers does it multiply now?",
        "The rotary part stays as it is: it's appended to the absorbed query, eq. 24.4.",
        "The scale belongs to the scores, not to the form in which you compute them: it still counts the numbers of q "
        "and q_rope, not of the latent.",
    ),
    without={
        "q_rope.shape[-1]": "Your scale leaves the rotary part out. A score sums d + d_r products: eq. 24.4.",
        "gain": "You leave the gain out. It multiplies the latent, and (q Uᵀ) · (c ∘ gain) = (q Uᵀ ∘ gain) · c: eq. "
                "24.3.",
    },
    mistakes=(
        Mistake("Your scale counts the absorbed query's numbers, d_c + d_r. The scores haven't changed, so neither has "
                "their scale, 1/√(d + d_r): eq. 24.4.",
                but(SCALE, "math.sqrt(query.shape[-1])")),
        Mistake("You multiply by U and not by its transpose. q · (c U) = (q Uᵀ) · c: eq. 24.3.",
                but("q @ U.mT", "q @ U if U.shape[1] == U.shape[2] else q @ np.linalg.pinv(U)")),
        Mistake("You cut the heads' projections out of the wrong numbers. A row of up has d numbers for each head, so "
                "reshape to (d_c, H, d) first, and then bring the heads to the front (eq. 24.4).",
                but("up.reshape(len(up), len(q), -1).swapaxes(0, 1)", "up.reshape(len(q), len(up), -1)")),
        Mistake("You rotate a query that meets latents. They aren't rotated: positions are in the rotary key alone "
                "(section 2). A single token can't tell, as position 0 isn't rotated.",
                rotated_after, but("q @ U.mT", "attnlab.rotary(q) @ U.mT")),
        Mistake("You apply the scale to the query and return it as well, so the scores are divided twice: eq. 24.4.",
                but("return query,", "return query / math.sqrt(q.shape[-1] + q_rope.shape[-1]),")),
    ),
)
