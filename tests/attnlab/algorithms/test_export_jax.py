"""jax.export with symbolic shapes: one program for all batches, heads and lengths."""

import pytest

from attnlab import METHODS
from attnlab.measure import in_fresh_process
from tests.conftest import quick_xla
from tests.support import needs, selected

needs("jax")

LOOPS = ("lazy", "online", "chunked")  # whose length JAX must know to go through them backward
SIZES = {"chunked": {"query_chunk_size": 4, "key_chunk_size": 8}, "tiled": {"block_q": 4, "block_k": 8}}
BAND = {"causal": True, "window": [6, None]}
TASKS = [{"method": method, "gradient": method not in LOOPS, **BAND, **SIZES.get(method, {})} for method in METHODS]
TASKS += [{"method": "tiled", "gradient": True, **BAND}]  # default block sizes
SELF = [{"method": method, "causal": True, **SIZES.get(method, {})} for method in METHODS]
SELF += [{"method": "tiled", **SIZES["tiled"], "gradient": True, "window": [3, 2]}]
SELF += [{"method": "tiled", **SIZES["tiled"], "gradient": True, "causal": True}]
SELF += [{"method": "tiled", **SIZES["tiled"], "causal": True, "offset": 2}]
SELF += [{"method": "chunked form", "causal": causal, "gradient": True} for causal in (False, True)]
SELF += [{"method": "chunked form", "causal": True, "chunk_size": 4}]
TASKS += [{**task, "one_symbol": True} for task in SELF]


@pytest.fixture(scope="module")
def differences(request):
    """Results of the tasks that are tested."""
    tasks = selected(request, "task")
    with pytest.MonkeyPatch.context() as here:
        here.setenv("XLA_FLAGS", quick_xla())
        results = in_fresh_process("tests.attnlab.algorithms.jax_exports:case", tasks)
        return {str(task): result for task, result in zip(tasks, results, strict=True)}


@pytest.mark.full
@pytest.mark.parametrize("task", TASKS, ids=str)
def test_symbolic_shapes(differences, task):
    """Batch, heads, both lengths or one for both, also below a tile; forward and where possible gradient."""
    assert differences[str(task)] < 1e-5
