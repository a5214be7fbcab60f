"""``python -m attnlab.bench``: the algorithms side by side, as ratios of times measured in one run.

Every contestant is called in turn, round after round, and the median is taken: the machine's moods
then fall on all alike. The unit is PyTorch's scaled_dot_product_attention; beside it stands each
library's own matrix product, on the same number of operations.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import torch
from tqdm import tqdm

from attnlab import METHODS, attention

SLOW = ("lazy", "online")  # one key at a time: left out beyond 1024 keys
UNIT = "torch sdpa"


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(prog="attnlab.bench", description="Time the forward of every algorithm.")
    parser.add_argument("--n", type=int, default=2048, help="queries and keys (2048)")
    parser.add_argument("--heads", type=int, default=8, help="heads (8)")
    parser.add_argument("--d", type=int, default=64, help="size of a query, key and value (64)")
    parser.add_argument("--causal", action="store_true", help="hide later keys")
    parser.add_argument("--rounds", type=int, default=5, help="calls of each contestant (5)")
    options = parser.parse_args()
    times = measure(contestants(options.n, options.heads, options.d, options.causal), options.rounds)
    print(f"forward, {options.heads} heads, N = M = {options.n}, D = {options.d}, float32, causal {options.causal}")
    print(f"{'':<18}{'time':>10}{'relative to sdpa':>20}")
    for name, seconds in times.items():
        print(f"{name:<18}{seconds * 1e3:>7.1f} ms{seconds / times[UNIT]:>20.2f}")


def contestants(n: int, heads: int, d: int, causal: bool) -> dict[str, Callable[[], object]]:
    """Name and call of everything to time; each call ends when its result is there."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((1, heads, n, d), dtype=np.float32) for _ in range(3)]
    tensors, jarrays = [torch.asarray(x) for x in arrays], [jnp.asarray(x) for x in arrays]
    inputs = {"numpy": arrays, "jax": jarrays, "torch": tensors}
    sdpa = torch.nn.functional.scaled_dot_product_attention
    theirs = jax.jit(lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=causal))
    swapped = [x.swapaxes(1, 2) for x in jarrays]
    calls = {UNIT: lambda: sdpa(*tensors, is_causal=causal), "jax.nn": lambda: theirs(*swapped).block_until_ready()}
    for library, (q, k, v) in inputs.items():
        calls[f"{library} products"] = lambda q=q, k=k, v=v: ready((q @ k.swapaxes(-1, -2)) @ v)
        for method in METHODS:
            if n <= 1024 or method not in SLOW:
                calls[f"{library} {method}"] = lambda q=q, k=k, v=v, method=method: ready(
                    attention(q, k, v, method, causal=causal)
                )
    return calls


def ready(x: object) -> object:
    """Wait for JAX, which returns before it has computed."""
    return jax.block_until_ready(x)


def measure(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median seconds of each call over interleaved rounds, after one round that compiles and warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    with tqdm(total=(rounds + 1) * len(calls), disable=None) as bar:
        for turn in range(rounds + 1):
            for name, call in calls.items():
                bar.set_description(name)
                start = time.perf_counter()
                call()
                if turn:
                    seconds[name].append(time.perf_counter() - start)
                bar.update()
    return {name: statistics.median(values) for name, values in seconds.items()}


if __name__ == "__main__":
    main()
