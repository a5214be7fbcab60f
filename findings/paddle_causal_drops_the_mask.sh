#!/usr/bin/env bash
# Paddle's scaled_dot_product_attention forgets attn_mask where is_causal is given, without a word.
# paddlepaddle 3.3.1 on a CPU: key 0, which the mask hides, has half the weight of query 1.
"$(dirname "$0")/in_venv" paddlepaddle==3.3.1 setuptools==80.9.0 numpy==2.3.5 << 'EOF'
import numpy as np
import paddle

paddle.set_device("cpu")
zeros, one = paddle.zeros((1, 4, 1, 4)), paddle.to_tensor(np.eye(4, dtype=np.float32)[None, :, None])
mask = paddle.to_tensor(np.array([False, True, True, True])[None, None, None].repeat(4, 2))


def weights(causal):
    attention = paddle.nn.functional.scaled_dot_product_attention
    return attention(zeros, zeros, one, attn_mask=mask, is_causal=causal).numpy()[0, 1, 0].round(3)


print(paddle.__version__, weights(True), weights(False))
assert weights(True).tolist() == [0.5, 0.5, 0, 0]
assert weights(False)[0] == 0
EOF
