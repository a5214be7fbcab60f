#!/usr/bin/env bash
# In Keras on PyTorch a row that the mask empties is the mean in float32; in float16 it is as if nothing were hidden.
# Keras 3.15.1 with torch 2.13.0 on a CPU: for scores 1, 0, 0, 0 the hidden row has the softmax of them.
"$(dirname "$0")/in_venv" keras==3.15.1 torch==2.13.0 numpy==2.3.5 << 'EOF'
import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np


def weights(dtype):
    one = np.eye(4, dtype=dtype)[None, :, None]
    hidden = np.zeros((1, 1, 1, 4), bool)
    out = keras.ops.dot_product_attention(one[:, :1], one, one, mask=hidden, scale=1.0)
    return keras.ops.convert_to_numpy(out)[0, 0, 0].astype(float).round(2).tolist()


print(keras.__version__, weights(np.float32), weights(np.float16))
assert weights(np.float32) == [0.25, 0.25, 0.25, 0.25]
assert weights(np.float16) == [0.48, 0.17, 0.17, 0.17]
EOF
