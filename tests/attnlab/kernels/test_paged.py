"""The paged kernel gives each sequence's own attention: on a GPU where there is one, else in the interpreter."""


import numpy as np
import pytest
import torch

from attnlab.kernels import refusal
from attnlab.kernels.triton import gpu
from attnlab.paged import paged_attention
from tests.attnlab.paged.pages import Paged
from tests.attnlab.paged.test_attention import CASES, limits
from tests.support import needs
from tests.support.comparison import assert_close
from tests.support.interpreter import GPU, interpreter
from tests.support.libraries import back, dtype_of, to

needs("triton")

pytestmark = pytest.mark.usefixtures("patched_once")
DEVICE = "cuda" if GPU else "cpu"

with interpreter():
    import attnlab.kernels.triton.paged  # noqa: F401, for the interpreter, before a call imports it
    from attnlab.kernels.triton import forward, layout


@pytest.fixture
def launched(monkeypatch):
    """The names of the kernels that run. Without a GPU the interpreter serves what a GPU would."""
    found, launch = [], forward.launch
    if not GPU:
        monkeypatch.setattr(gpu, "serves", lambda x, sizes: refusal(x, sizes) is None)

    def watched(kernel, *args, **constants):
        found.append(kernel.fn.__name__)
        launch(kernel, *args, **constants)

    monkeypatch.setattr(forward, "launch", watched)
    return found


def check(case, kind="float32", arrange=lambda pages: pages, **options):
    query, *pages, table, lengths = (to("torch", x).to(DEVICE) for x in case.arrays)
    out, lse = paged_attention(query, *map(arrange, pages), table, lengths, return_lse=True, **case.options, **options)
    assert dtype_of(out) == kind
    bounds = limits(case, kind)
    if kind != "float32":  # the kernel rounds weights, too, before it multiplies them with values
        bounds = 3 * bounds[0], bounds[1]
    for found, desired, limit, what in zip((out, lse), case.expected(), bounds, ("out", "lse")):
        assert_close(back(found.cpu()), desired, limit, what)


@pytest.mark.thin(4)
@pytest.mark.parametrize("name", CASES)
def test_agrees_with_each_sequence_by_itself(name, launched):
    check(Paged(**CASES[name]))
    assert launched[0] == "fold_pages"


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("layout", ["heads", "tokens"])
def test_half_precision_and_both_layouts(kind, layout, launched):
    """Pages are read where they lie."""
    case = Paged([90, 0, 17, 4], 2, size=16, hq=6, hk=2, d=64, dv=40, kind=kind)
    check(case, kind, (lambda x: x.transpose(1, 2).contiguous()) if layout == "tokens" else lambda x: x, layout=layout)
    assert launched == ["fold_pages"]


@pytest.mark.parametrize("options", [{}, {"window": (300, 0)}])
def test_keys_split_among_programs(options, launched, monkeypatch):
    """Parts without a key among them, as the sequences differ in length."""
    monkeypatch.setattr(layout, "multiprocessors", lambda device: 16)
    check(Paged([700, 0, 33, 250], 1, size=16, hq=4, hk=1, d=8, **options))
    assert launched == ["fold_pages", "join"]


def test_nothing_to_see(launched):
    query, pages = torch.ones(2, 2, 1, 4, device=DEVICE), torch.ones(0, 2, 4, 4, device=DEVICE)
    table, lengths = (torch.zeros(shape, dtype=torch.int32, device=DEVICE) for shape in ((2, 3), (2,)))
    out, lse = paged_attention(query, pages, pages, table, lengths, return_lse=True)
    assert not out.any()
    assert (lse == -torch.inf).all()
    assert paged_attention(query[:0], pages, pages, table[:0], lengths[:0]).shape == (0, 2, 1, 4)


@pytest.mark.parametrize("kind", ["int64", "uint8"])
def test_integers_of_any_dtype(kind, launched):
    case = Paged([5, 3], 1, size=4, width=2)
    case.block_table = np.where(case.block_table < 100, np.maximum(case.block_table, 0), 200).astype(kind)
    case.lengths = case.lengths.astype(kind)
    check(case)


def test_float64_runs_in_the_loops(launched):
    check(Paged([9, 0, 4], 2, size=4, kind="float64"), "float64")
    assert launched == []
