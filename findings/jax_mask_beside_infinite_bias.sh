#!/usr/bin/env bash
# In jax.nn a key that the mask hides gets everything, where a bias of −∞ hides the others.
# JAX 0.10.2: a mask hides key 1, a bias of −∞ key 0: the weights are [0, 1]. Each alone hides what it should.
"$(dirname "$0")/in_venv" jax==0.10.2 << 'EOF'
import jax
import jax.numpy as jnp

zeros, one = jnp.zeros((1, 2, 1, 2)), jnp.eye(2)[None, :, None]
mask, bias = jnp.array([True, False]), jnp.array([-jnp.inf, 0])


def weights(**given):
    given = {name: x[None, None, None] for name, x in given.items()}
    return jax.nn.dot_product_attention(zeros[:, :1], zeros, one, **given)[0, 0, 0].tolist()


print(jax.__version__, weights(mask=mask), weights(bias=bias), weights(mask=mask, bias=bias))
assert weights(mask=mask) == [1, 0]
assert weights(bias=bias) == [0, 1]
assert weights(mask=mask, bias=bias) == [0, 1]
EOF
