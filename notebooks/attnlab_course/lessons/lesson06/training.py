"""A small transformer that learns the next byte of a text which every Python installation has, for lesson 06.

Two layers of four heads, 64 wide, about a hundred thousand parameters. Attention is an argument, so that runs that
differ in nothing else can be compared step by step.
"""

from collections.abc import Callable
from pydoc_data.topics import topics

import numpy as np
import torch
from torch import Tensor, nn

CONTEXT, BATCH, WIDTH, HEADS, LAYERS, STEPS = 32, 32, 64, 4, 2, 200
Attention = Callable[[Tensor, Tensor, Tensor], Tensor]

TEXT = np.frombuffer("\n\n".join(topics[name] for name in sorted(topics)).encode(), np.uint8)
LETTERS, CODES = np.unique(TEXT, return_inverse=True)


class Layer(nn.Module):
    """Attention, then an MLP, each added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.mix = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor, attention: Attention) -> Tensor:
        """(B, N, WIDTH) → the same shape."""
        query, key, value = self.qkv(self.before(x)).unflatten(-1, (3, HEADS, -1)).transpose(1, 3).unbind(2)
        x = x + self.mix(attention(query, key, value).transpose(1, 2).flatten(2))
        return x + self.mlp(self.between(x))


class LanguageModel(nn.Module):
    """Scores of the next byte at every position of a context."""

    def __init__(self) -> None:
        super().__init__()
        self.letter, self.place = nn.Embedding(len(LETTERS), WIDTH), nn.Embedding(CONTEXT, WIDTH)
        for table in (self.letter, self.place):
            nn.init.normal_(table.weight, std=0.1)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.end, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, len(LETTERS))

    def forward(self, x: Tensor, attention: Attention) -> Tensor:
        """Bytes (B, N) → scores (B, N, letters)."""
        x = self.letter(x) + self.place.weight[: x.shape[-1]]
        for layer in self.layers:
            x = layer(x, attention)
        return self.head(self.end(x))


def losses(attention: Attention, step: Callable[[], object]) -> np.ndarray:
    """The loss at each of STEPS steps, in nats per byte; the same start and batches whatever the attention.

    ``step`` is called after each step. One thread: the matrices are small, and sums keep their order.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rng, model, found = np.random.default_rng(0), LanguageModel(), []
    adam = torch.optim.AdamW(model.parameters(), lr=0.01, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.OneCycleLR(adam, 0.01, total_steps=STEPS, pct_start=0.1)
    for _ in range(STEPS):
        starts = rng.integers(len(CODES) - CONTEXT, size=(BATCH, 1))
        piece = torch.asarray(CODES[starts + np.arange(CONTEXT + 1)])
        scores = model(piece[:, :-1], attention).flatten(0, 1)
        # in float64, so that the loss's own rounding doesn't mask the difference
        loss = nn.functional.cross_entropy(scores.double(), piece[:, 1:].flatten())
        adam.zero_grad()
        loss.backward()
        adam.step()
        schedule.step()
        found.append(loss.item())
        step()
    torch.set_num_threads(threads)
    return np.array(found)
