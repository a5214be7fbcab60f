#!/usr/bin/env bash
# The residual of jax.nn isn't −∞ where a row sees nothing, and the row is the mean of the hidden values.
# JAX 0.10.2: about −2.38·10³⁸; merged with another such part by the usual rule it gives the mean of both means, not 0.
"$(dirname "$0")/in_venv" jax==0.10.2 << 'EOF'
import jax
import jax.numpy as jnp

zeros, values = jnp.zeros((1, 4, 1, 2)), jnp.arange(8.0).reshape(1, 4, 1, 2)
mask = jnp.zeros((1, 1, 1, 4), bool)
out, residual = jax.nn.dot_product_attention(zeros[:, :1], zeros, values, mask=mask, return_residual=True)
print(jax.__version__, residual, out)
assert -2.4e38 < residual.item() < -2.3e38
assert out.ravel().tolist() == [3, 4]
EOF
