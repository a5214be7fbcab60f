"""Arrays sharded over four CPU devices, by batch and heads: the numbers of one device, and nothing is gathered."""

import jax
import pytest

from attnlab.measure import in_fresh_process
from tests.conftest import quick_xla
from tests.support import needs, selected

needs("jax")

METHODS = ["naive", "safe", "lazy", "online", "chunked", "tiled"]
KINDS = ["Auto", "shard_map", "Explicit"]
if OLD := jax.__version__.startswith("0.9."):
    KINDS.remove("Explicit")
TASKS = [pytest.param((method, kind), id=f"{method}-{kind}") for method in METHODS for kind in KINDS]
pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def found(request):
    """Results of the tasks that are tested."""
    tasks = [{"method": method, "kind": kind} for method, kind in dict.fromkeys(selected(request, "task"))]
    with pytest.MonkeyPatch.context() as here:
        here.setenv("XLA_FLAGS", quick_xla())
        results = list(in_fresh_process("tests.attnlab.algorithms.jax_meshes:case", tasks))
    return {tuple(task.values()): result for task, result in zip(tasks, results)}


@pytest.mark.parametrize("task", TASKS)
def test_a_mesh_changes_nothing(found, task):
    """With a mask and a bias, forward and gradient, also where axes are Explicit and under shard_map's own checks."""
    result = found[task]
    assert result["difference"] < 1e-12
    assert result["sharded"]


@pytest.mark.parametrize("task", TASKS)
def test_no_device_gathers_what_others_hold(found, task):
    """A constraint on the layout of what enters a loop gathered all arrays."""
    assert found[task]["gathers"] == 0
