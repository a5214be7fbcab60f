"""Models of Hugging Face transformers on attnlab: what their own eager attention gives, trained and generating."""

import copy
import functools

import pytest
import torch

from tests.support import needs, refused
from tests.support.interpreter import interpreter

needs("transformers")
with interpreter():  # it imports Triton, which the tests of kernels need as the interpreter has it
    import transformers

    pytest.importorskip("transformers.modeling_utils", reason="this PyTorch is too old for transformers")

from attnlab.adapters import transformers as adapter  # noqa: E402

BASE = dict(vocab_size=64, pad_token_id=0, bos_token_id=1, eos_token_id=None)
SMALL = BASE | dict(
    hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
    max_position_embeddings=64,
)  # fmt: skip
MIXED = dict(sliding_window=5, layer_types=["sliding_attention", "full_attention"])
GPT2 = dict(n_embd=32, n_layer=2, n_head=4, n_positions=64)
T5 = dict(d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=1, tie_word_embeddings=False)
MODELS = {
    "Llama": ("LlamaForCausalLM", "LlamaConfig", SMALL),
    "GPT-2": ("GPT2LMHeadModel", "GPT2Config", BASE | GPT2 | dict(attn_pdrop=0.0, resid_pdrop=0.0, embd_pdrop=0.0)),
    "Mistral": ("MistralForCausalLM", "MistralConfig", SMALL | dict(sliding_window=5)),
    "Gemma 3": ("Gemma3ForCausalLM", "Gemma3TextConfig", SMALL | MIXED),
    "Qwen3": ("Qwen3ForCausalLM", "Qwen3Config", SMALL),
    "GPT-OSS": ("GptOssForCausalLM", "GptOssConfig", SMALL | MIXED | dict(num_local_experts=2, num_experts_per_tok=1)),
    "T5": ("T5ForConditionalGeneration", "T5Config", BASE | T5 | dict(dropout_rate=0.0)),
}
PADDED = [False, True]
SHAPES = (2, 4, 5, 8), (1, 4, 5, 5), (2, 1, 5, 5)


@functools.cache
def model(name, implementation, dtype=torch.float32, **changes):
    """A model with random weights, large enough that attention matters; the same for every implementation."""
    adapter.register()
    kind, config, options = MODELS[name]
    config = getattr(transformers, config)(**options | changes)
    made = getattr(transformers, kind)._from_config(config, attn_implementation=implementation)
    made.generation_config.pad_token_id = 0
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weights in made.parameters():
            weights.copy_(0.4 * torch.randn(weights.shape, generator=generator))
    return made.to(dtype).eval()


def text(padded):
    """Two prompts of 12 tokens, the second padded in front where asked; no label is predicted from padding."""
    ids = torch.randint(2, 64, (2, 12), generator=torch.Generator().manual_seed(5))
    mask = torch.ones_like(ids)
    mask[1, :4] = 0 if padded else 1
    ids = ids.masked_fill(mask == 0, 0)
    labels = ids.masked_fill(torch.arange(12) <= 12 - mask.sum(1, keepdim=True), -100)
    return dict(input_ids=ids, labels=labels) | (dict(attention_mask=mask) if padded else {})


def trained(made, given):
    """Logits where there is a token, loss, and the gradients of all weights."""
    out = made(**given)
    grads = torch.autograd.grad(out.loss, list(made.parameters()), allow_unused=True)
    return out.logits[given["labels"] >= 0], out.loss, [grad for grad in grads if grad is not None]


@pytest.mark.parametrize("padded", PADDED)
@pytest.mark.parametrize("name", MODELS)
def test_logits_loss_and_gradients(name, padded):
    given = text(padded)
    ours, theirs = (trained(model(name, implementation), given) for implementation in ("attnlab", "eager"))
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("padded", PADDED)
@pytest.mark.parametrize("name", MODELS)
def test_gradient_checkpointing_changes_nothing(name, padded):
    """By recomputation, with the seeds of the forward where it drops."""
    changes = {"attn_pdrop": 0.3} if name == "GPT-2" else {"dropout_rate": 0.3} if name == "T5" else {}
    changes = changes or {"attention_dropout": 0.3}
    made, found = copy.deepcopy(model(name, "attnlab", **changes)).train(), []
    for on in (False, True):
        if on:
            getattr(made, "activation_checkpointing_enable", made.gradient_checkpointing_enable)()
        torch.manual_seed(1)
        found.append(trained(made, text(padded)))
    torch.testing.assert_close(*found, rtol=0, atol=0)
    torch.manual_seed(2)
    assert trained(made, text(padded))[1] != found[0][1]  # it did drop


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("padded", PADDED)
@pytest.mark.parametrize("name", MODELS)
def test_generated_tokens(name, padded, cache):
    given = {key: x for key, x in text(padded).items() if key != "labels"}
    options = dict(max_new_tokens=8, do_sample=False, cache_implementation=cache)
    ours, theirs = (model(name, kind).generate(**given, **options) for kind in ("attnlab", "eager"))
    assert ours.tolist() == theirs.tolist()
    assert len(ours[0].unique()) > 4  # no repetition of one token


