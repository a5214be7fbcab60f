"""What the attention functions of real libraries do: how those that are installed are asked, and the record of all."""

import html
from collections.abc import Callable
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

from attnlab import conventions
from attnlab_course.published import read

COLUMNS = {
    "causal, N < M": "causal, N < M", "causal, N > M": "causal, N > M", "boolean mask and causal": "mask beside causal",
    "4 query heads on 2": "4 heads on 2", "sees nothing: boolean mask": "a row of nothing, by a mask",
    "sees nothing: −∞ mask": "by −∞", "NaN in a hidden value": "NaN in a hidden value",
}  # fmt: skip
"""{what the probe asks: the head of a column}."""
FILTERS = ("causal, N < M", "boolean mask and causal", "4 query heads on 2", "sees nothing: boolean mask")
"""The columns by whose answers the table is filtered."""
JUPYTER = """
.jp-OutputArea .conventions fieldset { border: none; display: flex; flex-wrap: wrap; gap: 0.1em 1.2em; padding: 0 }
.jp-OutputArea .conventions legend { float: left; font-weight: 600; padding: 0; width: 17em }
.jp-OutputArea .conventions :is(th, td) { padding: 0.3em 0.4em; text-align: left; vertical-align: top }
.jp-OutputArea .conventions td:last-child { min-width: 8em; overflow-wrap: anywhere }
"""
"""How the table looks in JupyterLab; the site has a style of its own."""


def sdpa() -> Callable:
    """PyTorch's function, which takes the path it likes."""
    from torch.nn.functional import scaled_dot_product_attention

    return scaled_dot_product_attention


def sdpa_math() -> Callable:
    """The same, by the formula."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return sdpa_kernel(SDPBackend.MATH)(sdpa())


def torch_layer() -> Callable:
    """PyTorch's layer, whose projections are the unit matrix; asked in training, without weights."""
    import torch

    layer = torch.nn.MultiheadAttention(8, 1, bias=False, batch_first=True)
    with torch.no_grad():
        layer.in_proj_weight.copy_(torch.eye(8).repeat(3, 1))
        layer.out_proj.weight.copy_(torch.eye(8))

    def attention(query: Any, key: Any, value: Any, attn_mask: Any = None) -> Any:
        return layer.to(query.dtype)(query, key, value, attn_mask=attn_mask, need_weights=False)

    return attention


def flex() -> Callable:
    """FlexAttention, not compiled, with a boolean mask as its mask_mod."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def attention(query: Any, key: Any, value: Any, mask: Any = None, enable_gqa: bool = False) -> Any:
        blocks, sizes = None, (*query.shape[:3], key.shape[2])
        if mask is not None:
            mask = mask.expand(sizes)
            blocks = create_block_mask(lambda b, h, i, j: mask[b, h, i, j], *sizes, device="cpu")
        return flex_attention(query, key, value, block_mask=blocks, enable_gqa=enable_gqa)

    return attention


def jax_nn() -> Callable:
    """JAX's function."""
    import jax

    return jax.nn.dot_product_attention


def jax_tpu() -> Callable:
    """The reference of JAX's flash attention for TPUs, which runs anywhere; the kernel scales its bias, too."""
    from jax.experimental.pallas.ops.tpu.flash_attention import mha_reference

    def attention(query: Any, key: Any, value: Any, position_bias: Any = None, causal: bool = False) -> Any:
        return mha_reference(query, key, value, position_bias, causal=causal)

    return attention


def flax_nnx() -> Callable:
    """flax's function; linen's is alike."""
    from flax import nnx

    return nnx.dot_product_attention


def equinox_layer() -> Callable:
    """equinox's layer of one sequence, whose projections are the unit matrix."""
    import equinox
    import jax
    import jax.numpy as jnp

    layer = equinox.nn.MultiheadAttention(1, 8, key=jax.random.key(0))
    parts = lambda x: [getattr(x, f"{part}_proj").weight for part in ("query", "key", "value", "output")]  # noqa: E731
    return equinox.tree_at(parts, layer, [jnp.eye(8)] * 4)


