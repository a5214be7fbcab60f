#!/usr/bin/env bash
# In x-transformers with flash=True a mask that hides nothing moves the causal diagonal, where queries outnumber keys.
# x-transformers 2.31.10, 4 queries and 2 keys: query 0 sees key 0 without a mask, and none with a mask of True.
"$(dirname "$0")/in_venv" x-transformers==2.31.10 torch==2.13.0 numpy==2.3.5 << 'EOF'
from importlib.metadata import version

import torch
from x_transformers.attend import Attend


def seen(mask=None):
    one, zeros = torch.eye(2, 8)[None, None], torch.zeros(1, 1, 4, 8)
    out, _ = Attend(causal=True, flash=True)(zeros, zeros[:, :, :2], one, mask=mask)
    return (out[0, 0] > 0).sum(1).tolist()


print(version("x-transformers"), seen(), seen(torch.ones(1, 1, 4, 2, dtype=torch.bool)))
assert seen() == [1, 2, 2, 2]
assert seen(torch.ones(1, 1, 4, 2, dtype=torch.bool)) == [0, 0, 1, 2]
EOF
