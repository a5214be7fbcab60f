#!/usr/bin/env bash
# JAX's flash attention for TPUs multiplies the bias by the scale, too, and so does its reference; jax.nn adds it after.
# JAX 0.10.2, interpreted on a CPU: with a scale of 1/2, a bias of log 3 makes a weight √3 times as large, and not 3 times.
"$(dirname "$0")/in_venv" jax==0.10.2 << 'EOF'
import math

import jax
import jax.numpy as jnp
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas.ops.tpu.flash_attention import flash_attention, mha_reference

zeros, values = jnp.zeros((1, 1, 128, 128)), jnp.eye(128)[None, None]
bias = zeros.at[..., 0].set(math.log(3))
with pltpu.force_tpu_interpret_mode():
    kernel = flash_attention(zeros, zeros, values, bias, sm_scale=0.5)
reference = mha_reference(zeros, zeros, values, bias, sm_scale=0.5)
axes = (x.swapaxes(1, 2) for x in (zeros, zeros, values))
out = jax.nn.dot_product_attention(*axes, bias=bias, scale=0.5).swapaxes(1, 2)
ratios = [(x[0, 0, 0, 0] / x[0, 0, 0, 1]).item() for x in (kernel, reference, out)]
print(jax.__version__, ratios)
assert [round(x**2) for x in ratios] == [3, 3, 9]
EOF
