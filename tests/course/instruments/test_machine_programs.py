"""The two-level memory counts every transfer, and its programs compute attention."""

import inspect

import numpy as np
import pytest
from attnlab_course.instruments import machine
from attnlab_course.instruments.machine import Machine, OutOfSRAM
from attnlab_course.ladder import LADDER

from attnlab import costs
from tests.attnlab.costs.test_costs import draws
from tests.support import oracle

TILED = ("flash", "flash2", "sparse flash", "sparse flash2")
FORWARD = tuple(dict.fromkeys([*[rung.program for rung in LADDER.values()], *TILED]))
BACKWARD = [name for name in FORWARD if hasattr(machine, f"{name.removeprefix('sparse ')}_backward")]
SHAPES = [(7, 10, 5, 3), (8, 5, 2, 6), (1, 9, 3, 3), (6, 1, 1, 1)]
OPTIONS = {
    "plain": {},
    "causal": dict(causal=True),
    "window": dict(window=(2, 1)),
    "mask": dict(mask=0.5),
    "segments": dict(segments=3),
    "empty rows": dict(mask=0.0),
    "dropout": dict(dropout=0.4, seed=9),
    "dropout 1": dict(dropout=1, seed=0),
    "scale": dict(scale=-2),
    "offset": dict(causal=True, offset=2),
    "offset before the keys": dict(causal=True, window=(3, None), offset=-4),
    "offset beyond the keys": dict(window=(4, 1), offset=12),
    "segments, causal, mask": dict(causal=True, segments=2, mask=0.7),
    "everything": dict(causal=True, window=(6, None), mask=0.7, dropout=0.3, seed=2**32 - 1, scale=0.7, offset=5),
}


def draw(n, m, d, dv, seed=0):
    """Q, K, V and dO of one head."""
    random = np.random.default_rng(seed)
    shapes = {"Q": (n, d), "K": (m, d), "V": (m, dv), "dO": (n, dv)}
    return {name: random.normal(size=shape) for name, shape in shapes.items()}


