"""A small model with random parameters, and its definition written out, token by token, in float64."""

import numpy as np
from attnlab_course.model import Config, Model

from tests.support.libraries import to

CONFIG = Config(layers=2, heads=4, kv_heads=2, d=4, width=12, hidden=10, context=32)
TOKENS = np.random.default_rng(1).integers(0, 257, (2, 11))


def small(library, config=CONFIG):
    """The model in a library, float64: matrices keep the size of what they map, gains and sinks are about 1."""
    draw = np.random.default_rng(0)
    drawn = {name: draw.normal(size=shape) / np.sqrt(shape[0]) for name, shape in config.shapes.items()}
    return Model(config, {name: to(library, x + (x.ndim == 1)) for name, x in drawn.items()})


def norm(x, gain):
    return x / np.sqrt(np.mean(x**2) + 1e-5) * gain


def turned(x, position):
    """Rotated by complex numbers, dimension k with k + d/2."""
    half = len(x) // 2
    z = (x[:half] + 1j * x[half:]) * np.exp(1j * position * 10000.0 ** (-np.arange(half) / half))
    return np.concatenate([z.real, z.imag])


def definition(config, p, tokens, window=None):
    """Logits (N, 257) of one sequence."""
    stream = [p["embedding"][token] for token in tokens]
    for i in range(config.layers):
        w = {name.removeprefix(f"blocks.{i}."): x for name, x in p.items()}
        seen = [norm(x, w["norm_attention"]) for x in stream]
        for t in range(len(seen)):
            stream[t] = stream[t] + attended(config, w, seen, t, window) @ w["wo"]
        for t, x in enumerate(stream):
            x = norm(x, w["norm_feed"])
            gate = x @ w["w_gate"]
            stream[t] = stream[t] + (gate / (1 + np.exp(-gate)) * (x @ w["w_up"])) @ w["w_down"]
    return np.array([p["embedding"] @ norm(x, p["norm"]) for x in stream])


def attended(config, w, seen, t, window):
    """The outputs of all heads for token t."""
    found = []
    for head in range(config.heads):
        mine, kept = (slice(h * config.d, (h + 1) * config.d) for h in (head, head * config.kv_heads // config.heads))
        query = turned(seen[t] @ w["wq"][:, mine], t)
        keys = range(0 if window is None else max(0, t - window + 1), t + 1)
        weights = np.exp([turned(seen[j] @ w["wk"][:, kept], j) @ query / np.sqrt(config.d) for j in keys])
        total = weights.sum() + (np.exp(w["sink"][head]) if config.sink else 0)
        found.append(sum(a * (seen[j] @ w["wv"][:, kept]) for a, j in zip(weights, keys)) / total)
    return np.concatenate(found)
