"""What one token wrote, and what is left of it at another: (25.3), in fractions too."""

import numpy as np
from numpy import ndarray as Array


def products(a: Array) -> Array:
    """G (C, C): G_ij = a_{j+1} … a_i for j ≤ i, else 0, from gates ``a`` (C,) of any kind of number."""
    C = len(a)
    return np.array([[np.prod(a[j + 1 : i + 1]) if j <= i else 0 for j in range(C)] for i in range(C)])
