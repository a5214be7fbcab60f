"""The Triton kernel gives the oracle's answers and gradients: on a GPU where there is one, else in the interpreter.

The kernel takes half of the calls that every algorithm must answer; ``make test-all`` gives it all of them.
"""

import os
import subprocess
import sys
import types

import numpy as np
import pytest
import torch

import attnlab
from attnlab.core.bundle import Inputs, Rules
from attnlab.core.geometry import Band, BlockMask
from attnlab.kernels import refusal
from attnlab.kernels.triton import gpu
from attnlab.kernels.triton.gpu import gradient_on_gpu, kernel_on_gpu, serves
from tests.attnlab.algorithms.test_gradients import COMPILED
from tests.support import ROOT, needs, refused
from tests.support.cases import CASES, Case
from tests.support.comparison import assert_agrees, assert_gradients_agree
from tests.support.interpreter import GPU, interpreter
from tests.support.libraries import arguments_of, dtype, to

needs("triton")

pytestmark = pytest.mark.usefixtures("patched_once")
DEVICE = "cuda" if GPU else "cpu"

with interpreter():  # torch.compiler, which both of them use, imports Triton
    import triton
    import triton.language as tl

    from attnlab.kernels.triton import backward, forward, layout
    from attnlab.kernels.triton.tile import seeing, seen_by, visited, visits
    from attnlab.tiled import torch as plain
    from attnlab.tiled import triton as kernels

assert bool(kernels.INTERPRETED) is not GPU, "Triton was imported before TRITON_INTERPRET could be set"
for module in (forward, backward):  # a test of another file may import what is not imported here, without the variable
    compiled = [name for name, x in vars(module).items() if isinstance(x, triton.JITFunction)]
    assert bool(compiled) is GPU, compiled


def served(case):
    """Whether the kernel takes the case, but for its tiny block sizes."""
    arrays = {name: types.SimpleNamespace(shape=x.shape, dtype=x.dtype) for name, x in case.stored.items()}
    return refusal(Inputs(**arrays), (None, None)) is None


def attend(arrays, function=None, **options):
    """(out, lse) of the kernel, on the CPU again."""
    arrays = {name: x.to(DEVICE) for name, x in arrays.items()}
    out, lse = (function or kernels.tiled_attention)(**arguments_of(arrays), **options, return_lse=True)
    return out.cpu(), lse.cpu()


def gradients(arrays, cotangents, **options):
    """(out, lse) of the kernel, and its gradients by query, key and value."""
    leaves = {name: x.detach().requires_grad_(x.is_floating_point()) for name, x in arrays.items()}
    results = attend(leaves, **options)
    wanted = {name: x for name, x in leaves.items() if x.requires_grad}
    return results, dict(zip(wanted, torch.autograd.grad(results, list(wanted.values()), cotangents)))


def check(case, **options):
    """Answer and gradients of a case are the oracle's."""
    dout, dlse = case.cotangents()
    cotangents, arrays = (to("torch", dout), to("torch", dlse)), case.arrays("torch")
    results, grads = gradients(arrays, cotangents, **case.options, **options)
    for name, x in case.arrays("torch").items():
        assert torch.equal(arrays[name].detach().nan_to_num(7), x.nan_to_num(7)), f"{name} was modified"
    assert_agrees(case, *results)
    assert_gradients_agree(case, grads, dout, dlse)


SERVED = {name: case for name, case in CASES.items() if served(case)}
LAYOUTS = ["transposed", "strided", "reversed", "expanded", "read-only"]
SMOOTH = [name for name in COMPILED if name in SERVED] + LAYOUTS + [
    "GQA, causal", "GQA, a mask for each head", "causal with N < M", "mask (1, 10)", "mask (4, 7, 1)", "all masked",
    "a head that sees nothing", "window (0, -1)", "scale −1", "dropout, 5-D, GQA", "dropout 1, rows that see nothing",
]  # fmt: skip


