"""attnlab.conventions finds what was planted, tells any two conventions apart, and its adapters keep the contract."""

import functools
import itertools
import math
import time

import numpy as np
import pytest

from attnlab import conventions, dropout_mask, rotary, safe_attention
from attnlab.conventions import questions
from attnlab.conventions.questions import LONG, QUESTIONS, SCALES, SQUARE, WINDOWS
from tests.attnlab.call.test_lazy_import import run
from tests.support import needs, refused

INF = math.inf


def plant(change):
    """safe_attention, but for ``change(options, n, m)``, which returns other options."""

    def attention(query, key, value, **options):
        return safe_attention(query, key, value, **change(options, query.shape[-2], key.shape[-2]))

    return attention


def banded(role, left, right, at, square=True):
    """What this option hides is a band of one's own."""

    def change(options, n, m):
        asked = options.get(role) if role else True
        if asked in (None, False) or (n == m and not square):
            return options
        options.pop(role, None)
        place = np.arange(m) - np.arange(n)[:, None] - at * (m - n)
        return options | {"mask": (place >= -left) & (place <= right) & options.get("mask", True)}

    return plant(change)


def alone(first, second, kept):
    """Of two ways to hide, given together, one is ignored in silence."""
    off = {"causal": False, "mask": None, "bias": None}
    lost = second if kept == first else first
    return plant(lambda o, n, m: o | {lost: off[lost]} if o.get("causal", True) and {first, second} <= {*o} else o)


def finite(options):
    """A boolean mask as −10⁹ in place of what the bias was."""
    return options | {"bias": np.where(options["mask"], options.get("bias", 0), -1e9).astype("float32"), "mask": None}


def rescaled(default, nothing=(None,)):
    """A scale of one's own, where none is given."""
    return plant(lambda o, n, m: o | {"scale": default if o.get("scale") in nothing else o["scale"]})


