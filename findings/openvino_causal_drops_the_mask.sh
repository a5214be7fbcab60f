#!/usr/bin/env bash
# OpenVINO's scaled_dot_product_attention ignores the mask where causal is given, without a word.
# OpenVINO 2026.4.1 on a CPU: key 0, which the mask hides, has half the weight of query 1.
"$(dirname "$0")/in_venv" openvino==2026.4.1 numpy==2.3.5 << 'EOF'
import numpy as np
import openvino
import openvino.opset13 as ops

zeros, one = np.zeros((1, 1, 4, 4), np.float32), np.eye(4, dtype=np.float32)[None, None]
mask = np.array([False, True, True, True])[None, None, None].repeat(4, 2)


def weights(causal):
    q, k, v = (ops.parameter((1, 1, 4, 4), np.float32) for _ in range(3))
    m = ops.parameter((1, 1, 4, 4), bool)
    node = ops.scaled_dot_product_attention(q, k, v, m, causal=causal)
    model = openvino.compile_model(openvino.Model([node], [q, k, v, m]), "CPU")
    return model([zeros, zeros, one, mask])[0][0, 0]


print(openvino.__version__, weights(True)[1], weights(False)[1])
assert weights(False)[1][0] == 0
assert abs(weights(True)[1] - [0.5, 0.5, 0, 0]).max() < 1e-3
EOF
