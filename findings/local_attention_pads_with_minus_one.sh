#!/usr/bin/env bash
# local-attention pads keys and values with −1, and a row that sees nothing returns that padding, among others.
# local-attention 1.11.2: all values are 1; the output of a query whose keys are hidden is 0.
"$(dirname "$0")/in_venv" local-attention==1.11.2 torch==2.13.0 numpy==2.3.5 << 'EOF'
from importlib.metadata import version

import torch
from local_attention import LocalAttention

layer = LocalAttention(window_size=4, causal=True, look_backward=1, use_rotary_pos_emb=False, dim=8)
zeros, mask = torch.zeros(1, 1, 8, 8), torch.arange(8)[None] > 3  # keys 0 to 3, the first window, are hidden
out = layer(zeros, zeros, zeros + 1, mask=mask)[0, 0, :, 0]
print(version("local-attention"), out.tolist())
assert out[4:].tolist() == [1, 1, 1, 1]
assert out[:4].tolist() == [0, 0, 0, 0]
EOF
