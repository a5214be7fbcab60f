#!/usr/bin/env bash
# Keras takes a float mask for a boolean one: 0 and −∞, as PyTorch adds them, hide what they should show.
# Keras 3.15.1, backend JAX: the mask [0, 0, −∞, −∞] gives the weights [0, 0, 0.5, 0.5]; an error inside is only logged.
"$(dirname "$0")/in_venv" keras==3.15.1 jax==0.10.2 << 'EOF'
import os

os.environ["KERAS_BACKEND"] = "jax"
import keras
import numpy as np

zeros, one = np.zeros((1, 4, 1, 4), np.float32), np.eye(4, dtype=np.float32)[None, :, None]
mask = np.array([0, 0, -np.inf, -np.inf], np.float32)[None, None, None]
weights = np.asarray(keras.ops.dot_product_attention(zeros[:, :1], zeros, one, mask=mask))[0, 0, 0]
print(keras.__version__, weights)
assert weights.tolist() == [0, 0, 0.5, 0.5]
EOF
