#!/usr/bin/env bash
# Keras' MultiHeadAttention gives another output when it is asked for the scores, too: at a row that sees nothing.
# Keras 3.15.1, backend JAX: the mean of the values without return_attention_scores, 0 with it.
"$(dirname "$0")/in_venv" keras==3.15.1 jax==0.10.2 numpy==2.3.5 << 'EOF'
import os

os.environ["KERAS_BACKEND"] = "jax"
import keras
import numpy as np

layer, one = keras.layers.MultiHeadAttention(1, 4, use_bias=False), np.eye(4, dtype=np.float32)[None]
layer.build((1, 4, 4), (1, 4, 4))
for weight in layer.weights:
    weight.assign(np.eye(4).reshape(weight.shape))
hidden = np.zeros((1, 4, 4), bool)
plain = np.asarray(layer(one, one, attention_mask=hidden))[0, 0]
beside = np.asarray(layer(one, one, attention_mask=hidden, return_attention_scores=True)[0])[0, 0]
print(keras.__version__, plain, beside)
assert plain.tolist() == [0.25] * 4
assert beside.tolist() == [0] * 4
EOF