@pytest.mark.thin(8)
@pytest.mark.parametrize("name", [name for name in SERVED if name not in SMOOTH])
def test_agreement(name):
    case = SERVED[name]
    assert_agrees(case, *attend(case.arrays("torch"), **case.options, block_q=16, block_k=16))


@pytest.mark.thin(8)
@pytest.mark.parametrize("name", SMOOTH)
def test_agreement_and_gradients(name):
    check(SERVED[name], block_q=16, block_k=16)


# Calls of several tiles, some hidden, some partial, some full; the oracle is slow, so they are few.


def make(n=50, m=70, d=16, dv=16, hq=2, hk=1, kind="float32", mask=None, poison=None, segments=None, **options):
    """A case of the given sizes; ``poison`` names keys and values that hold NaN."""
    random = np.random.default_rng(n * m)
    shapes = {"query": (hq, n, d), "key": (hk, m, d), "value": (hk, m, dv)}
    stored = {name: random.normal(size=shape).astype(dtype(kind)) for name, shape in shapes.items()}
    if mask is not None:
        stored["mask"] = mask
    if segments is not None:
        stored["query_segments"], stored["key_segments"] = segments
    if poison is not None:
        stored["key"][:, poison], stored["value"][:, poison] = np.nan, np.inf
    return Case(f"{n} by {m}", stored, options)


DOCUMENTS = np.repeat([4, 1, 9], [7, 20, 23]), np.repeat([4, 8, 1, 9, 2], [3, 30, 4, 23, 10]).astype(np.int16)
PADDING = np.arange(70) < 41
ROWS = (np.arange(50) % 7 > 0)[:, None] & (np.add.outer(np.arange(50), np.arange(70)) % 5 > 0)
LARGE = {
    "ragged": make(),
    "causal, N < M": make(causal=True),
    "causal, N > M": make(n=70, m=50, causal=True),
    "window": make(n=60, m=60, window=(20, 9)),
    "window, N > M": make(n=70, m=33, window=(5, 20)),
    "causal window that skips tiles": make(n=70, m=70, window=17, causal=True),
    "padding": make(mask=PADDING, poison=slice(41, None)),
    "padding of whole tiles, causal": make(mask=np.arange(70) > 37, poison=slice(0, 38), causal=True),
    "rows that see nothing": make(mask=ROWS),
    "offset, a chunk of a prompt": make(hq=4, hk=2, causal=True, offset=13),
    "offset, rows that see nothing": make(causal=True, offset=-20),
    "offset, keys that nothing sees": make(window=(40, 3), offset=85, poison=slice(0, 45)),
    "offset before every key": make(causal=True, offset=-50),
    "everything": make(hq=4, hk=2, mask=ROWS, window=(40, 8), dropout=0.7, seed=3),
    "packed documents, causal": make(segments=DOCUMENTS, causal=True),
    "packed, NaN in documents of no query": make(hq=4, hk=2, segments=DOCUMENTS, poison=slice(60, 70)),
    "float16": make(kind="float16", causal=True),
    "bfloat16": make(kind="bfloat16", window=11),
    "groups of three": make(n=40, hq=6, hk=2, causal=True),
    "scale −1, partial tiles": make(causal=True, scale=-1.0),
    "scale 0, partial tiles": make(window=(20, 9), scale=0.0),
    "NaN outside of the window": make(n=20, m=70, window=(9, 0), poison=slice(0, 41)),
}


def test_a_negative_scale_in_bfloat16():
    check(make(n=20, m=20, kind="bfloat16", scale=-1.0))


@pytest.mark.thin(6)
@pytest.mark.parametrize("sizes", [(16, 32), (64, 32), (32, 16), (None, None)])
@pytest.mark.parametrize("name", LARGE)
def test_several_tiles(name, sizes):
    check(LARGE[name], block_q=sizes[0], block_k=sizes[1])


HEADS = [(16, 16), (40, 40), (64, 64), (128, 128), (256, 256), (40, 128), (96, 17)]


