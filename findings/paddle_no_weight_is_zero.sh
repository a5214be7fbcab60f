#!/usr/bin/env bash
# Paddle's softmax never gives 0: on a CPU it takes scores for at most 64 below the maximum, also those of −∞.
# paddlepaddle 3.3.1: softmax [0, −∞] has a second weight of e⁻⁶⁴, and attention lets a hidden value of 10³⁰ through.
"$(dirname "$0")/in_venv" paddlepaddle==3.3.1 numpy==2.3.5 << 'EOF'
import math

import numpy as np
import paddle

paddle.set_device("cpu")
weights = paddle.nn.functional.softmax(paddle.to_tensor([0.0, -math.inf])).numpy()
value = paddle.to_tensor(np.array([1, 1e30], np.float32).reshape(1, 2, 1, 1))
zeros, mask = paddle.zeros((1, 2, 1, 1)), paddle.to_tensor(np.array([[[[True, False]]]]))
out = paddle.nn.functional.scaled_dot_product_attention(zeros[:, :1], zeros, value, attn_mask=mask).item()
print(paddle.__version__, weights, out)
assert abs(weights[1] / math.exp(-64) - 1) < 1e-3
assert out > 100
EOF