def transformers_sdpa() -> Callable:
    """What transformers calls for attn_implementation="sdpa"."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    def attention(query: Any, key: Any, value: Any, attention_mask: Any = None, is_causal: bool = False) -> Any:
        layer = SimpleNamespace(num_key_value_groups=query.shape[1] // key.shape[1], is_causal=False)
        return sdpa_attention_forward(layer, query, key, value, attention_mask, is_causal=is_causal)

    return attention


def transformers_eager() -> Callable:
    """What Llama calls for attn_implementation="eager"."""
    from transformers.models.llama.modeling_llama import eager_attention_forward

    def attention(query: Any, key: Any, value: Any, attention_mask: Any = None) -> Any:
        layer = SimpleNamespace(num_key_value_groups=query.shape[1] // key.shape[1], training=False)
        return eager_attention_forward(layer, query, key, value, attention_mask, 8**-0.5)

    return attention


ASKED = {
    "PyTorch: SDPA": sdpa, "PyTorch: SDPA, math": sdpa_math, "PyTorch: nn.MultiheadAttention": torch_layer,
    "PyTorch: FlexAttention": flex, "JAX: jax.nn": jax_nn, "JAX: flash attention for TPUs": jax_tpu,
    "flax: nnx": flax_nnx, "equinox: MultiheadAttention": equinox_layer,
    "transformers: sdpa": transformers_sdpa, "transformers: eager": transformers_eager,
}  # fmt: skip
"""What is asked live, if its library is installed."""


def record() -> list[dict[str, Any]]:
    """A row for each function: name, version, what was seen on which date, and the script that shows it again."""
    data = read("libraries")
    rows = [{"date": data["date"], "note": "", **row} for row in data["rows"]]
    return [row | {"answers": dict(zip(COLUMNS, row["answers"], strict=True))} for row in rows]


def ask() -> dict[str, conventions.Conventions]:
    """What those answer whose libraries are installed."""
    packages = {"PyTorch": "torch", "JAX": "jax"}
    here = {name: make for name, make in ASKED.items() if find_spec(packages.get(x := name.split(":")[0], x))}
    return {name: conventions.of(make(), patience=600.0, questions=COLUMNS) for name, make in here.items()}


def table() -> str:
    """The record as HTML, with buttons that leave some of its rows; CSS alone hides the others."""
    rows, styles, form = record(), [], []
    for at, question in enumerate(FILTERS):
        answers = list(dict.fromkeys(row["answers"][question] for row in rows))
        form.append(f"<fieldset><legend>{html.escape(COLUMNS[question])}</legend>")
        for number, answer in enumerate(["all", *answers]):
            identifier, checked = f"convention-{at}-{number}", " checked" * (number == 0)
            keys = "data-lm-suppress-shortcuts"  # in JupyterLab an arrow goes to the next choice, not to another cell
            radio = f'<input type="radio" name="convention-{at}" id="{identifier}" {keys}{checked}>'
            form.append(f"<label>{radio} {html.escape(answer)}</label>")
            if number:
                others = f'tbody tr:not([data-{at}="{number}"])'
                styles.append(f".conventions:has(#{identifier}:checked) {others} {{ display: none }}")
            for row in rows:
                if row["answers"][question] == answer:
                    row.setdefault("data", []).append(f'data-{at}="{number}"')
        form.append("</fieldset>")
    head = "".join(f"<th>{html.escape(x)}</th>" for x in ("function", "axes", *COLUMNS.values(), "seen"))
    body = "\n".join(f"<tr {' '.join(row['data'])}>{''.join(map(cell, cells(row)))}</tr>" for row in rows)
    return (f'<div class="conventions"><style>{" ".join(styles)}{JUPYTER}</style>\n<form>{" ".join(form)}</form>\n'
            f"<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>")


def cell(text: str) -> str:
    """A cell of the table."""
    return f"<td>{html.escape(text)}</td>"


def cells(row: dict[str, Any]) -> list[str]:
    """The texts of a row."""
    seen = "by this page, if it's installed" if row["name"] in ASKED else f"{row['date']}, {row['script']}.sh"
    name = f"{row['name']} {row['version']}" + (f": {row['note']}" if row["note"] else "")
    return [name, row["axes"], *row["answers"].values(), seen]