def test_documents_packed_by_positions():
    """The mask that transformers makes of positions which begin again is taken."""
    ids = text(False)["input_ids"].reshape(1, -1)
    positions = torch.cat([torch.arange(14), torch.arange(10)])[None]
    made = model("Llama", "attnlab")
    packed = made(ids, position_ids=positions, use_cache=False).logits
    alone = [made(part).logits for part in ids.split([14, 10], 1)]
    torch.testing.assert_close(packed, torch.cat(alone, 1), rtol=1e-4, atol=1e-5)


def test_a_mask_of_numbers_is_added():
    """As a custom mask of four axes is given."""
    ids = text(False)["input_ids"]
    visible = torch.rand(2, 1, 12, 12, generator=torch.Generator().manual_seed(1)) < 0.7
    mask = torch.zeros(visible.shape).masked_fill(~(visible | torch.eye(12, dtype=torch.bool)), -1e9)
    for name in ("Llama", "GPT-OSS"):
        ours, theirs = (model(name, kind)(ids, attention_mask=mask).logits for kind in ("attnlab", "eager"))
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_a_mask_of_numbers_and_a_position_bias_are_both_added():
    """As the models of T5's kin may be given both."""
    x, bias, mask = (torch.randn(shape, generator=torch.Generator().manual_seed(2)) for shape in SHAPES)
    out, _ = adapter.attention(torch.nn.Module(), x, x, x, mask, scaling=0.5, position_bias=bias)
    expected = torch.softmax(0.5 * x @ x.mT + bias + mask, -1) @ x
    torch.testing.assert_close(out, expected.transpose(1, 2))


REFUSED = {
    "softcap": (50.0, "caps no scores; use attn_implementation='eager'"),
    "output_attentions": (True, "never holds the weights"),
    "cu_seq_lens_q": (torch.tensor([0, 12]), "packed documents by position_ids"),
    "cache": (object(), "use generate$"),
    "a_new_option": (0, "add it to attnlab.adapters.transformers.HARMLESS"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_change_the_result_is_refused(name):
    given, message = REFUSED[name]
    x = torch.ones(1, 2, 3, 4)
    with pytest.raises(ValueError, match=f"{name} is given, .*{message}"):
        adapter.attention(torch.nn.Module(), x, x, x, None, **{name: given})
    if name != "cache":  # which models of transformers 5.24 take themselves
        with pytest.raises(ValueError, match=f"{name} is given, .*{message}"):
            model("Llama", "attnlab")(text(False)["input_ids"], **{name: given})
    for absent in (None, False):
        adapter.attention(torch.nn.Module(), x, x, x, None, **{name: absent})


def test_gemma_2_is_refused():
    """Its scores are capped; a model without the cap is served."""
    adapter.register()
    ids = text(False)["input_ids"]
    for cap in (50.0, None):
        configs = [transformers.Gemma2Config(**SMALL, attn_logit_softcapping=cap) for _ in range(2)]
        made = [
            transformers.Gemma2ForCausalLM._from_config(config, attn_implementation=kind).eval()
            for config, kind in zip(configs, ("attnlab", "eager"))
        ]
        made[1].load_state_dict(made[0].state_dict())
        if cap:
            refused(ValueError, "softcap is given", made[0], ids)
        else:
            torch.testing.assert_close(*(each(ids).logits for each in made), rtol=1e-4, atol=1e-5)


@pytest.mark.full
@pytest.mark.parametrize("padded", PADDED)
@pytest.mark.parametrize("name", MODELS)
def test_in_bfloat16(name, padded):
    """At most twice as far from float32 as eager attention is."""
    given, exact = text(padded), trained(model(name, "eager"), text(padded))[0]
    ours, theirs = (
        (trained(model(name, kind, torch.bfloat16), given)[0] - exact).abs().max() for kind in ("attnlab", "eager")
    )
    assert ours <= 2 * theirs


@pytest.mark.full
@pytest.mark.parametrize("name", MODELS)
def test_compiled_in_one_graph(name):
    ids, made = text(False)["input_ids"], model(name, "attnlab")
    given = dict(input_ids=ids) | (dict(decoder_input_ids=ids) if name == "T5" else {})
    compiled = torch.compile(made, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(**given).logits, made(**given).logits)


def test_a_row_that_sees_nothing_is_zero_beside_any_sink():
    x = [torch.ones(1, 2, 3, 4, requires_grad=True) for _ in range(3)]
    sink = torch.tensor([-torch.inf, 0.5], requires_grad=True)
    out, _ = adapter.attention(torch.nn.Module(), *x, torch.zeros(1, 1, 3, 3, dtype=torch.bool), s_aux=sink)
    assert (out == 0).all()
    assert all((grad == 0).all() for grad in torch.autograd.grad(out.sum(), [*x, sink]))
