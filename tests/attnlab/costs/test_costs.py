"""The closed forms give the published numbers, and what other counters count; the counting machine is of the course."""

import types

import numpy as np
import pytest

from attnlab import METHODS, costs
from attnlab.measure import attention_bytes
from tests.support import needs, oracle, refused

RULES = [{}, {}, dict(causal=True), dict(window=2), dict(window=(None, 1)), dict(causal=True, window=(3, 0))]


def draws(count, name):
    """Random calls of a program: sizes, blocks, options."""
    random = np.random.default_rng(len(name))
    most = 7 if name in ("lazy", "online") else 24
    for k in range(count):
        n, m = random.integers(1, most, 2).tolist()
        d, dv = random.integers(1, 7, 2).tolist()
        block_q, block_k = random.integers(1, 9, 2).tolist()
        tiles = random.random((-(-n // block_q), -(-m // block_k))) < 0.5
        dropout, mask = bool(random.integers(2)), bool(random.integers(2))
        offset = {"offset": int(random.integers(-n - 2, m + 3))} if random.integers(2) else {}
        yield types.SimpleNamespace(
            sizes=(n, m, d, dv), block_q=block_q, block_k=block_k, tiles=tiles, dropout=dropout, mask=mask,
            hidden=RULES[k % len(RULES)] | offset, heads=int(random.integers(1, 4)),
            itemsize=int(random.integers(1, 5)),
        )  # fmt: skip


def test_everything_is_an_integer():
    cost = costs.forward("flash", 100, 130, 8, 8, sram=1000, causal=True, mask=True, dropout=True, heads=3)
    assert {type(x) for x in (cost.products, cost.exponentials, cost.rest, cost.bytes)} == {int}
    assert {type(x) for counts in (cost.reads, cost.writes, cost.fills) for x in counts.values()} == {int}


def test_visited_tiles_by_brute_force():
    for call in draws(60, "tiling"):
        n, m, block_q, block_k = *call.sizes[:2], call.block_q, call.block_k
        for tiles in (None, call.tiles):
            visited = [
                (i, j) for i in range(-(-n // block_q)) for j in range(-(-m // block_k))
                if (tiles is None or tiles[i, j]) and any(
                    oracle.in_band(a, b, n, m, *(call.hidden.get(x) for x in ("causal", "window", "offset")))
                    for a in range(i * block_q, min((i + 1) * block_q, n))
                    for b in range(j * block_k, min((j + 1) * block_k, m)))
            ]  # fmt: skip
            r = {i: min(block_q, n - i * block_q) for i, _ in visited}
            c = {j: min(block_k, m - j * block_k) for _, j in visited}
            t = costs.tiling(n, m, block_q, block_k, block_mask=tiles, **call.hidden)
            assert (t.tiles, t.rows) == (len(visited), sum(r[i] for i, _ in visited))
            assert t.cols == sum(c[j] for _, j in visited)
            assert t.area == sum(r[i] * c[j] for i, j in visited)
            assert t.keys == sum(c.values())


@pytest.mark.parametrize("method", ["flash", "flash2", "chunked", "lazy"])
def test_a_step_of_decoding_reads_what_its_offset_shows(method):
    """One query at position t of a cache of 24 keys: the keys from t + 1 on are neither read nor computed with."""
    sizes = dict(block_q=1, block_k=1, causal=True)
    for t in range(-1, 24):
        cost = costs.forward(method, 1, 24, 4, 4, offset=t, **sizes)
        assert (cost.reads.get("K", 0), cost.products) == ((t + 1) * 4, (t + 1) * 4 * 4)
    assert costs.forward(method, 1, 24, 4, 4, offset=99, **sizes) == costs.forward(method, 1, 24, 4, 4, **sizes)


def test_formulas_of_the_programs():
    """Programs with everything visible, D = Dv."""
    n, m, d, r, c = 100, 130, 8, 16, 24
    t_r, t_c = -(-n // r), -(-m // c)
    blocks = dict(block_q=r, block_k=c)
    expected = {
        ("forward", "safe"): 4 * n * m + (2 * n + 2 * m) * d,
        ("backward", "safe"): 7 * n * m + (4 * n + 4 * m) * d,
        ("forward", "flash"): 2 * m * d + t_c * (3 * n * d + 4 * n),
        ("backward", "flash"): 4 * m * d + t_c * (5 * n * d + 2 * n),
        ("forward", "flash2"): 2 * n * d + n + 2 * t_r * m * d,
        ("backward", "flash2"): 4 * m * d + t_c * (4 * n * d + 2 * n) + 2 * n * d + n,
        ("forward", "chunked"): 2 * n * d + n + 2 * t_r * m * d + 2 * t_c * n * (d + 2),
        ("forward", "online"): 2 * n * d + n + 2 * n * m * d,
        ("forward", "lazy"): 2 * n * d + n + 2 * n * m * d,
    }
    for (way, method), elements in expected.items():
        assert getattr(costs, way)(method, n, m, d, d, **blocks).elements == elements, (way, method)


def test_scores_that_go_through_slow_memory():
    """Rabe & Staats' chunks fit no fast memory: S and P cross as in standard attention, and traffic is above its."""
    n, d = 8192, 64
    stays = costs.forward("chunked", n, n, d, d, block_q=1024, block_k=4096)
    through, standard = stays.spilled(n * n), costs.forward("safe", n, n, d, d)
    assert through.elements - stays.elements == 4 * n * n
    assert (through.products, through.rest) == (stays.products, stays.rest)
    assert stays.bytes < standard.bytes < through.bytes


@pytest.mark.parametrize("way", ["forward", "backward"])
def test_what_is_not_known_raises(way):
    with pytest.raises(KeyError):
        getattr(costs, way)("none", 4, 4, 2, 2, block_q=2, block_k=2)
    refused(ValueError, "block sizes are not given", getattr(costs, way), "flash", 4, 4, 2, 2)
    with pytest.raises(KeyError):
        costs.backward("online", 4, 4, 2, 2)


FIGURE_2 = dict(n=1024, m=1024, d=64, dv=64, heads=16 * 64)
A100 = 192 * 1024 // 2  # elements of half precision in the SRAM of one multiprocessor


def both(method, **sizes):
    """Forward and backward of Figure 2's workload: (flops of products, bytes, bytes of fills of O, l, m and of dQ)."""
    there, back = (way(method, **FIGURE_2, **sizes) for way in (costs.forward, costs.backward))
    return there.products + back.products, there.bytes + back.bytes, filled(there), filled(back)


def filled(cost):
    """Bytes of the fills."""
    return cost.itemsize * sum(cost.fills.values())


def test_figure_2_left():
    """Dao et al. 2022: GPT-2 medium, forward and backward. Published: 40.3 and 4.4 GB, 66.6 and 75.2 GFLOP."""
    products, moved, *fills = both("safe")
    assert moved == 1024 * 2 * (11 * 1024**2 + 12 * 1024 * 64)
    assert (round(products / 1e9), round(moved / 1e9, 1), fills) == (825, 25.2, [0, 0])
    products, moved, first, second = both("flash", sram=A100)
    assert costs.paper_blocks(A100, 64) == (64, 384)
    assert round(products / 1e9) == 962
    assert [round(x / 1e9, 2) for x in (moved, moved + first, moved + first + second)] == [4.06, 4.20, 4.34]


def test_figure_2_middle():
    """The forward's traffic, in GB, against B_c."""
    for block_k, published in ((64, 6.85), (128, 3.56), (256, 1.91), (512, 1.09)):
        assert round(costs.forward("flash", **FIGURE_2, block_q=64, block_k=block_k).bytes / 1e9, 2) == published


def test_the_forward_fits_from_8_d_squared_on():
    """The paper's blocks fit a strict capacity of M elements, M a multiple of 4D, if and only if M ≥ 8D² + 24D."""
    for d in (4, 16, 64, 128):
        for m in range(4 * d * d, 20 * d * d, 4 * d):
            block_q, block_k = costs.paper_blocks(m, d)
            assert (costs.on_chip_elements("flash", block_q, block_k, d, d) <= m) == (m >= 8 * d * d + 24 * d)
    assert A100 < 8 * 128**2 + 24 * 128


def test_table_21():
    """MiB, forward and backward, batch 16, 8 heads, D = 64, half precision, N = 128 … 65536."""
    standard = [36, 104, 336, 1184, 4416, 17024]
    flash = [22, 44, 104, 209, 418, 836, 1672, 3344, 6688, 13376]
    for method, published in (("standard", standard), ("flash", flash)):
        found = [costs.training_bytes(method, 128 * 2**k, 64, 16 * 8) / 2**20 for k in range(len(published))]
        assert [round(x) for x in found] == published


@pytest.mark.parametrize("hidden", RULES)
def test_two_kernels_by_brute_force(hidden):
    """Tile by tile, as the two kernels of attnlab.kernels.triton go."""
    n, m, d, dv, block_q, block_k = 21, 17, 3, 5, 4, 6
    rules = hidden.get("causal"), hidden.get("window"), None
    see = np.array([[oracle.in_band(i, j, n, m, *rules) for j in range(m)] for i in range(n)])
    tiles = [(slice(a, a + block_q), slice(b, b + block_k)) for a in range(0, n, block_q) for b in range(0, m, block_k)]
    sizes = [see[tile].shape for tile in tiles if see[tile].any()]
    met = sum(see[:, b : b + block_k].shape[1] for b in range(0, m, block_k) if see[:, b : b + block_k].any())
    call = dict(block_q=block_q, block_k=block_k, **hidden)
    cost = costs.backward("two kernels", n, m, d, dv, **call)
    by_queries, by_keys = 2 * d + dv, 2 * d + 2 * dv  # S, dP, dQ; S, dP, dV, dK
    assert cost.products == sum(2 * r * c * (by_queries + by_keys) for r, c in sizes)
    assert cost.exponentials == sum(2 * r * c for r, c in sizes)
    rows, cols = sum(r for r, _ in sizes), sum(c for _, c in sizes)
    queries = n * (d + 2 * dv + 1) + cols * (d + dv)  # Q, dO, O, lse; K, V
    keys = met * (d + dv) + rows * (d + dv + 2)  # K, V; Q, dO, lse, Δ
    assert sum(cost.reads.values()) == queries + keys
    assert cost.writes == {"dQ": n * d, "dK": m * d, "dV": m * dv, "Δ": n}
    both = costs.backward("two kernels", n, m, d, dv, mask=True, dropout=True, **call)
    assert both.reads["mask"] == sum(2 * r * c for r, c in sizes)
    assert both.rest - cost.rest == sum(4 * r * c for r, c in sizes)


def test_queries_outside_move_two_thirds():
    """For equally many passes; and attnlab's own blocks are flash2's."""
    inside, outside = (costs.forward(x, 2**15, 2**15, 64, 64, block_q=128, block_k=128) for x in ("flash", "flash2"))
    assert outside.elements / inside.elements == pytest.approx(2 / 3, abs=0.02)
    for way, block_q in ((costs.forward, 512), (costs.backward, 256)):
        assert way("tiled", 900, 900, 8, 8) == way("flash2", 900, 900, 8, 8, block_q=block_q, block_k=512)


def test_products_as_pytorch_counts_them():
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from attnlab.naive.torch import naive_attention

    for n, m, d, dv in ((7, 10, 5, 3), (16, 16, 8, 8)):
        shapes = ((2, 3, n, d), (2, 3, m, d), (2, 3, m, dv))
        query, key, value = (torch.randn(shape, requires_grad=True) for shape in shapes)
        with FlopCounterMode(display=False) as counter:
            out = naive_attention(query, key, value)
        assert counter.get_total_flops() == costs.forward("naive", n, m, d, dv, heads=6).products
        with FlopCounterMode(display=False) as counter:
            out.sum().backward()
        assert counter.get_total_flops() == costs.backward("naive", n, m, d, dv, heads=6).products


@pytest.mark.thin(4)
@pytest.mark.parametrize("library", ["torch", "jax"])
@pytest.mark.parametrize("method", ["naive", "safe", "chunked", "tiled"])
def test_extra_memory_of_the_gradient_is_that_order(method, library):
    """What must be held, against what is measured to be held: P and dP, or a few tiles and two numbers a query."""
    needs(library)
    form = [4 * costs.extra_elements(method, n, n, 64, 64, gradient=True) for n in (512, 1024)]
    found = attention_bytes(method, library, [512, 1024], gradient=True)
    for formula, measured in zip(form, found.values()):
        assert 0.7 * formula < measured < 3.2 * formula
    with pytest.raises(KeyError):
        costs.extra_elements("online", 4, 4, 2, 2, gradient=True)


@pytest.mark.thin(2)
@pytest.mark.parametrize("method", METHODS)
def test_numpy_holds_what_the_formula_says(method):
    """At the default block sizes. What takes a key at a time holds a few numbers per query more, and NumPy's buffer."""
    buffer = 2**16 if method in ("lazy", "online") else 0
    (found,) = attention_bytes(method, "numpy", [1024]).values()
    formula = 4 * costs.extra_elements(method, 1024, 1024, 64, 64)
    assert found - buffer == pytest.approx(formula, rel=0.12 if buffer else 0.05)


@pytest.mark.thin(2)
@pytest.mark.parametrize("library", ["numpy", "torch", "jax"])
@pytest.mark.parametrize("blocks", [(512, 512), (512, 2048), (256, 1024)])
def test_tiled_holds_one_tile_and_its_rows(library, blocks):
    """(8.11), within 5%; K_j and V_j are views. XLA gives S and exp(S) a tile each and copies some keys: 10%."""
    needs(library)
    block_q, block_k = blocks
    formula = costs.extra_elements("tiled", 4096, 4096, 64, 64, block_q=block_q, block_k=block_k)
    formula += block_q * block_k * (library == "jax")
    (found,) = attention_bytes("tiled", library, [4096], block_q=block_q, block_k=block_k).values()
    assert found == pytest.approx(4 * formula, rel=0.1 if library == "jax" else 0.05)