def given(options, n, m, seed=1):
    """The options with a mask drawn in place of the share of it that is visible; some rows see nothing."""
    if "segments" in options:
        ours, theirs = (np.random.default_rng(seed).permutation(np.arange(x) // options["segments"]) for x in (n, m))
        options = {k: x for k, x in options.items() if k != "segments"}
        options |= {"query_segments": ours, "key_segments": theirs}
    if "mask" not in options:
        return options
    mask = np.random.default_rng(seed).random((n, m)) < options["mask"]
    mask[:: max(n // 2, 1)] = False
    return options | {"mask": mask}


def random_tiles(n, m, block_q, block_k, seed=2):
    """A block mask of which a column and a row are hidden, where there are several."""
    tiles = np.random.default_rng(seed).random((-(-n // block_q), -(-m // block_k))) < 0.6
    tiles[1::5] = tiles[:, 1::5] = False
    return tiles


def run(name, arrays, options, block_q=3, block_k=4, gradient=False, on=None):
    """Run a program on a machine: (results, by the oracle's names; the machine)."""
    on = on or Machine()
    q, k, v, do = (on.put(x, arrays[x]) for x in ("Q", "K", "V", "dO"))
    options = dict(options)
    if "mask" in options:
        options["mask"] = on.put("mask", options["mask"])
    if "query_segments" in options:
        options["segments"] = tuple(on.put(x, options.pop(x)) for x in ("query_segments", "key_segments"))
    program = name.removeprefix("sparse ")
    sizes = dict(block_q=block_q, block_k=block_k, query_chunk_size=block_q, key_chunk_size=block_k)
    taken = inspect.signature(getattr(machine, f"{program}_forward")).parameters
    options |= {size: sizes[size] for size in sizes if size in taken}
    if name != program:
        options.setdefault("block_mask", random_tiles(len(arrays["Q"]), len(arrays["K"]), block_q, block_k))
    found = getattr(machine, f"{program}_forward")(on, q, k, v, **options)
    if not gradient:
        return found, on
    saved = found[1:] if name == "standard" else found
    for count in (on.loads, on.stores, on.fills):
        count.clear()
    on.work.products = on.work.exponentials = on.work.rest = 0
    return getattr(machine, f"{program}_backward")(on, q, k, v, *saved, do, **options), on


def expected_options(name, options, n, m, block_q=3, block_k=4):
    """The oracle's options: a block mask is a mask of tiles."""
    if not name.startswith("sparse"):
        return options
    tiles = np.kron(random_tiles(n, m, block_q, block_k), np.ones((block_q, block_k), bool))[:n, :m].astype(bool)
    return options | {"mask": tiles & options.get("mask", True)}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("name", FORWARD)
def test_programs_compute_attention(name, options):
    for (n, m, d, dv), blocks in zip(SHAPES, ((3, 4), (2, 5), (1, 1), (100, 100))):
        arrays, asked = draw(n, m, d, dv), given(options, n, m)
        found, on = run(name, arrays, asked, *blocks)
        expected = oracle.attention(arrays["Q"], arrays["K"], arrays["V"],
                                    **expected_options(name, asked, n, m, *blocks))  # fmt: skip
        np.testing.assert_allclose(on.fetch(found[0]), expected.out, atol=1e-14)
        if name != "standard":
            statistics = [on.fetch(x) for x in found[1:]]
            with np.errstate(divide="ignore"):
                lse = statistics[0] if len(statistics) == 1 else statistics[1] + np.log(statistics[0])
            np.testing.assert_allclose(lse, expected.lse, atol=1e-13)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("name", BACKWARD)
def test_programs_compute_gradients(name, options):
    for n, m, d, dv in SHAPES:
        arrays, asked = draw(n, m, d, dv), given(options, n, m)
        found, on = run(name, arrays, asked, gradient=True)
        wanted = expected_options(name, asked, n, m)
        expected = oracle.gradients(arrays["Q"], arrays["K"], arrays["V"], arrays["dO"], **wanted)
        for x, y in zip(found, expected):
            np.testing.assert_allclose(on.fetch(x), y, atol=1e-13)


METHODS = (*[name for name in LADDER if name != "naive"], *TILED)  # naive is safe without the maximum


@pytest.mark.parametrize(("name", "gradient"), [
    (name, gradient) for name in METHODS for gradient in (False, True)
    if not gradient or LADDER.get(name, LADDER["tiled"]).at_once != "key"
])
def test_counted_is_the_closed_form(name, gradient):
    method = name.removeprefix("sparse ")
    for call in draws(24, name):
        (n, m, d, dv), on = call.sizes, Machine(itemsize=call.itemsize)
        hidden = call.hidden | ({"block_mask": call.tiles} if name != method else {})
        options = hidden | (dict(dropout=0.5, seed=1) if call.dropout else {})
        options |= {"mask": np.ones((n, m), bool)} if call.mask else {}
        program = LADDER[name].program if name in LADDER else name
        run(program, draw(n, m, d, dv), options, call.block_q, call.block_k, gradient, on)

        def form(heads, call=call, hidden=hidden):
            return (costs.backward if gradient else costs.forward)(
                method, *call.sizes, heads=heads, itemsize=call.itemsize, block_q=call.block_q, block_k=call.block_k,
                mask=call.mask, dropout=call.dropout, **hidden,
            )  # fmt: skip

        cost, many, work = form(1), form(call.heads), on.work
        for counted, wanted in ((on.loads, cost.reads), (on.stores, cost.writes), (on.fills, cost.fills)):
            assert {x: n for x, n in counted.items() if n} == {x: n for x, n in wanted.items() if n}, call
        assert (cost.elements, cost.bytes) == (on.elements, on.bytes)
        assert (cost.products, cost.exponentials, cost.rest) == (work.products, work.exponentials, work.rest), call
        assert (many.flops, many.bytes) == (call.heads * cost.flops, call.heads * cost.bytes)


@pytest.mark.parametrize("name", ["flash", "flash2"])
def test_tiles_without_a_common_segment_cost_nothing(name):
    """What the program moves beside the segments is the closed form of a block mask: 16 documents, of 136 tiles 16."""
    segments = np.repeat(np.arange(16), 8)
    tiles = costs.segment_tiles(segments.tolist(), segments.tolist(), 8, 8)
    assert np.array_equal(tiles, np.eye(16, dtype=bool))
    both = {"query_segments": segments, "key_segments": segments}
    _, on = run(name, draw(128, 128, 4, 4), dict(causal=True) | both, 8, 8)
    moved = on.elements - on.loads["query_segments"] - on.loads["key_segments"]
    assert moved == costs.forward(name, 128, 128, 4, 4, block_q=8, block_k=8, causal=True, block_mask=tiles).elements
    assert on.loads["query_segments"] == on.loads["key_segments"] == 128


@pytest.mark.parametrize("name", [name for name in FORWARD if name != "lazy"])
def test_scores_in_the_thousands(name):
    arrays = draw(7, 10, 5, 3)
    arrays["Q"] *= 3000
    found, on = run(name, arrays, {})
    wanted = expected_options(name, {}, 7, 10)
    expected = oracle.attention(arrays["Q"], arrays["K"], arrays["V"], **wanted).out
    np.testing.assert_allclose(on.fetch(found[0]), expected, atol=1e-9)


@pytest.mark.parametrize(("name", "gradient"), [(x, False) for x in FORWARD] + [(x, True) for x in BACKWARD])
def test_no_queries_and_no_keys(name, gradient):
    for n, m in ((0, 5), (5, 0), (0, 0)):
        found, on = run(name, draw(n, m, 3, 2), {}, gradient=gradient)
        assert all((on.fetch(x) == 0).all() for x in (found if gradient else found[:1]))


@pytest.mark.parametrize("name", FORWARD)
def test_float32_stays_float32(name):
    arrays = {key: x.astype(np.float32) for key, x in draw(7, 10, 5, 3).items()}
    found, on = run(name, arrays, dict(dropout=0.3, seed=1))
    assert {on.fetch(x).dtype for x in found} == {np.dtype("float32")}


# The memory


def test_loads_and_stores_are_counted():
    seen = []
    on, booleans = Machine(capacity=1000, itemsize=4, watch=lambda *event: seen.append(event)), Machine(itemsize=4)
    booleans.load(booleans.put("mask", np.ones((3, 5), bool)))
    assert (booleans.elements, booleans.bytes) == (15, 15)
    x, y = on.put("x", np.arange(12.0).reshape(6, 2)), on.empty("y", (6, 2), float)
    z = on.full("z", (3,), 1.0, float)
    with on.scope():
        x_i = on.load(x, slice(1, 4))
        on.store(y, slice(0, 3), on.keep("y", 2 * x_i))
    assert (dict(on.loads), dict(on.stores), dict(on.fills)) == ({"x": 6}, {"y": 6}, {"z": 3})
    assert (on.elements, on.bytes, on.peak, on.sram.held) == (12, 48, 48, 0)
    assert [event[0] for event in seen] == ["fill", "load", "store"]
    assert seen[1] == ("load", "x", slice(1, 4), 6)
    assert (on.fetch(y)[:3] == [[4, 6], [8, 10], [12, 14]]).all()
    assert np.isnan(on.fetch(y)[3:]).all()
    assert (on.fetch(z) == 1).all()


READERS = {
    "operator": lambda on, x: x + 1,
    "operator on an array": lambda on, x: np.ones((3, 2)) @ x,
    "function": lambda on, x: np.exp(x),
    "conversion": lambda on, x: np.asarray(x),
    "index": lambda on, x: x[0],
    "assignment": lambda on, x: x.__setitem__(0, 1.0),
    "loop": lambda on, x: list(x),
    "keep": lambda on, x: on.keep("x", x),
    "fetch in a program": lambda on, x: (on.keep("t", np.zeros(2)), on.fetch(x)),
    "store of what is not held": lambda on, x: on.store(x, ..., np.zeros((2, 3))),
    "load from another machine": lambda on, x: Machine().load(x),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_hbm_is_reached_by_loads_and_stores_only(read):
    on = Machine()
    x = on.put("x", np.ones((2, 3)))
    with pytest.raises((TypeError, ValueError, RuntimeError)):
        read(on, x)
    assert on.elements == 0
    with pytest.raises(TypeError, match=r"^x lies in HBM; a program gets at its numbers by machine\.load$"):
        x @ on.load(on.put("y", np.ones((3, 2))))


def test_a_copy_goes_in_and_out():
    array = np.ones(3)
    on = Machine()
    x = on.put("x", array)
    with on.scope():
        on.load(x)[:] = 5
        kept = on.keep("k", array)
        kept += 1
    on.fetch(x)[:] = 7
    assert (array == 1).all()
    assert (on.fetch(x) == 1).all()


def test_what_a_program_refuses():
    x, on = np.ones((3, 4), np.float32), Machine()
    q, k, v, _ = (on.put(name, x) for name, x in draw(6, 8, 3, 2).items())
    with pytest.raises(ValueError, match=r"shape \(2, 3\); 6 queries by 8 keys .* need \(2, 2\)"):
        machine.flash_forward(on, q, k, v, block_q=3, block_k=4, block_mask=np.ones((2, 3), bool))
    with pytest.raises(ValueError, match="seed"):
        run("flash", draw(3, 3, 2, 2), dict(dropout=0.5))
    for program in (machine.flash_forward, machine.flash2_forward):
        with pytest.raises(TypeError, match=r"ndarray is no array in HBM; machine.put\(name, array\)"):
            program(Machine(), x, x, x, block_q=2, block_k=2)


def test_what_is_freed_cannot_be_used():
    on = Machine()
    x, y = on.put("x", np.ones(3)), on.put("y", np.ones(3))
    with on.scope():
        x_i = on.load(x)
    assert np.isnan(x_i).all()
    with pytest.raises(ValueError, match="not held in SRAM"):
        on.store(x, ..., x_i)
    with pytest.raises(ValueError, match="not in SRAM"):
        on.free(x_i)
    with pytest.raises(KeyError), on.scope():
        raise KeyError(on.keep("x", np.ones(3)))
    assert on.sram.held == 0
    with on.scope():
        x_i, y_i = on.load(x), on.load(y)
        with on.scope():
            on.free(x_i)
        assert np.isnan(x_i).all()
        assert (y_i == 1).all()
        assert on.sram.held == 6
    assert on.sram.held == 0


def test_a_strict_capacity_says_what_is_held():
    on = Machine(capacity=40, strict=True)
    x = on.put("x", np.ones((5, 3)))
    Machine(capacity=40).keep("S", np.ones((5, 5)))  # a nominal capacity may be exceeded
    with on.scope():
        on.load(x)
        with pytest.raises(OutOfSRAM, match=r"S \(2, 3\) needs 12 bytes .* 10 of 40 are free; held are x \(5, 3\) 30"):
            on.keep("S", np.ones((2, 3)))
        with pytest.raises(OutOfSRAM):
            on.load(x)
        on.keep("s", np.ones(5))  # exactly full
    assert (on.loads["x"], on.peak) == (15, 40)


def test_names_are_unique_and_shapes_agree():
    on = Machine()
    x = on.put("x", np.ones((5, 3)))
    with pytest.raises(ValueError, match="named x already"):
        on.put("x", np.ones(2))
    with pytest.raises(ValueError, match=r"\(2, 3\) is stored to a part of x of shape \(5, 3\)"):
        on.store(x, ..., on.keep("t", np.ones((2, 3))))


def test_work_is_counted():
    on = Machine()
    a, b = on.keep("a", np.ones((2, 3))), on.keep("b", np.ones((3, 5)))
    c = a @ b
    assert (on.work.products, on.work.rest) == (2 * 2 * 3 * 5, 0)
    np.exp(c, out=c)
    c -= c.max(1)[:, None]
    c[c < 0] = 0
    assert (on.work.exponentials, on.work.rest) == (10, 20)
    assert on.work.products == 60


# The paper's blocks


def test_blocks_by_default_are_the_papers():
    n, d = 40, 4
    arrays = draw(n, n, d, d)
    on = Machine(capacity=2 * 160)  # 160 numbers: B_c = 10, B_r = 4
    q, k, v, _ = (on.put(x, arrays[x]) for x in ("Q", "K", "V", "dO"))
    machine.flash_forward(on, q, k, v)
    assert costs.paper_blocks(160, d) == (4, 10)
    assert on.elements == 2 * n * d + 4 * (3 * n * d + 4 * n)
    with pytest.raises(ValueError, match="without a capacity"):
        machine.flash_forward(Machine(), q, k, v)


@pytest.mark.parametrize("name", ["flash", "flash2"])
@pytest.mark.parametrize("gradient", [False, True])
def test_what_is_held_is_the_closed_form(name, gradient):
    for n, m, d, dv, block_q, block_k in ((20, 30, 5, 3, 4, 7), (9, 9, 2, 8, 3, 3), (16, 40, 8, 8, 8, 20)):
        on = Machine(itemsize=1)
        run(name, draw(n, m, d, dv), {}, block_q, block_k, gradient, on)
        forward = costs.on_chip_elements(name, block_q, block_k, d, dv)
        backward = costs.on_chip_elements(name, block_q, block_k, d, dv, gradient=True)
        assert on.peak == (max(forward, backward) if gradient else forward)

