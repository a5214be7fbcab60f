#!/usr/bin/env bash
# flash-attention-jax takes a float key mask for a boolean one, and 0 for hidden.
# flash-attention-jax 0.3.1 with JAX 0.10.2: the mask [0, −∞, 0, 0] leaves key 1 alone.
"$(dirname "$0")/in_venv" flash-attention-jax==0.3.1 jax==0.10.2 << 'EOF'
import jax.numpy as jnp
from flash_attention_jax import flash_attention

zeros, one = jnp.zeros((1, 1, 4, 4)), jnp.eye(4)[None, None]
out = flash_attention(zeros, zeros, one, jnp.array([[0, -jnp.inf, 0, 0]]))
print(out[0, 0, 0])
assert out[0, 0, 0].tolist() == [0, 1, 0, 0]
EOF
