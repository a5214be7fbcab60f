"""Rotary positions of today's models: scaled frequencies, partial and interleaved forms, in three libraries."""

import math

import jax
import numpy as np
import pytest
import torch

from attnlab import rotary
from tests.support import needs, refused
from tests.support.libraries import LIBRARIES, back, precision, to

LLAMA = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}
DYNAMIC = {"rope_type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 300}
LONG = {
    "rope_type": "longrope", "original_max_position_embeddings": 300, "factor": 32.0,
    "short_factor": list(np.linspace(1, 1.5, 24)), "long_factor": list(np.linspace(1, 40, 24)),
}  # fmt: skip
SCALINGS = {  # with the base and D that its models have
    "linear": ({"rope_type": "linear", "factor": 2.5}, 10000.0, 64),
    "llama3": (LLAMA, 500000.0, 128),
    "yarn": (YARN, 10000.0, 128),
    "yarn of other ramps": (YARN | {"beta_fast": 16.0, "beta_slow": 2.0, "truncate": False}, 1000000.0, 64),
    "yarn, mscale": (YARN | {"mscale": 0.7, "mscale_all_dim": 1.0}, 10000.0, 64),
    "yarn, its factor": (YARN | {"attention_factor": 1.25}, 10000.0, 64),
    "dynamic": (DYNAMIC, 10000.0, 64),
    "dynamic, short": (DYNAMIC | {"original_max_position_embeddings": 2_000_000}, 10000.0, 2),
    "longrope": (LONG, 10000.0, 48),
    "longrope, short": (LONG | {"original_max_position_embeddings": 2_000_000}, 10000.0, 48),
    "longrope, its factor": (LONG | {"attention_factor": 1.25, "factor": None}, 500000.0, 48),
}
POSITIONS = np.array([0, 1, 2, 77, 4095, 8191, 100_003, 1_000_000], np.int32)


def by_complex_numbers(x, turned, interleaved=False):
    """x with pairs multiplied by these complex numbers (N, D / 2), in float64."""
    half = turned.shape[-1]
    part = x[..., : 2 * half]
    z = part[..., ::2] + 1j * part[..., 1::2] if interleaved else part[..., :half] + 1j * part[..., half:]
    z = z * turned
    pair = z.real, z.imag
    out = np.stack(pair, -1).reshape(part.shape) if interleaved else np.concatenate(pair, -1)
    return np.concatenate([out, x[..., 2 * half :]], -1)


def oracle(scaling, base, d):
    """Frequencies in radians a token and the factor, by the formulas of the papers in float64."""
    f = base ** (-np.arange(0, d, 2) / d)
    s, kind = scaling["factor"], scaling["rope_type"]
    if kind == "linear":
        return f / s, 1.0
    old, n = scaling["original_max_position_embeddings"], POSITIONS[-1] + 1
    if kind == "dynamic":
        base *= (s * max(n, old) / old - (s - 1)) ** (d / max(d - 2, 1))
        return base ** (-np.arange(0, d, 2) / d), 1.0
    if kind == "longrope":
        factor = scaling.get("attention_factor") or math.sqrt(1 + math.log(s) / math.log(old))
        return f / scaling["long_factor" if n > old else "short_factor"], factor
    if kind == "llama3":
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        keep = (old * f / (2 * math.pi) - low) / (high - low)
        return np.where(keep >= 1, f, np.where(keep <= 0, f / s, (1 - keep) * f / s + keep * f)), 1.0
    first, last = (
        d * math.log(old / (turns * 2 * math.pi)) / (2 * math.log(base))
        for turns in (scaling.get("beta_fast", 32), scaling.get("beta_slow", 1))
    )
    if scaling.get("truncate", True):
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, d - 1)
    ramp = np.clip((np.arange(d // 2) - first) / (last - first), 0, 1)
    m, m_all = scaling.get("mscale"), scaling.get("mscale_all_dim")
    growth = 0.1 * math.log(s)
    factor = (m * growth + 1) / (m_all * growth + 1) if m else growth + 1
    return f / s * ramp + f * (1 - ramp), scaling.get("attention_factor", factor)


@pytest.mark.parametrize("name", SCALINGS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_scaled_frequencies(library, name):
    """float64 to the rounding of its angles, float32 to 2e-6 even at position 10⁶."""
    scaling, base, d = SCALINGS[name]
    f, factor = oracle(scaling, base, d)
    x = np.random.default_rng(0).normal(size=(2, 3, len(POSITIONS), d))
    expected = by_complex_numbers(x, factor * np.exp(1j * POSITIONS[:, None] * f))
    for dtype, limit in (("float64", 1e-8), ("float32", 3e-6)):
        given = x.astype(dtype)
        with precision(library, given):
            found = rotary(to(library, given), to(library, POSITIONS), base=base, scaling=scaling)
        assert back(found).dtype == dtype
        assert np.abs(back(found) - expected).max() <= limit * factor * np.abs(x).max()


@pytest.mark.parametrize("size", [None, 8, 2])
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("library", LIBRARIES)
def test_partial_and_interleaved(library, interleaved, size):
    """The first dimensions turn, the others stay bit by bit."""
    x = np.random.default_rng(1).normal(size=(2, 5, 12)).astype(np.float32)
    found = back(rotary(to(library, x), base=100.0, size=size, interleaved=interleaved))
    d = size or 12
    turned = np.exp(1j * np.arange(5)[:, None] * 100.0 ** (-np.arange(0, d, 2) / d))
    np.testing.assert_allclose(found, by_complex_numbers(x, turned, interleaved), atol=3e-6)
    np.testing.assert_array_equal(found[..., d:], x[..., d:])


@pytest.mark.parametrize("library", LIBRARIES)
def test_errors(library):
    x = to(library, np.zeros((3, 8), np.float32))
    for options, error, message in (
        (dict(size=3), ValueError, "size is 3; it must be even"),
        (dict(size=10), ValueError, "at most x's last axis, 8"),
        (dict(scaling={"rope_type": "su"}), ValueError, "rope_type 'su'; it must be one of"),
        (dict(scaling=LONG), ValueError, "must be a list of 4 numbers, one for each pair"),
        (dict(scaling=LONG | {"factor": None}, size=2), ValueError, "short_factor"),
        (dict(scaling=DYNAMIC | {"length": 0}), ValueError, "length"),
        (dict(scaling={"rope_type": "linear"}), ValueError, "lacks 'factor'"),
        (dict(scaling={"rope_type": "linear", "factor": -1.0}), ValueError, r"scaling\['factor'\] is -1"),
        (dict(scaling=YARN | {"rope_theta": 1e6}), ValueError, "'rope_theta', which 'yarn' does not take: give base"),
        (dict(scaling=LLAMA | {"beta_fast": 1.0}), ValueError, "'beta_fast', which 'llama3' does not take"),
        (dict(scaling=LLAMA | {"low_freq_factor": 4.0}), ValueError, "the second must be larger"),
    ):
        refused(error, message, rotary, x, **options)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("scaling", [DYNAMIC, LONG], ids=["dynamic", "longrope"])
def test_the_length_of_the_text_decides(scaling, library):
    """Up to the old length nothing grows; a chunk later in the text is as in the whole, if it's told the length."""
    x = to(library, np.random.default_rng(2).normal(size=(400, 48)).astype(np.float32))
    whole = back(rotary(x, scaling=scaling))
    part = rotary(x[:50], to(library, np.arange(50)), scaling=scaling | {"length": 400})
    np.testing.assert_array_equal(back(part), whole[:50])
    np.testing.assert_array_equal(back(rotary(x[-1:], 399, scaling=scaling)), whole[-1:])
    assert np.abs(back(rotary(x[:50], scaling=scaling)) - whole[:50]).max() > 0.1
    np.testing.assert_array_equal(back(rotary(x[:0], to(library, np.arange(0)), scaling=scaling)), whole[:0])
    if library == "numpy":
        return
    turn = lambda positions: rotary(x[:50], positions, scaling=scaling)  # noqa: E731
    with pytest.raises(TypeError, match=r"give scaling\['length'\]"):
        jax.jit(turn)(np.arange(50)) if library == "jax" else torch.func.vmap(turn)(torch.arange(50)[None])


def test_equal_to_transformers():
    """Their cosines and sines, of float32 angles: equal to their rounding at small positions, ours are exact."""
    needs("transformers")
    import transformers
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

    for scaling, base, d in SCALINGS.values():
        dynamic, given = scaling["rope_type"] == "dynamic", scaling | {"rope_theta": base}
        old = given.pop("original_max_position_embeddings") if dynamic else 16384
        if d == 2:  # transformers divides by D − 2
            continue
        config = transformers.LlamaConfig(
            hidden_size=2 * d, num_attention_heads=2, max_position_embeddings=old, rope_parameters=given
        )
        x = torch.randn(1, 2, 512, d, generator=torch.Generator().manual_seed(0))
        cos, sin = LlamaRotaryEmbedding(config)(x, torch.arange(512)[None])
        theirs, _ = apply_rotary_pos_emb(x, x, cos, sin)
        torch.testing.assert_close(rotary(x, base=base, scaling=scaling), theirs, rtol=0, atol=3e-4)
