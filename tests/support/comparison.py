"""How far an answer may lie from the oracle's."""

import numpy as np

from tests.support import oracle
from tests.support.libraries import ARRAYS, EPS, accumulation, back, dtype_of


def standard(query, key, value, kind, options):
    """The textbook formula with every intermediate result rounded to ``kind``."""
    group = query.shape[-3] // key.shape[-3]

    def rounded(x):
        return x.astype(query.dtype).astype(np.float32)

    k, v = (np.repeat(rounded(x), group, axis=-3) for x in (key, value))
    scale = options.get("scale")
    s = rounded(rounded(query) @ k.swapaxes(-1, -2))
    s = rounded(s * np.float32(query.shape[-1] ** -0.5 if scale is None else scale))
    if options.get("bias") is not None:
        s = rounded(s + options["bias"].astype(np.float32))
    weight = np.zeros(s.shape, np.float32)
    for at in np.ndindex(s.shape[:-1]):
        seen = [j for j in range(s.shape[-1]) if oracle.visible(at, j, *s.shape[-2:], options)]
        if seen:
            e = rounded(np.exp(rounded(s[at][seen] - s[at][seen].max())))
            weight[at][seen] = rounded(e / rounded(e.sum())) * keeps(at, seen, s.shape, options)
    return rounded(rounded(weight) @ v)


def keeps(at, seen, shape, options):
    """Dropout of one row of the standard formula."""
    return oracle.row_dropout(int(np.ravel_multi_index(at[:-1], shape[:-2])), at[-1], seen, options)


def rounding(kind, size):
    """Relative error that scores of that size leave after exp and a sum, per row."""
    return np.clip(4 * EPS[accumulation(kind)] * (2 + size), 0, 1e-2)


def tolerance(case, kind):
    """Largest error allowed in out, per row: rounding of the scores and of the result, and for low
    precision twice the error of the standard formula on top."""
    expected = case.expected()
    peak = np.abs(expected.out).max(initial=0)
    limit = (rounding(kind, expected.size)[..., None] + EPS[kind] / 2) * max(peak, 1e-3)
    if kind in ("float16", "bfloat16") and expected.out.size:
        arrays = case.arrays("numpy")
        if all(np.isfinite(arrays[name].astype(np.float32)).all() for name in ("query", "key", "value")):
            options = {**case.options, **{k: arrays[k] for k in ARRAYS if k in arrays}}
            plain = standard(arrays["query"], arrays["key"], arrays["value"], kind, options)
            limit = limit + 2 * np.abs(plain - expected.out).max()
    return limit


def assert_close(actual, desired, limit, what):
    """|actual − desired| ≤ limit, element by element; infinities and NaN in the same places."""
    actual, desired = np.asarray(actual, np.float64), np.asarray(desired, np.float64)
    assert actual.shape == desired.shape, f"{what} has shape {actual.shape}, not {desired.shape}"
    limit = np.broadcast_to(limit, desired.shape)
    np.testing.assert_allclose(actual / limit, desired / limit, rtol=0, atol=1, err_msg=f"{what}, in limits")


def assert_agrees(case, out, lse):
    """The answer has the dtypes, shapes and numbers of the oracle's."""
    kind = case.stored["query"].dtype.name
    expected = case.expected()
    assert dtype_of(out) == kind
    assert dtype_of(lse) == accumulation(kind)
    assert_close(back(out), expected.out, tolerance(case, kind), "out")
    limit = 4 * EPS[accumulation(kind)] * (2 + expected.size)
    assert_close(back(lse), expected.lse, limit, "lse")


def assert_gradients_agree(case, grads, dout, dlse):
    """Each gradient has the dtype and shape of its array and the numbers of the oracle's."""
    arrays = case.arrays("numpy")
    with np.errstate(all="ignore"):
        expected = oracle.gradients(**arrays, dout=np.asarray(dout, float), dlse=dlse, **case.options)
    size = np.max(case.expected().size, initial=0)
    for name, grad in grads.items():
        kind = arrays[name].dtype.name
        assert dtype_of(grad) == kind
        limit = (2 * rounding(kind, size) + 2 * EPS[kind] + 2 * EPS[arrays["query"].dtype.name])
        limit = limit * max(magnitude(name, arrays, dout, dlse, case.options), 1e-30)
        assert_close(back(grad), getattr(expected, name), limit, f"the gradient of {name}")


def magnitude(name, arrays, dout, dlse, options):
    """Size of the terms of which a gradient is a sum."""
    top = {key: largest(arrays[key]) for key in ("query", "key", "value")}
    scale = options.get("scale")
    scale = max(arrays["query"].shape[-1], 1) ** -0.5 if scale is None else abs(scale)
    ds = largest(dout) * top["value"] * arrays["value"].shape[-1] ** 0.5 + largest(dlse)
    ds /= 1 - min(options.get("dropout", 0), 0.9)
    sizes = {"query": scale * top["key"] * ds, "key": scale * top["query"] * ds, "value": largest(dout), "bias": ds}
    return sizes[name]


def largest(x):
    """The largest finite |x|."""
    x = np.abs(np.asarray(x, np.float64))
    return x[np.isfinite(x)].max(initial=0)
