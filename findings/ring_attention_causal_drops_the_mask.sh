#!/usr/bin/env bash
# ring-attention-pytorch's default_attention forgets the mask where causal is given; and it deals heads out, h mod 2.
# ring-attention-pytorch 0.5.20: key 0, which the mask hides, has half the weight of query 1.
"$(dirname "$0")/in_venv" ring-attention-pytorch==0.5.20 torch==2.13.0 numpy==2.3.5 << 'EOF'
from importlib.metadata import version

import torch
from ring_attention_pytorch.ring_attention import default_attention

zeros, one, mask = torch.zeros(1, 4, 1, 4), torch.eye(4)[None, :, None], torch.arange(4)[None] > 0
weights = {causal: default_attention(zeros, zeros, one, mask=mask, causal=causal)[0, 1, 0] for causal in (False, True)}
value = torch.arange(2.0)[:, None].expand(1, 3, 2, 4)  # all of key head g is g
heads = default_attention(torch.zeros(1, 3, 4, 4), torch.zeros(1, 3, 2, 4), value)[0, 0, :, 0].tolist()
print(version("ring-attention-pytorch"), weights, heads)
assert weights[False][0] == 0
assert weights[True].tolist() == [0.5, 0.5, 0, 0]
assert heads == [0, 1, 0, 1]
EOF