def floats(change):
    """A float mask that means something else: ``change(bias, scale, scores)`` is added."""

    def attention(query, key, value, *, bias=None, scale=8**-0.5, **options):
        if bias is not None:
            keys = key.repeat(query.shape[1] // key.shape[1], 1)
            bias = change(bias, scale, scale * query @ keys.swapaxes(-1, -2))
        return safe_attention(query, key, value, bias=bias, scale=scale, **options)

    return attention


def dealt(read):
    """Query head h reads key head read(h, Hk)."""

    def attention(query, key, value, **options):
        heads = read(np.arange(query.shape[1]), key.shape[1])
        return safe_attention(query, key[:, heads], value[:, heads], **options)

    return attention


def capped(first):
    """With a soft cap, before masks or after."""

    def attention(query, key, value, *, softcap=None, mask=None, bias=0.0, **options):
        if softcap is None:
            bias = bias + np.zeros(key.shape[-2], query.dtype)
            return safe_attention(query, key, value, mask=mask, bias=bias, **options)
        scores = 8**-0.5 * query @ key.swapaxes(-1, -2)
        if first == "cap":
            return safe_attention(0 * query, key, value, bias=softcap * np.tanh(scores / softcap) + bias, mask=mask)
        scores = scores + bias if mask is None else np.where(mask, scores + bias, -1e9)
        return safe_attention(0 * query, key, value, bias=(softcap * np.tanh(scores / softcap)).astype(query.dtype))

    return attention


def filled(fill):
    """What a row that sees nothing gives: ``fill`` of the values and of the output without masks."""

    def attention(query, key, value, **options):
        if key.shape[-2] == 0:
            return np.full_like(query, np.nan)
        out, lse = safe_attention(query, key, value, **options | {"return_lse": True})
        full = safe_attention(query, key, value)
        out = np.where((lse == -INF)[..., None], fill(value, full), out).astype(query.dtype)
        return (out, lse) if options.get("return_lse") else out

    return attention


def told(change):
    """An lse of one's own."""

    def attention(query, key, value, **options):
        got = safe_attention(query, key, value, **options)
        return (got[0], change(got[1], query)) if options.get("return_lse") else got

    return attention


def sinking(weight):
    """A sink beside the scores, of e^weight(sink)."""

    def attention(query, key, value, *, sinks=None, **options):
        if sinks is None:
            return safe_attention(query, key, value, **options)
        out, lse = safe_attention(query, key, value, **options, return_lse=True)
        return out / (1 + np.exp(weight(sinks)[:, None] - lse))[..., None]

    return attention


def leaking(which):
    """NaN of a hidden key or value comes through."""

    def attention(query, key, value, **options):
        got = safe_attention(query, key, value, **options)
        spoiled = 0 * (key, value)[which].sum((-2, -1), keepdims=True).repeat(query.shape[1] // key.shape[1], 1)
        return (got[0] + spoiled, got[1]) if options.get("return_lse") else (got + spoiled).astype(query.dtype)

    return attention


def plain(query, key, value, scale=8**-0.5):
    """Products and sums in the dtype that comes, and no masks."""
    scores = query @ key.swapaxes(-1, -2) * query.dtype.type(scale)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ value


def dropping(shared=(), kept="divided"):
    """Dropout by a mask of which some axes share, and of which the kept are scaled."""

    def attention(query, key, value, *, dropout=0.0, seed=0, **options):
        out, lse = safe_attention(query, key, value, **options, return_lse=True)
        if not dropout:
            return out
        shape = [1 if axis in shared else size for axis, size in enumerate((*query.shape[:3], key.shape[2]))]
        z = np.broadcast_to(dropout_mask(seed, shape, dropout), (*lse.shape, key.shape[2]))
        options["mask"] = z & options.get("mask", True)
        out, some = safe_attention(query, key, value, **options, return_lse=True)
        factor = {"divided": 1 / (1 - dropout), "not": 1, "normalized": np.exp(lse - some)}[kept]
        return (out * (np.exp(some - lse) * factor)[..., None]).astype(query.dtype)

    return attention


def tokens_first(query, key, value, **options):
    return safe_attention(*(x.swapaxes(1, 2) for x in (query, key, value)), **options).swapaxes(1, 2)


PAIRS = {("mask", "causal"): "boolean mask and causal", ("bias", "causal"): "float mask and causal",
         ("mask", "bias"): "boolean and float mask"}  # fmt: skip
EMPTY = {
    "mean": lambda value, full: value.repeat(full.shape[1] // value.shape[1], 1).mean(-2, keepdims=True),
    "NaN": lambda value, full: np.nan, "as if it saw all": lambda value, full: full,
}  # fmt: skip
WEIGHTS = {"a score": lambda s: s, "a score, then scaled": lambda s: s * 8**-0.5, "a weight": np.log}
PLANTED = {
    "the contract": (safe_attention, {}),
    "tokens first": (tokens_first, {"axes": "heads after tokens"}),
    **{f"scale {name}": (rescaled(x), {"scale, unless given": name}) for name, x in SCALES.items() if name != "1/√D"},
    "scale 0 is none": (rescaled(8**-0.5, nothing=(None, 0)), {"scale of 0": "taken for none"}),
    **{f"scale {name}": (plant(lambda o, n, m, x=x: o | {"scale": x(o["scale"])} if "scale" in o else o),
                         {"twice the scale": name})
       for name, x in {"beside 1/√D": lambda s: s * 8**-0.5, "divides": lambda s: 1 / s if s else 0}.items()},
    "causal unless told": (banded("", INF, 0, 0), {
        "a query, unless told": "up to its own", "True in a boolean mask": "attend", "a float mask":
        "added after the scale", "float16: 70,000 keys": "–", "float16: q·k of 131,072": "right"}),
    **{f"square {name}": (banded("causal", *x), {"causal, N = M": name})
       for name, x in SQUARE.items() if name != "up to its own"},
    **{f"long {name}": (
        banded("causal", *x, square=False), {"causal, N < M": name, "causal, N > M": name})
       for name, x in LONG.items() if name != "bottom right"},
    **{f"window {name}": (banded("window", *x), {"window 2": name, "window (2, 1)": name})
       for name, x in WINDOWS.items()},
    **{f"{w} alone, not causal": (
        plant(lambda o, n, m, w=w: o | {"causal": False, "window": (w, 2)} if o.get("window") == 2 else o),
        {"window 2, causal": f"{w} left, 2 right, bottom right"}) for w in (1, 2)},
    "True hides": (
        plant(lambda o, n, m: o | {"mask": ~o["mask"]} if "mask" in o else o), {"True in a boolean mask": "hide"}),
    "True adds 1": (plant(lambda o, n, m: {**o, "bias": o["mask"] * np.float32(1), "mask": None} if "mask" in o else o),
                    {"True in a boolean mask": "1, added"}),
    "bias before the scale": (floats(lambda b, scale, s: b * scale), {"a float mask": "added before the scale"}),
    "bias subtracted": (floats(lambda b, scale, s: -b), {"a float mask": "subtracted"}),
    "bias multiplied": (floats(lambda b, scale, s: s * b - s), {"a float mask": "multiplied"}),
    "bias boolean": (floats(lambda b, scale, s: np.where(b != 0, s * 0, -INF)), {"a float mask": "taken for boolean"}),
    **{f"{a} and {b}: {kept}": (alone(a, b, kept), {q: f"{kept} alone"})
       for (a, b), q in PAIRS.items() for kept in (a, b)},
    "cap first": (capped("cap"), {"cap and boolean mask": "the cap first", "cap and float mask": "the cap first"}),
    "cap first, True adds 1": (
        lambda *qkv, mask=0, bias=0, **o: capped("cap")(*qkv, bias=np.float32(1) * mask + bias, **o),
        {"cap and boolean mask": "[[0.406, 0.251, 0.092, 0.251]]", "cap and float mask": "the cap first"}),
    "cap last": (capped("mask"), {"cap and boolean mask": "the mask first", "cap and float mask": "the mask first"}),
    "−10⁹ for −∞": (
        plant(lambda o, n, m: finite(o) if "mask" in o and "bias" not in o else o),
        {"weight of a hidden key": "1 at a score of 10¹², 1 beside −10¹²", "sees nothing: boolean mask": "mean"}),
    "a finite mask over −∞": (
        plant(lambda o, n, m: finite(o) if {"mask", "bias"} <= {*o} else o),
        {"sees nothing: half by each": "all on what only the mask hides"}),
    "hidden keys leak": (leaking(0), {"NaN in a hidden key": "leaks", "NaN in a hidden value": "stays hidden"}),
    "hidden values leak": (leaking(1), {"NaN in a hidden key": "stays hidden", "NaN in a hidden value": "leaks"}),
    "in its own dtype": (plain, {
        "float16: 70,000 keys": "[0.0, 0.0, 0.0]",
        **{f"float16: {what}": "[nan, nan, nan]" for what in ("q·k of 131,072", "score of 185,000")}}),
    "h mod Hk": (dealt(lambda h, hk: h % hk), {"4 query heads on 2": "h mod Hk"}),
    "head 0": (dealt(lambda h, hk: h if len(h) == hk else 0 * h), {"4 query heads on 2": "(0, 0, 0, 0)"}),
    **{f"empty: {name}": (filled(x), {
        f"sees nothing: {how}": name for how in ("boolean mask", "−∞ mask", "half by each", "causal")
    }) for name, x in EMPTY.items()},
    "lse of base 2": (told(lambda lse, q: lse / math.log(2)), {"lse": "base 2"}),
    "sums for lse": (told(lambda lse, q: np.exp(lse)), {"lse": "no logarithm", "lse: sees nothing": "0"}),
    "lse after heads": (told(lambda lse, q: lse.swapaxes(1, 2)), {"lse: axes": "BNH"}),
    "lse in half": (told(lambda lse, q: lse.astype(q.dtype)), {"lse: dtype for float16": "float16"}),
    "a finite lse": (told(lambda lse, q: np.maximum(lse, -1e9)), {"lse: sees nothing": "-1e+09"}),
    **{f"sink: {name}": (sinking(x), {"sink": name}) for name, x in WEIGHTS.items()},
    "kept as they are": (dropping(kept="not"), {"dropout scales the kept": "not at all"}),
    "kept normalized": (dropping(kept="normalized"), {"dropout scales the kept": "until they sum to 1"}),
    **{f"one mask for {'and'.join(x)}": (dropping([["examples", "heads", "queries"].index(y) for y in x]),
                                         {"dropout is shared by": ", ".join(x)})
       for x in (["examples"], ["heads"], ["queries"], ["examples", "heads"])},
}  # fmt: skip


@functools.cache
def found(name):
    return conventions.of(PLANTED[name][0])


@pytest.mark.parametrize("name", PLANTED)
def test_finds_what_was_planted(name):
    answers, wanted = found(name).answers, PLANTED[name][1]
    assert {question: answers[question] for question in wanted} == wanted
    assert not [answer for answer in answers.values() if " or " in answer]


def test_any_two_conventions_are_told_apart():
    assert len({tuple(found(name).answers.items()) for name in PLANTED}) == len(PLANTED)
    for one, other in itertools.combinations(PLANTED, 2):
        both = found(one).answers.items() & found(other).answers.items()
        assert len(both) < len(QUESTIONS), (one, other)


def test_every_candidate_is_planted_and_differs_from_its_rivals(monkeypatch):
    """In a row that both fill, by much more than rounding."""
    rivals = []

    def recorded(seen, candidates):
        rivals.append(candidates)
        return named(seen, candidates)

    named = questions.named
    monkeypatch.setattr(questions, "named", recorded)
    for question, (_, ask) in QUESTIONS.items():
        answers = {name: found(name).answers[question] for name in PLANTED}
        rivals[:] = [{}]
        some = next((name for name, answer in answers.items() if answer not in ("–", "refused")), None)
        if some and "float16" not in question:
            with np.errstate(all="ignore"):
                ask(found(some).call)
            assert {*rivals[-1]} <= {*answers.values()}, question
            for a, b in itertools.combinations(rivals[-1].values(), 2):
                assert np.nanmax(abs(np.asarray(a) - b)) > 0.01, (question, [*rivals[-1]])


KEEPS = {"causal unless told": "it can't be adapted so", "in its own dtype": "no mask that says"}
"""Those that no adapter can mend."""


@pytest.mark.thin(3)
@pytest.mark.parametrize("name", PLANTED)
def test_adapters_leave_no_difference(name):
    if name in KEEPS:
        refused(ValueError, KEEPS[name], found(name).adapter)
        return
    names = {"function": PLANTED[name][0]}
    exec(found(name).adapter(), names)
    assert conventions.of(names["attention"]).differences() == {}


@pytest.mark.parametrize("power", [-1, -0.5, 0, 0.5])
def test_adapters_know_a_scale_by_the_size(power):
    """At another than that at which it was asked."""

    def attention(query, key, value, *, scale=None, **options):
        return safe_attention(query, key, value, scale=query.shape[-1] ** power if scale is None else scale, **options)

    names = {"function": attention}
    exec(conventions.of(attention).adapter(), names)
    arrays = np.random.default_rng(0).normal(size=(3, 1, 2, 5, 32))
    np.testing.assert_allclose(names["attention"](*arrays), safe_attention(*arrays), atol=1e-5)


def test_the_table_and_the_difference_of_two():
    one, other = found("the contract"), found("h mod Hk")
    assert one.differences() == {}
    assert one.differences(other) == {"4 query heads on 2": ("h // G", "h mod Hk")}
    lines = str(other).splitlines()
    assert "bias by bias BHNM, window by window, lse by return_lse, dropout by dropout" in " ".join(str(other).split())
    assert max(map(len, lines)) <= 110
    assert [line for line in lines if line[0] == "*"] == [f"* {'4 query heads on 2':<29} h mod Hk"]
    assert "(no argument found for sink)" in str(other)
    page = other._repr_html_()
    assert page.count("<b>") == 1
    assert "<td>4 query heads on 2</td><td><b>h mod Hk</b></td>" in page
    assert "causal, N &lt; M" in page


def torch_sdpa():
    needs("torch")
    import torch

    return torch.nn.functional.scaled_dot_product_attention


def jax_nn():
    needs("jax")
    import jax

    return jax.nn.dot_product_attention


def torch_layer():
    """torch.nn.MultiheadAttention, whose projections are the unit matrix."""
    needs("torch")
    import torch

    layer = torch.nn.MultiheadAttention(8, 1, bias=False, batch_first=True)
    with torch.no_grad():
        layer.in_proj_weight.copy_(torch.eye(8).repeat(3, 1))
        layer.out_proj.weight.copy_(torch.eye(8))
    return lambda query, key, value, **options: layer.to(query.dtype)(query, key, value, **options)


def flex():
    needs("torch")
    from torch.nn.attention.flex_attention import flex_attention

    return flex_attention


def transformers_eager():
    needs("torch", "transformers")
    from types import SimpleNamespace

    from transformers.models.llama.modeling_llama import eager_attention_forward

    def eager(query, key, value, attention_mask=None, scaling=8**-0.5, **options):
        layer = SimpleNamespace(num_key_value_groups=query.shape[1] // key.shape[1], training=True)
        return eager_attention_forward(layer, query, key, value, attention_mask, scaling, **options)

    return eager


LIBRARIES = {
    torch_sdpa: {"causal, N < M": "top left", "causal, N = 1": "top left", "sees nothing: boolean mask": "0",
                 "sees nothing: −∞ mask": "0", "its gradient: boolean mask": "0", "NaN in a hidden value": "leaks",
                 "4 query heads on 2": "h // G", "float16: 70,000 keys": "right"},
    jax_nn: {"axes": "heads after tokens", "causal, N < M": "top left", "window 2": "2 left, 2 right, top left",
             "boolean and float mask": "both", "sees nothing: boolean mask": "mean", "sees nothing: −∞ mask": "NaN",
             "sees nothing: half by each": "all on what only the mask hides",
             "its gradient: −∞ mask": "NaN for query, NaN for key, NaN for value",
             "its gradient: boolean mask": "not 0 for value", "lse": "natural", "lse: axes": "BNH",
             "lse: sees nothing": "-2.38e+38"},
    torch_layer: {"True in a boolean mask": "hide", "4 query heads on 2": "refused",
                  "a float mask": "added after the scale"},
    flex: {"scale, unless given": "1/√D", "4 query heads on 2": "h // G"},
    transformers_eager: {"True in a boolean mask": "1, added", "a float mask": "added after the scale",
                         "4 query heads on 2": "h // G", "sees nothing: −∞ mask": "NaN",
                         "float16: score of 185,000": "[nan, nan, nan]"},
}  # fmt: skip


@functools.cache
def of_library(make):
    return conventions.of(make(), patience=600.0)


@pytest.mark.parametrize("make", [
    pytest.param(make, marks=pytest.mark.full) if make is flex else make for make in LIBRARIES
])  # fmt: skip
def test_libraries(make):
    answers = of_library(make).answers
    assert {question: answers[question] for question in LIBRARIES[make]} == LIBRARIES[make]


@pytest.mark.parametrize("make", [
    torch_sdpa, torch_layer, transformers_eager, pytest.param(jax_nn, marks=pytest.mark.full)
])  # fmt: skip
def test_adapters_of_libraries_leave_no_difference(make):
    names = {"function": make()}
    exec(of_library(make).adapter(), names)
    left = conventions.of(names["attention"], patience=600.0).differences()
    assert left == {}


@pytest.mark.parametrize("library", [pytest.param("jax", marks=pytest.mark.full), "torch"])
def test_attnlab_keeps_its_contract(library):
    needs(library)
    __import__(library)
    answers = conventions.of(safe_attention, library=library, patience=600.0)
    assert answers.differences() == {}
    assert {answers.answers[f"its gradient: {how}"] for how in ("boolean mask", "−∞ mask", "causal")} == {"0"}


def sees_its_own(query, key, value):
    return value


def another_shape(query, key, value):
    return safe_attention(query, key, value)[..., :3]


def a_list(query, key, value):
    return [safe_attention(query, key, value).tolist()]


def needs_cuda(query, key, value):
    raise RuntimeError("expected a tensor on CUDA")


def slow(query, key, value):
    time.sleep(0.02)
    return safe_attention(query, key, value)


def first_half(query, key, value):
    mask = np.arange(key.shape[-2]) < max(1, key.shape[-2] - 1)
    return safe_attention(query, key, value, mask=mask | (np.arange(query.shape[-2]) == 4)[:, None])


@pytest.mark.parametrize(("function", "options", "kind", "message"), [
    (sees_its_own, {}, TypeError, r"with axes BHND it returns something else than softmax\(query·key\)·value; wrap it"),
    (another_shape, {}, TypeError, r"for a query of shape \(2, 3, 5, 8\) it returns shape \(2, 3, 5, 3\); wrap it"),
    (a_list, {}, TypeError, "for NumPy arrays it returns list; wrap it"),
    (lambda *qkv: {"out": safe_attention(*qkv)}, {}, TypeError, "for NumPy arrays it returns dict; wrap it"),
    (needs_cuda, {}, TypeError, "RuntimeError: expected a tensor on CUDA; pass device="),
    (lambda query: query, {}, TypeError, "could not be called as attention: TypeError: .*; wrap it"),
    (slow, {"patience": 0.01}, TimeoutError, "a call of slow took 0 s; to wait longer pass patience="),
    (first_half, {"library": "numpy"}, ValueError, "hides something from its last query, unless told; wrap it"),
    (safe_attention, {"names": {"window": "span"}}, ValueError, "window='span', which safe_attention refuses"),
    (safe_attention, {"names": {"windows": "span"}}, ValueError, "a role in names is 'windows'; it must be one of"),
    (safe_attention, {"library": "cupy"}, ValueError, "library .*numpy"),
    (safe_attention, {"axes": "NBHD"}, ValueError, "axes is 'NBHD'; it must be one of BHND, BNHD"),
    (safe_attention, {"questions": ["scale"]}, ValueError, "a question is 'scale'; it must be one of"),
])  # fmt: skip
def test_errors_say_in_a_sentence_what_to_pass(function, options, kind, message):
    with pytest.raises(kind, match=message) as caught:
        conventions.of(function, **options)
    assert "\n" not in str(caught.value)


def test_a_refusal_of_every_library_is_told():
    needs("torch")
    import torch

    def of_torch_in_pairs(query, key, value):
        torch.is_floating_point(query)
        raise RuntimeError("odd")

    refused(TypeError, "TypeError: is_floating_point.*; RuntimeError: odd; wrap it", conventions.of, of_torch_in_pairs)


def test_arrays_of_another_library():
    needs("torch")
    import torch

    def mixed(query, key, value):
        return torch.from_numpy(safe_attention(np.asarray(query), np.asarray(key), np.asarray(value)))

    assert conventions.of(mixed, library="torch").call.library == "torch"
    refused(TypeError, "for NumPy arrays it returns Tensor; wrap it", conventions.of, mixed, library="numpy")


def test_arrays_go_where_they_are_told():
    needs("torch")
    import torch

    with torch.device("meta"):  # holds no numbers
        assert conventions.of(safe_attention, library="torch", device="cpu").differences() == {}
        refused(TypeError, "meta tensor; no data.*; wrap it", conventions.of, safe_attention, library="torch")


@pytest.mark.parametrize("mode", ["no_grad", "inference_mode"])
def test_gradients_are_asked_in_any_mode(mode):
    needs("torch")
    import torch

    with getattr(torch, mode)():
        found = conventions.of(safe_attention, library="torch", questions=["its gradient: boolean mask"])
        assert (found.answers, torch.is_grad_enabled()) == ({"its gradient: boolean mask": "0"}, False)


def test_arithmetic_in_bfloat16():
    """Shows in no answer, and doesn't keep an adapter back."""
    needs("torch")

    def attention(*arrays, bias=None, **options):
        *arrays, bias = (x if x is None else x.bfloat16() for x in (*arrays, bias))
        out = safe_attention(*arrays, bias=bias, **options)
        return tuple(x.float() for x in out) if isinstance(out, tuple) else out.float()

    found = conventions.of(attention, library="torch")
    assert found.differences() == {}
    names = {"function": attention}
    exec(found.adapter(), names)
    assert conventions.of(names["attention"]).differences() == {}


def test_a_window_that_must_be_a_pair():
    def attention(query, key, value, window_size=(-1, -1)):
        left, right = window_size
        return safe_attention(query, key, value, window=(left, right))

    for options in ({}, {"names": {"window": "window_size"}}):
        answers = conventions.of(attention, **options).answers
        assert (answers["window 2"], answers["window (2, 1)"]) == ("refused", "2 left, 1 right, bottom right")


def test_the_scale_beside_a_bias_of_its_own():
    def alibi(query, key, value):
        apart = abs(np.arange(key.shape[-2]) - np.arange(query.shape[-2])[:, None])
        return safe_attention(query, key, value, bias=-0.5 * apart.astype("float32"))

    assert conventions.of(alibi).answers["scale, unless given"] == "1/√D"


def test_a_keyword_of_its_own_and_what_partial_holds():
    def attention(query, key, value, cap, blocked=None):
        assert cap is None
        return safe_attention(query, key, value, mask=None if blocked is None else ~blocked)

    found = conventions.of(functools.partial(attention, cap=None), names={"mask": "blocked"})
    assert found.answers["True in a boolean mask"] == "hide"
    assert str(found).startswith("  attention  ")


def test_a_mask_of_keys_alone_beside_a_bias():
    """Whose axes aren't taken for (N, M), though an array of these is accepted and hides something."""

    def attention(query, key, value, mask=None, attn_bias=None, **ignored):
        mask = mask if mask is None else mask[: len(query), None, None]
        return safe_attention(query, key, value, mask=mask, bias=attn_bias)

    found = conventions.of(attention)
    assert (found.call.ways["mask"], found.call.ways["bias"]) == (("mask", "BM"), ("attn_bias", "BHNM"))
    assert found.answers["sees nothing: half by each"] == "0"
    names = {"function": attention}
    exec(found.adapter(), names)
    assert conventions.of(names["attention"]).differences() == {}


def test_a_flag_for_groups():
    """Is none where it's only swallowed."""

    def attention(query, key, value, mask=None, **ignored):
        assert query.shape[1] == key.shape[1]
        return safe_attention(query, key, value, mask=mask)

    found = conventions.of(attention)
    assert "grouped" not in found.call.ways
    assert found.answers["4 query heads on 2"] == "refused"
    names = {"function": attention}
    exec(found.adapter(), names)
    assert conventions.of(names["attention"]).answers["4 query heads on 2"] == "h // G"


PLAIN = {"pairs": "k, k + D/2", "token 0 stands at": "0", "base": "10,000", "multiplied": "–"}
LLAMA = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}


@pytest.mark.parametrize("library", ["numpy", "jax", "torch"])
@pytest.mark.parametrize(("options", "found"), [
    ({}, {}),
    ({"interleaved": True}, {"pairs": "2k, 2k + 1"}),
    ({"base": 5e5}, {"base": "500,000"}),
    ({"scaling": {"rope_type": "linear", "factor": 4.0}}, {"multiplied": "positions by 0.25"}),
    ({"scaling": {"rope_type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 2}},
     {"base": f"{1e4 * 3 ** (16 / 14):,.0f}"}),
    ({"scaling": {"rope_type": "llama3"} | LLAMA}, {"multiplied": "frequency 6 by 0.214, frequency 7 by 0.125"}),
    ({"scaling": {"rope_type": "yarn", "factor": 5.0, "original_max_position_embeddings": 700}},  # a ramp from 1 to 5
     {"multiplied": "vectors by 1.16, "
      + ", ".join(f"frequency {k} by {x}" for k, x in zip(range(2, 8), (0.8, 0.6, 0.4, 0.2, 0.2, 0.2)))}),
])  # fmt: skip
def test_rotary(library, options, found):
    needs(library)
    __import__(library)
    assert conventions.rotary(functools.partial(rotary, **options), library=library) == PLAIN | found


def test_rotary_by_other_positions_and_none():
    turned = [conventions.rotary(functools.partial(rotary, positions=x + np.arange(4))) for x in (1, 5, 100, -7)]
    assert [x.pop("token 0 stands at") for x in turned] == ["1", "5", "100", "-7"]
    assert turned == 4 * [{x: y for x, y in PLAIN.items() if x != "token 0 stands at"}]
    back = conventions.rotary(functools.partial(rotary, positions=-np.arange(4)))
    assert back == PLAIN | {"multiplied": "positions by -1"}
    refused(ValueError, "neither all k, .* let x .* be what it rotates", conventions.rotary, lambda x: x.cumsum(-1))
    refused(ValueError, "neither all k, .* let x .* be what it rotates", conventions.rotary, lambda x: x[::-1])


def test_rotary_in_pairs_of_complex_numbers():
    needs("torch")
    import torch

    def llama(x):
        angles = torch.arange(4.0)[:, None] * 10_000 ** (-torch.arange(8) / 8)
        turned = torch.view_as_complex(x.unflatten(-1, (8, 2))) * torch.polar(torch.ones(4, 8), angles)
        return torch.view_as_real(turned).flatten(-2)

    assert conventions.rotary(llama, library="torch") == PLAIN | {"pairs": "2k, 2k + 1"}
    refused(TypeError, "of numpy, .*, gives AttributeError: .*; pass library=", conventions.rotary, llama)


def test_rotary_of_transformers():
    needs("torch", "transformers")
    import torch
    from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb as of_gptj
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as of_llama

    angles = torch.arange(4.0)[:, None] * 10_000 ** (-torch.arange(8) / 8)
    cos, sin = angles.cos().tile(2)[None], angles.sin().tile(2)[None]
    llama = conventions.rotary(lambda x: of_llama(x[None, None], x[None, None], cos, sin)[0][0, 0], library="torch")
    gptj = conventions.rotary(
        lambda x: of_gptj(x[None, :, None], angles.sin()[None], angles.cos()[None])[0, :, 0], library="torch")
    assert (llama, gptj) == (PLAIN, PLAIN | {"pairs": "2k, 2k + 1"})


RUDE = """
import os, random
import numpy as np
from attnlab import conventions, safe_attention

def rude(query, key, value):
    random.seed(1)
    np.random.seed(1)
    os.environ["OMP_NUM_THREADS"] = "7"
    if torch:
        torch.manual_seed(1)
        torch.set_num_threads(3)
    return safe_attention(query, key, value)

def state():
    numbers = random.getstate(), np.random.get_state()[1].tolist(), dict(os.environ)
    return numbers, torch and (torch.get_rng_state().tolist(), torch.get_num_threads())

try:
    import torch
except ModuleNotFoundError:
    torch = None
before = state()
conventions.of(rude, library="numpy")
print(state() == before)
"""


def test_nothing_is_left_changed():
    """Whatever the function does; in a process of its own, as the tests' checker of types draws numbers."""
    assert run(RUDE) == "True"


def test_numpy_is_enough():
    code = "from attnlab import conventions, safe_attention\nprint(conventions.of(safe_attention).differences())"
    assert run(code, "jax", "torch", "ml_dtypes", "jaxtyping") == "{}"
