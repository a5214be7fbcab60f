"""Arrays sharded over four CPU devices, by batch and heads: the numbers of one device, and nothing is gathered."""

import jax
import pytest

from attnlab.measure import in_fresh_process
from tests.conftest import quick_xla

METHODS = ["naive", "safe", "lazy", "online", "chunked", "tiled"]
KINDS = ["Auto", "shard_map", "Explicit"]
if OLD := jax.__version__.startswith("0.9."):
    KINDS.remove("Explicit")


@pytest.fixture(scope="module")
def found():
    """Results of all tasks."""
    tasks = [{"method": method, "kind": kind} for method in METHODS for kind in KINDS]
    with pytest.MonkeyPatch.context() as here:
        here.setenv("XLA_FLAGS", quick_xla())
        results = list(in_fresh_process("tests.attnlab.algorithms.jax_meshes:case", tasks))
    return {tuple(task.values()): result for task, result in zip(tasks, results)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", METHODS)
def test_a_mesh_changes_nothing(found, method, kind):
    """With a mask and a bias, forward and gradient, also where axes are Explicit and under shard_map's own checks."""
    result = found[method, kind]
    assert result["difference"] < 1e-12
    assert result["sharded"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", METHODS)
def test_no_device_gathers_what_others_hold(found, method, kind):
    """A constraint on the layout of what enters a loop gathered all arrays."""
    assert found[method, kind]["gathers"] == 0


@pytest.mark.skipif(OLD, reason="JAX 0.9 cannot reshape what is sharded by Explicit axes")
def test_explicit_axes_are_tested(found):
    assert ("tiled", "Explicit") in found