@pytest.mark.parametrize(("d", "dv", "kind"), [
    pytest.param(*size, kind, marks=() if (i + j) % 2 else pytest.mark.full)
    for i, size in enumerate(HEADS) for j, kind in enumerate(["float16", "float32"])
])  # fmt: skip
def test_head_sizes(d, dv, kind):
    case = make(n=20, m=40, d=d, dv=dv, kind=kind, causal=True)
    check(case)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_half_precision_accumulates_in_float32(kind):
    """1024 equal weights of 1 over values of 1: in bfloat16 the sum sticks at 256."""
    lengths = {"query": 1, "key": 1024, "value": 1024}
    arrays = {name: to("torch", np.ones((n, 16), dtype(kind))) for name, n in lengths.items()}
    out, lse = attend(arrays, scale=0.0)
    np.testing.assert_array_equal(out.float(), 1)
    np.testing.assert_allclose(lse, np.log(1024), rtol=1e-6)


@pytest.mark.parametrize("p", [2**-32, 0.3, 1 - 2**-34, 1.0])
def test_dropout_mask(p):
    """With equal weights and the identity for values, out shows which weights were kept."""
    query, key, value = torch.zeros(3, 20, 16), torch.zeros(3, 32, 16), torch.eye(32).expand(3, 32, 32)
    out, _ = attend(dict(query=query, key=key, value=value), dropout=p, seed=2**32 - 1)
    np.testing.assert_array_equal(out != 0, attnlab.dropout_mask(2**32 - 1, (3, 20, 32), p))


DECODING = {
    "one query": make(n=1, m=300, hq=2, hk=2),
    "one query, groups": make(n=1, m=300, hq=8, hk=2, kind="bfloat16"),
    "causal, three queries": make(n=3, m=300, hq=6, hk=2, causal=True),
    "window": make(n=2, m=300, window=(90, 0)),
    "parts that see nothing": make(n=2, m=300, mask=np.arange(300) % 100 < np.array([[20], [0]])),
    "dropout": make(n=2, m=300, dropout=0.4, seed=5),
}


@pytest.mark.parametrize("name", DECODING)
def test_keys_split_among_programs(name, monkeypatch):
    case, joined = DECODING[name], []
    monkeypatch.setattr(layout, "multiprocessors", lambda device: 16)
    launch = forward.launch

    def watched(kernel, *args, **rest):
        joined.append(kernel is forward.join)
        launch(kernel, *args, **rest)

    monkeypatch.setattr(forward, "launch", watched)
    assert_agrees(case, *attend(case.arrays("torch"), **case.options, block_k=16))
    assert joined == [False, True]


# Which tiles a program visits, and which of them without a mask


def write_visits(found, rules, width, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, BY_KEYS: tl.constexpr):
    """Row b of ``found``: 2 for a tile that program b visits in full, 1 for a partial one."""
    b = tl.program_id(0)
    if BY_KEYS:
        turns = visits(rules, seeing(rules, b * BLOCK_K, BLOCK_K), b, BLOCK_Q)
    else:
        turns = visits(rules, seen_by(rules, b * BLOCK_Q, BLOCK_Q), b, BLOCK_K)
    full, total = turns[0], turns[1]
    for turn in range(full):
        tl.store(found + b * width + visited(rules, turns, b, turn, False), 2)
    for turn in range(full, total):
        tl.store(found + b * width + visited(rules, turns, b, turn, True), 1)


with interpreter():
    list_visits = triton.jit(write_visits)


