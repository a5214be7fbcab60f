#!/usr/bin/env bash
# In x-transformers query head h reads key head h mod 2 of two, where PyTorch, JAX and ONNX group neighbors: h // 2.
# x-transformers 2.31.10: four query heads read key heads 0, 1, 0, 1. A grouped model's weights load all the same.
"$(dirname "$0")/in_venv" x-transformers==2.31.10 torch==2.13.0 numpy==2.3.5 << 'EOF'
from importlib.metadata import version

import torch
from x_transformers.attend import Attend

value = torch.arange(2.0)[:, None, None].expand(1, 2, 3, 8)  # all of key head g is g
out, _ = Attend(flash=False)(torch.zeros(1, 4, 3, 8), torch.zeros(1, 2, 3, 8), value)
print(version("x-transformers"), out[0, :, 0, 0].tolist())
assert out[0, :, 0, 0].tolist() == [0, 1, 0, 1]
EOF
