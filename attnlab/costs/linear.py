"""What linear attention costs, in each of its forms, and what its state holds: F features, a state of F (Dv + 1)."""

from attnlab.core.geometry import blocks
from attnlab.costs.cost import PassCost, check_sizes, of_method
from attnlab.linear import Features, feature_count

MAPS = {
    "elu": lambda d: (d, 2 * d),  # e^x; a minimum, so that it stays finite, and a sum
    "relu": lambda d: (0, d),
    "taylor": lambda d: (0, d * (d + 1)),  # x_i x_j for i ≤ j, times a factor
    "exp": lambda d: (d, 0),
}
"""Of each named map: the exponentials and the other operations of a token of size d."""


def linear(
    form: str, n: int, d: int, dv: int, *, features: str = "elu", chunk_size: int = 128, state: bool = False,
    heads: int = 1, itemsize: int = 2,
) -> PassCost:
    """Cost of the causal forward of ``form`` for ``heads`` heads of n tokens: a query, a key and a value each.

    quadratic    all weights A at once, which are written and read; what causal hides is computed too
    recurrent    a token at a time; the state (U, Z) stays on chip and is written once
    chunked      the same for ``chunk_size`` tokens at a time, with the weights within the chunk

    Features are made on chip, so that n·D numbers are read and not n·F. ``features``: a name of
    ``attnlab.linear.FEATURES``. ``state``: whether one comes in, to be read; a step of decoding is recurrent, n = 1,
    with it. The quadratic form has none, neither in nor out. Raises KeyError for an unknown form, ValueError for a map.
    """
    f, (exponentials, rest) = feature_count(features, d), (2 * n * count for count in MAPS[features](d))
    rest += n * d * (features == "taylor") + n * dv  # the scale; the division
    reads, writes = {"Q": n * d, "K": n * d, "V": n * dv}, {"O": n * dv}
    check_sizes(1, chunk_size=chunk_size)
    size = of_method(form, {"quadratic": max(n, 1), "recurrent": 1, "chunked": chunk_size}, "form")
    sizes = [part.stop - part.start for part in blocks(n, size)]
    area = 0 if form == "recurrent" else sum(size * size for size in sizes)
    products, rest = 2 * area * (f + dv), rest + area  # A = φ(Q) φ(K)ᵀ and A V; sums of A
    if form == "quadratic":
        reads, writes = reads | {"A": area}, writes | {"A": area}
    else:
        products += 2 * n * f * (2 * dv + 1)  # φ(K)ᵀ V, φ(Q) U and φ(Q)·Z
        rest += len(sizes) * f * (dv + 1)  # the state grows once a chunk
        rest += n * (f + dv + 1) * (form == "chunked")  # Σ φ(k); both parts of O and l are added
        held = {"U": f * dv, "Z": f}
        reads, writes = reads | held if state else reads, writes | held
    return PassCost(products, exponentials, rest, reads, writes, {}, itemsize).times(heads)


def linear_extra_elements(
    form: str, n: int, m: int, d: int, dv: int, *, features: Features = "elu", group: int = 1, chunk_size: int = 128,
    gradient: bool = False,
) -> int:
    """Extra memory of a key head and its ``group`` query heads, in elements: what the algorithm must hold, no slack.

    Weights and features of the tokens at work, and the state. With ``gradient``, beyond the gradients themselves: those
    three times over, as many numbers as query, key and value have, and the state before each chunk or token; of the
    quadratic form, which has no states, weights and features twice. Measured in
    tests/attnlab/linear/test_linear_memory.py.
    """
    f = feature_count(features, d)
    size = of_method(form, {"quadratic": max(n, m), "recurrent": 1, "chunked": chunk_size}, "form")
    rows, keys = group * min(size, n), min(size, m)
    tile, state = (0 if form == "recurrent" else rows * keys) + (rows + keys) * f, state_elements(f, dv)
    if not gradient:
        return tile + state
    if form == "quadratic":
        return 2 * (tile + state)
    return -(-max(n, m) // size) * state + group * n * d + m * (d + dv) + 3 * tile


def delta_extra_elements(f: int, dv: int, *, chunk_size: int = 64) -> int:
    """Extra memory of the chunked delta rule for a key head with one query head, in elements: what it must hold.

    2C² + C (F + 2Dv) + 2F·Dv for chunks of C tokens, however many there are: decays and products of keys; keys with
    their decay, errors and what is read; the state before and after. Measured in
    tests/attnlab/linear/test_linear_memory.py.
    """
    return 2 * chunk_size**2 + chunk_size * (f + 2 * dv) + 2 * f * dv


def state_elements(f: int, dv: int) -> int:
    """Elements of the state of a key head with f features, F (Dv + 1): U (F, Dv) and Z (F,)."""
    return f * (dv + 1)


def break_even_length(f: int, d: int, dv: int) -> float:
    """The tokens whose keys and values fill as much memory as a state of f features: F (Dv + 1) / (D + Dv).

    A longer cache is larger than the state. A step of decoding reads either, but writes the state back as well: its
    traffic is even at about twice that length.
    """
    return state_elements(f, dv) / (d + dv)
