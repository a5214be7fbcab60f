"""jax.export with symbolic shapes: one program for all batches, heads and lengths."""

import pytest

from attnlab import METHODS
from attnlab.measure import in_fresh_process
from tests.conftest import quick_xla
from tests.support import selected

LOOPS = ("lazy", "online", "chunked")  # whose length JAX must know to go through them backward
TASKS = [{"method": method, "gradient": method not in LOOPS} for method in METHODS]
TASKS += [{"method": "tiled", "gradient": True, "default": True}]

ALIKE = [{"method": method, "causal": True} for method in METHODS]
ALIKE += [{"method": "tiled", "gradient": True, **options} for options in ({"window": (3, 2)}, {"causal": True})]
ALIKE += [{"method": "tiled", "causal": True, "offset": 2}]
LINEAR = [{"method": "chunked form", "causal": causal, "gradient": True} for causal in (False, True)]
LINEAR += [{"method": "chunked form", "causal": True, "chunk_size": 4}]


@pytest.fixture(scope="module")
def differences(request):
    """Results of the tasks that are tested."""
    tasks = selected(request, "task")
    one, both = ([task for task in group if task in tasks] for group in (TASKS, ALIKE + LINEAR))
    with pytest.MonkeyPatch.context() as here:
        here.setenv("XLA_FLAGS", quick_xla())
        results = list(in_fresh_process("tests.attnlab.algorithms.jax_exports:case", one))
        results += in_fresh_process("tests.attnlab.algorithms.jax_exports:alike", both)
    return {str(task): result for task, result in zip(one + both, results, strict=True)}


@pytest.mark.thin(4)
@pytest.mark.parametrize("task", TASKS, ids=str)
def test_symbolic_shapes(differences, task):
    """Batch, heads, both lengths, also below a tile, with a mask and a window; forward and where possible gradient."""
    assert differences[str(task)] < 1e-5


@pytest.mark.thin(6)
@pytest.mark.parametrize("task", ALIKE + LINEAR, ids=str)
def test_one_symbol_for_both_lengths(differences, task):
    """Self-attention: causal, windows, an offset, segments, and linear attention in chunks."""
    assert differences[str(task)] < 1e-5
