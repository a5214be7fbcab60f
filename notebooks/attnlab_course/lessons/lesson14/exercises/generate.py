"""Lesson 14, ★★★: greedy text of a model, every key computed once."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import attnlab
from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Cost, Exercise, Function, Mistake, but

import numpy as np
from numpy import ndarray as Array


class Toy:
    """A transformer with random parameters, used like a model of attnlab_course.model. It counts the keys it makes.

    ``fed``: the tokens that it was given.
    """

    def __init__(self, seed: int, layers: int, tokens: int = 13) -> None:
        self.seed, self.tokens, self.keys = seed, tokens, 0
        self.fed: list[int] = []
        self.config = SimpleNamespace(layers=layers, heads=4, kv_heads=2, d=4)
        rng, width = np.random.default_rng(seed), 12
        self.embedding, self.head = rng.normal(size=(2, tokens, width)).astype(np.float32)
        shapes = (width, 16), (width, 8), (width, 8), (16, width)
        self.blocks = [[rng.normal(size=s).astype(np.float32) for s in shapes] for _ in range(layers)]

    def logits(self, tokens: Array, attend: Callable) -> Array:
        """Of the token after each of ``tokens`` (N,), which are the new ones: (N, 13), if there are 13 tokens."""
        self.fed += np.asarray(tokens).tolist()
        x = self.embedding[np.asarray(tokens)]
        for layer, (*projections, mix) in enumerate(self.blocks):
            self.keys += len(x)
            new = x / np.sqrt((x * x).mean(1, keepdims=True))
            out = np.asarray(attend(layer, *(self.split(new @ w) for w in projections)))
            x = x + out.swapaxes(0, 1).reshape(len(x), 16) @ mix
        return x @ self.head.T

    def split(self, x: Array) -> Array:
        """(N, heads · d) → (heads, N, d)."""
        return x.reshape(len(x), -1, self.config.d).swapaxes(0, 1)

    def __deepcopy__(self, memo: Any) -> "Toy":
        return Toy(self.seed, self.config.layers, self.tokens)

    def __call__(self, *_: Any) -> None:
        """What can be called is not compared with its copy: this one counts."""
        raise TypeError("use model.logits(tokens, attend)")


def generate(model: Toy, prompt: list[int], count: int) -> list[int]:
    """``count`` greedy tokens after those of ``prompt``; model.logits(new tokens, attend) makes each key once."""
    size = model.config
    shape = size.layers, size.kv_heads, len(prompt) + count, size.d
    keys, values = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    t, new, text = 0, list(prompt), []

    def attend(layer: int, q: Array, k: Array, v: Array) -> Array:
        at = t + np.arange(q.shape[-2])
        keys[layer][:, at], values[layer][:, at] = attnlab.rotary(k, at), v
        seen = slice(0, t + q.shape[-2])
        return attnlab.tiled_attention(
            attnlab.rotary(q, at), keys[layer][:, seen], values[layer][:, seen], causal=True)

    for _ in range(count):
        logits = model.logits(np.array(new), attend)
        t += len(new)
        new = [int(logits[-1].argmax())]
        text += new
    return text


def cases() -> list[Case]:
    """From one token to several layers."""
    return [
        Case("ONE: a prompt of one token, one new token, one layer", (Toy(1, 1), [3], 1)),
        Case("a prompt of three tokens, one new token, one layer", (Toy(2, 1), [3, 1, 4], 1)),
        Case("a prompt of one token, six new tokens, one layer", (Toy(3, 1), [3], 6)),
        Case("a prompt of five tokens, eight new tokens, two layers", (Toy(4, 2), [3, 1, 4, 1, 5], 8)),
        Case("a prompt of nine tokens, twelve new tokens, three layers", (Toy(5, 3), [2, 7, 1, 8, 2, 8, 1, 8, 2], 12)),
        Case("another prompt of five tokens, sixty-four new tokens, two layers", (Toy(4, 2), [2, 7, 1, 8, 2], 64)),
        Case("a prompt of 150 tokens, eight new ones, two layers", (Toy(7, 2), [t * t % 13 for t in range(150)], 8)),
        Case("600 different tokens in place of 13, eight new ones", (Toy(8, 1, 600), [3, 311, 599], 8)),
        Case("no new token", (Toy(4, 2), [3, 1, 4, 1, 5], 0)),
        Case("a third prompt of five tokens, as many new ones, two layers", (Toy(4, 2), [6, 0, 6, 0, 6], 64)),
    ]


def keys_a_token(answer: Function, library: str) -> float:
    """Keys computed for each token and layer: two layers, 5 + 10 tokens."""
    model = Toy(6, 2)
    answer(model, [3, 1, 4, 1, 5], 10)
    return model.keys / (2 * (5 + 10))


def fed_again(answer: Function, library: str) -> float:
    """Tokens that the model was given and that are not the next of the text: prompts of 1 and of 5, 10 new tokens."""
    found = 0
    for prompt in ([3], [3, 1, 4, 1, 5]):
        model = Toy(6, 2)
        text = [*prompt, *map(int, answer(model, list(prompt), 10))]
        known = next((i for i, (a, b) in enumerate(zip(model.fed, text)) if a != b), min(len(model.fed), len(text)))
        found = max(found, len(model.fed) - known)
    return found


SLOTS = "len(prompt) + count, size.d", "9 * (len(prompt) + count), size.d"
GREW = "return attnlab.tiled_attention(", "out = attnlab.tiled_attention("

EXERCISE = Exercise(
    lesson="14", stars=3, reference=generate, where="eq. 14.3", cases=cases,
    hints=(
        "model.logits(tokens, attend) takes only the *new* tokens: the prompt in the first call, one token after that. "
        "What it knows about the others comes from your attend.",
        "attend(layer, q, k, v) gets arrays (heads, N, D) that aren't rotated yet. Their positions are t … t + N − 1 "
        "if t tokens came before: attnlab.rotary(q, at), attnlab.rotary(k, at).",
        "Every layer has its own cache, attnlab.cache.KVCache or two arrays; all layers of a call begin at the same t, "
        "so t moves after the call, not inside attend. The next token is logits[-1].argmax(), and the only new one of "
        "the next call.",
    ),
    without={
        "causal=True": phrases.sees_future("eq. 14.3"),
        "attnlab.rotary(k, at)": phrases.keys_unrotated("section 3"),
    },
    mistakes=(
        Mistake(phrases.top_left("eq. 14.3", rule="query i of a call sees j ≤ t + i"),
                but("causal=True", "mask=np.tri(len(at), t + len(at), dtype=bool)")),
        Mistake("Your positions begin at 0 in every call. They're positions in the text, t + i in a call that begins "
                "at t (section 3 and eq. 14.3).",
                but("attnlab.rotary(k, at)", "attnlab.rotary(k)", "attnlab.rotary(q, at)", "attnlab.rotary(q)"),
                but("attnlab.rotary(k, at)", "attnlab.rotary(k)"), but("attnlab.rotary(q, at)", "attnlab.rotary(q)")),
        Mistake("Your layers share one cache, but the keys of layer 0 and of layer 1 are different numbers: give each "
                "layer its own (section 3).",
                but("keys[layer]", "keys[0]", "values[layer]", "values[0]")),
        Mistake("t counts tokens, and it moves once per call. If it moves once per layer, the layers disagree on where "
                "a call begins; if it counts calls, it forgets that the first one takes the prompt (section 8 and eq. "
                "14.3).",
                but(*SLOTS, "at = t +", "nonlocal t\n        at = t +", *GREW, "causal=True)",
                    "causal=True)\n        t += q.shape[-2]\n        return out", "        t += len(new)\n", ""),
                but(*SLOTS, "at = t +", "nonlocal t\n        at = t +", *GREW, "causal=True)",
                    "causal=True)\n        t += q.shape[-2] * (layer == 0)\n        return out",
                    "        t += len(new)\n", ""),
                but("t += len(new)", "t += 1")),
        Mistake("You feed the whole text at every step, so all its keys are computed again. Keep them, and feed only "
                "the new token: eq. 14.4.",
                but("t += len(new)", "t = 0", "new = [int(logits[-1].argmax())]\n        text += new",
                    "text.append(int(logits[-1].argmax()))\n        new = [*prompt, *text]")),
    ),
    costs=(
        Cost(keys_a_token, 1, "with a prompt of 5 and 10 new tokens it computes {found:.1f} keys for each token and "
             "layer, where one is enough."),
        Cost(fed_again, 0, "of the tokens that the model was given, the last {found:.0f} were not the next ones of the "
             "text, so that a key is made twice."),
    ),
)
