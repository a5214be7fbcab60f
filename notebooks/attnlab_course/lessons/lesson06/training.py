"""A small transformer that learns the next byte of a text which every Python installation has, for lesson 06.

One layer of four heads, 64 wide. Attention is an argument, so that runs that differ in nothing else can be compared.
"""

from collections.abc import Callable
from pydoc_data.topics import topics

import numpy as np
import torch
from torch import Tensor, nn

CONTEXT, BATCH, WIDTH, HEADS, STEPS = 32, 16, 64, 4, 40
Attention = Callable[[Tensor, Tensor, Tensor], Tensor]

TEXT = np.frombuffer("\n\n".join(topics[name] for name in sorted(topics)).encode(), np.uint8)
LETTERS, CODES = np.unique(TEXT, return_inverse=True)


class LanguageModel(nn.Module):
    """Scores of the next byte at every position of a context, by attention and an MLP, each added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.letter, self.place = nn.Embedding(len(LETTERS), WIDTH), nn.Embedding(CONTEXT, WIDTH)
        for table in (self.letter, self.place):
            nn.init.normal_(table.weight, std=0.1)
        self.before, self.between, self.end = (nn.LayerNorm(WIDTH) for _ in range(3))
        self.qkv, self.mix = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        self.head = nn.Linear(WIDTH, len(LETTERS))

    def forward(self, x: Tensor, attention: Attention) -> Tensor:
        """Bytes (B, N) → scores (B, N, letters)."""
        x = self.letter(x) + self.place.weight
        query, key, value = self.qkv(self.before(x)).unflatten(-1, (3, HEADS, -1)).transpose(1, 3).unbind(2)
        x = x + self.mix(attention(query, key, value).transpose(1, 2).flatten(2))
        return self.head(self.end(x + self.mlp(self.between(x))))


def losses(attention: Attention) -> np.ndarray:
    """The loss at each of STEPS steps, in nats per byte; the same start and batches whatever the attention."""
    torch.manual_seed(0)
    rng, model, found = np.random.default_rng(0), LanguageModel(), []
    adam = torch.optim.AdamW(model.parameters(), lr=0.01, betas=(0.9, 0.95))
    for _ in range(STEPS):
        starts = rng.integers(len(CODES) - CONTEXT, size=(BATCH, 1))
        piece = torch.asarray(CODES[starts + np.arange(CONTEXT + 1)])
        scores = model(piece[:, :-1], attention).flatten(0, 1)
        # in float64, so that the loss's own rounding doesn't mask the difference
        loss = nn.functional.cross_entropy(scores.double(), piece[:, 1:].flatten())
        adam.zero_grad()
        loss.backward()
        adam.step()
        found.append(loss.item())
    return np.array(found)
