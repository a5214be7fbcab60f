#!/usr/bin/env bash
# safetensors.numpy stores a transposed array under its shape with the bytes of the other order: silently other numbers.
# safetensors 0.8.0. Its docstring asks for contiguous arrays, and nothing checks; for PyTorch it raises ValueError.
"$(dirname "$0")/in_venv" safetensors==0.8.0 numpy==2.3.5 << 'EOF'
import numpy as np
import safetensors
from safetensors.numpy import load, save

x = np.arange(6.0).reshape(2, 3)
back = load(save({"x": x.T}))["x"]
print(safetensors.__version__, x.T.tolist(), back.tolist())
assert back.shape == (3, 2)
assert back.tolist() == x.reshape(3, 2).tolist() != x.T.tolist()
EOF
