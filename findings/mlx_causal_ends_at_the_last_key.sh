#!/usr/bin/env bash
# MLX aligns causal to the last key, where PyTorch, JAX and ONNX align it to the first; a row of none is the mean.
# mlx 0.32.4 on a CPU: of 2 queries and 4 keys, query 0 sees 3; of 4 queries and 2 keys, query 0 sees none and averages.
"$(dirname "$0")/in_venv" 'mlx[cpu]==0.32.4' numpy==2.3.5 << 'EOF'
import mlx.core as mx
import numpy as np

mx.set_default_device(mx.cpu)


def weights(n, m):
    one = mx.array(np.eye(m, 4, dtype=np.float32))[None, None]
    zeros = mx.zeros((1, 1, max(n, m), 4))
    out = mx.fast.scaled_dot_product_attention(zeros[:, :, :n], zeros[:, :, :m], one, scale=0.5, mask="causal")
    return np.array(out)[0, 0, :, :m].round(3)


print(weights(2, 4), weights(4, 2))
assert (weights(2, 4) > 0).sum(1).tolist() == [3, 4]
assert weights(4, 2)[0].tolist() == [0.5, 0.5]
EOF
