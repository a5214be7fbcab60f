"""The sizes of the model, and the shapes of its parameters. Array-free."""

from dataclasses import dataclass

FIRST = 256
"""The token in front of every sequence; the others, 0 to 255, are bytes."""


@dataclass(frozen=True)
class Config:
    """Sizes of a decoder-only transformer over bytes.

    ``layers`` blocks of ``heads`` query heads and ``kv_heads`` key heads of size ``d`` on a stream of size ``width``;
    ``hidden``: width of the feed-forward layer. ``context``: tokens of a training sequence. ``first``: sequences begin
    with FIRST. ``sink``: every head has a learned sink, a key whose score is a parameter and whose value is 0.
    """

    layers: int
    heads: int
    kv_heads: int
    d: int
    width: int
    hidden: int
    context: int = 512
    first: bool = True
    sink: bool = False
    vocabulary: int = 257

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each parameter, by name; a matrix maps (in, out), head h is columns h·d to (h + 1)·d."""
        query, key, width = self.heads * self.d, self.kv_heads * self.d, self.width
        block = {
            "norm_attention": (width,), "wq": (width, query), "wk": (width, key), "wv": (width, key),
            "wo": (query, width), **({"sink": (self.heads,)} if self.sink else {}),
            "norm_feed": (width,), "w_gate": (width, self.hidden), "w_up": (width, self.hidden),
            "w_down": (self.hidden, width),
        }  # fmt: skip
        blocks = {f"blocks.{i}.{name}": shape for i in range(self.layers) for name, shape in block.items()}
        return {"embedding": (self.vocabulary, width), **blocks, "norm": (width,)}
