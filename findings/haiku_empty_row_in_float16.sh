#!/usr/bin/env bash
# Haiku's MultiHeadAttention gives a row that sees nothing the mean in float32 and bfloat16, and NaN in float16.
# dm-haiku 0.0.17 with JAX 0.10.2: hidden scores are -10³⁰, which is −∞ in float16.
"$(dirname "$0")/in_venv" dm-haiku==0.0.17 jax==0.10.2 numpy==2.3.5 << 'EOF'
import haiku as hk
import jax
import jax.numpy as jnp


def row(dtype):
    def layer(x, mask):
        return hk.MultiHeadAttention(1, 4, w_init=hk.initializers.Constant(0.5), with_bias=False)(x, x, x, mask)

    call, x, hidden = hk.without_apply_rng(hk.transform(layer)), jnp.eye(4, dtype=dtype), jnp.zeros((1, 4, 4), bool)
    return call.apply(call.init(jax.random.key(0), x, hidden), x, hidden)[0].tolist()


found = {dtype.__name__: row(dtype) for dtype in (jnp.float32, jnp.bfloat16, jnp.float16)}
print(hk.__version__, found)
assert found["float32"] == found["bfloat16"] == [1, 1, 1, 1]
assert all(x != x for x in found["float16"])
EOF