def kinds(see, block_q, block_k, whole):
    """Of each tile of a matrix that says which row sees which key: 2 if all of it is visible, 1 if a part is."""
    found = np.zeros([-(-length // size) for length, size in zip(see.shape, (block_q, block_k))], int)
    for b, c in np.ndindex(found.shape):
        part = see[b * block_q : (b + 1) * block_q, c * block_k : (c + 1) * block_k]
        found[b, c] = int(part.any()) + (part.all() and (part.shape[1] == block_k or not whole))
    return found


@pytest.mark.parametrize("by_keys", [False, True])
@pytest.mark.parametrize("group", [1, 3])
def test_visits(group, by_keys):
    """Brute force: all that is visible is visited, and visited in full only if all of it is visible."""
    random = np.random.default_rng(group)
    for turn in range(25):
        n, m = map(int, random.integers(1, 90, 2))
        left, right = (None if random.random() < 0.3 else int(random.integers(-5, 60)) for _ in range(2))
        shown = random.random((-(-n // 16), -(-m // 32))) < 0.7
        tiles = BlockMask(16, 32, tuple(map(tuple, shown.tolist()))) if turn % 2 else None
        band = Band(n, m, left, right, block_mask=tiles)
        i, j = np.arange(n)[:, None] + band.offset, np.arange(m)
        see = (left is None or j >= i - left) & (right is None or j <= i + right) & np.ones((n, m), bool)
        if band.block_mask:
            see &= shown.repeat(16, 0).repeat(32, 1)[:n, :m]
        wanted = kinds(see.repeat(group, 0), 16, 16, whole=not by_keys)  # nothing is stored for keys beyond the last
        if by_keys and group * n % 16:  # a tile that reaches beyond the last query
            wanted[-1] = np.minimum(wanted[-1], 1)
        wanted = wanted.T if by_keys else wanted
        query, static = torch.zeros(1, 1, group, n, 16, device=DEVICE), Rules(1.0, band, (1, 1, group))
        rules = layout.kernel_rules(query, None, None, None, static, 16, 16, by_keys)
        found = torch.zeros(wanted.shape, dtype=torch.int32, device=DEVICE)
        list_visits[(len(wanted),)](found, rules, wanted.shape[1], BLOCK_Q=16, BLOCK_K=16, BY_KEYS=by_keys)
        visited_in = found.cpu().numpy()
        assert (visited_in >= np.minimum(wanted, 1)).all(), band
        assert (visited_in[wanted < 2] < 2).all(), band
        assert band.block_mask or (visited_in == wanted).all(), band


BLOCKS = [(16, 16), (32, 48), (48, 32), (64, 16)]


def block_mask(sizes, n=70, m=50):
    shape = -(-n // sizes[0]), -(-m // sizes[1])
    return np.random.default_rng(5).random(shape) < 0.6


def with_gradient(function, arrays, **options):
    leaves = [x.detach().to(DEVICE).requires_grad_() for x in arrays]
    out, lse = function(*leaves, return_lse=True, **options)
    grads = torch.autograd.grad((out, lse), leaves, (torch.ones_like(out), torch.ones_like(lse)))
    return [x.detach().cpu() for x in (out, lse, *grads)]


RULES = {"causal": True, "dropout": 0.3, "seed": 7}


@pytest.mark.thin(4)
@pytest.mark.parametrize(("sizes", "hk", "options"), [*[(sizes, 1, {}) for sizes in BLOCKS], (BLOCKS[1], 2, RULES)])
def test_block_mask(sizes, hk, options):
    arrays = list(make(n=70, m=50, hq=2 * hk, hk=hk).arrays("torch").values())
    options = dict(block_mask=block_mask(sizes), block_q=sizes[0], block_k=sizes[1], **options)
    found = with_gradient(kernels.tiled_attention, arrays, **options)
    # the plain version on the CPU: on a GPU it would hand over to the kernel
    leaves = [x.detach().requires_grad_() for x in arrays]
    out, lse = plain.tiled_attention(*leaves, return_lse=True, **options)
    wanted = out, lse, *torch.autograd.grad((out, lse), leaves, (torch.ones_like(out), torch.ones_like(lse)))
    for x, y in zip(found, wanted):
        np.testing.assert_allclose(x, y.detach(), rtol=0, atol=2e-5)


def test_hidden_tiles_are_not_read():
    query, key, value = make(n=70, m=50).arrays("torch").values()
    table = block_mask((32, 16))
    table[:, 2] = False
    options = dict(block_mask=table, block_q=32, block_k=16)
    poisoned = key.clone(), value.clone()
    for x in poisoned:
        x[:, 32:48] = torch.nan
    found = with_gradient(kernels.tiled_attention, (query, *poisoned), **options)
    for x, y in zip(found, with_gradient(kernels.tiled_attention, (query, key, value), **options)):
        np.testing.assert_array_equal(x, y)


def test_vmap_keeps_the_dropout_mask_of_one_call():
    query, key, value = (torch.randn(3, 2, n, 16, device=DEVICE) for n in (17, 20, 20))

    def attention(query, key, value):
        return kernels.tiled_attention(query, key, value, dropout=0.4, seed=1, causal=True)

    def loss(*arrays):
        return attention(*arrays).square().sum()

    for function in (attention, torch.func.grad(loss)):
        found = torch.func.vmap(function, in_dims=(0, None, 0))(query, key[0], value)
        wanted = torch.stack([function(q, key[0], v) for q, v in zip(query, value)])
        torch.testing.assert_close(found, wanted)


def test_what_comes_back_to_empty_rows_is_ignored():
    case = LARGE["rows that see nothing"]
    dout, dlse = case.cotangents()
    empty = np.isneginf(case.expected().lse)
    dout[empty], dlse[empty] = np.nan, np.inf
    _, grads = gradients(case.arrays("torch"), (to("torch", dout), to("torch", dlse)))
    dout[empty], dlse[empty] = 0, 0
    assert_gradients_agree(case, grads, dout, dlse)


X = torch.zeros(32, 16)


def named(size, kind=torch.float16, gpu=True):
    return types.SimpleNamespace(shape=(2, 9, size), dtype=kind, is_cuda=gpu)


@pytest.mark.parametrize(("expected", "query", "rest"), [
    (True, named(64), ()),
    (True, named(256, torch.bfloat16), ()),
    (True, named(8, torch.float32), (128, 48)),
    (False, named(64, gpu=False), ()),
    (False, named(257), ()),
    (False, named(64, torch.float64), ()),
    (False, named(64), (10, 16)),
    (False, named(64), (16, 10)),
])  # fmt: skip
def test_serves(expected, query, rest):
    assert serves(Inputs(query, query, query), rest or (None, None)) is expected
    assert not serves(Inputs(query, query, query, bias=X), (None, None))


@pytest.mark.parametrize(("version", "expected"), [
    ("3.6.0", True), ("3.10.1+git1f2", True), ("4.0", True), ("3.2.0", False), ("3.5.9", False), (None, False),
])  # fmt: skip
def test_an_older_triton_is_none(version, expected, monkeypatch):
    """As PyTorch 2.6 brings one: its loops go on, on a GPU as well."""
    old = None if version is None else types.SimpleNamespace(__version__=version)
    monkeypatch.setitem(sys.modules, "triton", old)
    assert gpu.installed.__wrapped__() is expected


def test_the_plain_version_takes_what_the_kernel_does_not(monkeypatch):
    core, gradient = (put(lambda *call: ("plain", len(call))) for put in (kernel_on_gpu, gradient_on_gpu))
    monkeypatch.setattr(gpu, "kernel", lambda *call: ("kernel", len(call)))
    monkeypatch.setattr(gpu, "kernel_gradient", lambda *call: ("kernel", len(call)))
    static, x = (Rules(1.0, Band(9, 9), (1, 2)), (None, 16)), Inputs(named(64), named(64), named(64))
    for function, rest in ((core, ()), (gradient, (X, X, X, X, False))):
        assert function(*static, x, *rest) == ("kernel", 3 + len(rest))
        assert function(*static, x._replace(query=named(64, gpu=False)), *rest) == ("plain", 3 + len(rest))
        assert function(*static, x._replace(bias=X), *rest) == ("plain", 3 + len(rest))


@pytest.mark.parametrize(("arrays", "options", "error", "text"), [
    ([X] * 3, dict(bias=X[:1, :1]), NotImplementedError, "bias is given; the kernel takes none"),
    ([X.double()] * 3, {}, NotImplementedError, "query has dtype float64"),
    ([torch.zeros(2, 257)] * 3, {}, NotImplementedError, "query has size 257; the kernel takes 1 to 256"),
    ([X, X, torch.zeros(32, 300)], {}, NotImplementedError, "value has size 300"),
    ([X] * 3, dict(block_q=24), NotImplementedError, "block_q is 24; the kernel takes multiples of 16"),
    ([X] * 3, dict(block_k=1), NotImplementedError, "block_k is 1; the kernel takes multiples of 16"),
    ([X, X.half(), X], {}, TypeError, "key has dtype float16"),
    ([X, X, np.zeros((32, 16), np.float32)], {}, TypeError, "value is a NumPy array"),
    ([X] * 3, dict(dropout=0.5), ValueError, "seed is None"),
])  # fmt: skip
def test_errors(arrays, options, error, text):
    with pytest.raises(error, match=text) as caught:
        kernels.tiled_attention(*arrays, **options)
    assert error is not NotImplementedError or "use attnlab.tiled.torch" in str(caught.value)


def test_higher_derivatives_name_safe_attention():
    x = torch.randn(4, 16, device=DEVICE, requires_grad=True)
    (grad,) = torch.autograd.grad(kernels.tiled_attention(x, x, x).sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="tiled_attention is not twice differentiable; use safe_attention"):
        torch.autograd.grad(grad.sum(), x)


def run(code, **environment):
    """Standard output of a fresh process in which Triton is not interpreted."""
    clean = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    clean |= {"PYTHONPATH": ROOT, **environment}
    done = subprocess.run([sys.executable, *code], env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_kernel_is_imported_by_no_call_on_a_cpu():
    """PyTorch itself imports Triton where it is installed, but not our kernel."""
    code = "import attnlab, torch, sys\nx = torch.eye(16)\nattnlab.tiled_attention(x, x, x)\n"
    assert run(["-c", code + "print('attnlab.kernels.triton.forward' in sys.modules)"]) == "False"


def test_missing_triton_says_what_to_install():
    code = "import sys\nsys.modules['triton'] = None\ntry:\n    import attnlab.tiled.triton\n"
    text = run(["-c", code + "except ModuleNotFoundError as error:\n    print(error)"])
    assert text == "this part of attnlab needs Triton: pip install triton"


def test_cpu_tensors_need_the_interpreter():
    code = "import torch, attnlab.tiled.triton as t\nx = torch.eye(16)\ntry:\n    t.tiled_attention(x, x, x)\n"
    text = run(["-c", code + "except NotImplementedError as e:\n    print(e)"])
    assert text.startswith("query is on device cpu")
    assert "TRITON_INTERPRET=1" in text


@pytest.mark.skipif(not GPU, reason="needs a CUDA GPU")
class TestOnAGPU:
    """The same comparisons through the public function, which chooses the kernel by itself."""

    @pytest.mark.parametrize("name", SERVED)
    def test_agreement(self, name):
        case = SERVED[name]
        assert_agrees(case, *attend(case.arrays("torch"), attnlab.tiled_attention, **case.options))

    @pytest.mark.parametrize("name", LARGE)
    def test_several_tiles(self, name):
        case = LARGE[name]
        assert_agrees(case, *attend(case.arrays("torch"), attnlab.tiled_attention, **case.options))

    def test_the_kernel_is_chosen(self, monkeypatch):
        monkeypatch.setattr(gpu, "kernel", lambda *args: pytest.fail("chosen"))
        x = torch.zeros(16, 16, device="cuda")
        refused(pytest.fail.Exception, "chosen", attnlab.tiled_attention, x, x, x)

    @pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32])
    def test_long(self, kind):
        """Beyond what the oracle can do in time: against the plain version in float64."""
        arrays = [torch.randn(2, 4, 1500, 64, device="cuda").to(kind) for _ in range(3)]
        found = with_gradient(attnlab.tiled_attention, arrays, causal=True)
        wanted = with_gradient(attnlab.tiled_attention, [x.double() for x in arrays], causal=True)
        for x, y in zip(found, wanted):
            bound = {torch.float16: 2e-2, torch.bfloat16: 1e-1, torch.float32: 1e-4}[kind]
            np.testing.assert_allclose(x.double(), y, rtol=0, atol=bound * float(y.abs().max()))
