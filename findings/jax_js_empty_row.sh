#!/usr/bin/env bash
# jax-js isn't JAX at a row that sees nothing: NaN there, where jax.nn.dot_product_attention gives the mean.
# @jax-js/jax 0.1.25 on wasm: the mask hides all keys of query 1.
"$(dirname "$0")/in_node" @jax-js/jax@0.1.25 << 'EOF'
import { defaultDevice, init, nn, numpy as np } from "@jax-js/jax";

const iterator = Object.getPrototypeOf(Object.getPrototypeOf([][Symbol.iterator]())); // Node 20 lacks these three
iterator.map ??= function* (f) { let i = 0; for (const x of this) yield f(x, i++); };
iterator.filter ??= function* (f) { let i = 0; for (const x of this) if (f(x, i++)) yield x; };
iterator.toArray ??= function () { return [...this]; };
await init("wasm");
defaultDevice("wasm");
const one = np.eye(4).reshape([1, 4, 1, 4]);
const mask = np.array([[[[true, true, true, true], [false, false, false, false]]]]);
const out = await nn.dotProductAttention(np.zeros([1, 2, 1, 4]), np.zeros([1, 4, 1, 4]), one, { mask }).jsAsync();
const [seeing, blind] = out[0].map(row => row[0]);
console.log(seeing, blind);
if (!(seeing.every(x => x === 0.25) && blind.every(Number.isNaN))) throw new Error("it has changed");
EOF
