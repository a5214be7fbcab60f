"""attnlab.adapters.onnx.attention gives what ONNX's own tests of its operator Attention store, in three libraries."""

import importlib
import warnings

import numpy as np
import pytest

from attnlab.adapters.onnx import attention
from attnlab.conventions.calling import to_numpy
from tests.support import needs, refused

needs("onnx")

import onnx  # noqa: E402

with warnings.catch_warnings(action="ignore"):  # onnx's own
    from onnx.backend.test.case.node import collect_testcases

    CASES = {case.name.removeprefix("test_attention_"): case for case in collect_testcases("Attention")
             if not case.name.endswith("_expanded")}  # fmt: skip


def array(x):
    return onnx.numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else np.asarray(x)


def call(case):
    """Arguments by name, and what is expected of each of the four results, by its place."""
    (node,) = case.model.graph.node
    inputs, expected = ([array(x) for x in part] for part in case.data_sets[0])
    names = ["Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen"]
    given, wanted = iter(inputs), iter(expected)
    arguments = {name: next(given) for name, there in zip(names, node.input) if there}
    results = {place: next(wanted) for place, there in enumerate(node.output) if there}
    arguments |= {x.name: onnx.helper.get_attribute_value(x) for x in node.attribute}
    if 3 in results:
        arguments.setdefault("qk_matmul_output_mode", 0)
    else:
        arguments.pop("qk_matmul_output_mode", None)
    return arguments, results


def given(library, arguments):
    """The arrays as that library's."""
    if library == "numpy":
        return arguments
    needs(library)
    module = importlib.import_module({"jax": "jax.numpy"}.get(library, library))

    def make(x):
        if library == "torch" and x.dtype.name == "bfloat16":  # which PyTorch doesn't take from NumPy
            return module.asarray(x.astype("float32")).bfloat16()
        return module.asarray(np.array(x))

    return {name: make(x) if isinstance(x, np.ndarray) else x for name, x in arguments.items()}


def test_all_that_onnx_has_are_run():
    opsets = [case.model.opset_import[0].version for case in CASES.values()]
    assert {opset: opsets.count(opset) for opset in sorted({*opsets})} == {23: 69, 24: 13, 25: 11}


@pytest.mark.parametrize("library", [
    "numpy", *(pytest.param(library, marks=pytest.mark.thin(6)) for library in ("jax", "torch"))
])  # fmt: skip
@pytest.mark.parametrize("name", CASES)
def test_what_onnx_stores(name, library):
    arguments, expected = call(CASES[name])
    results = attention(**given(library, arguments))
    for place, x in expected.items():
        assert tuple(results[place].shape) == x.shape
        assert str(results[place].dtype).removeprefix("torch.") == x.dtype.name
        wide = [to_numpy(y) for y in (results[place], x)]
        rough = 1e-5 if x.dtype == np.float32 else 1e-2
        np.testing.assert_allclose(*wide, rtol=rough, atol=rough)
    assert (results[3] is None) == ("qk_matmul_output_mode" not in arguments)


def test_what_the_operator_refuses():
    x = np.ones((2, 3, 4, 8), np.float32)
    refused(ValueError, "only one of past_key and past_value", attention, x, x, x, past_key=x)
    both = dict(past_key=x, past_value=x, nonpad_kv_seqlen=np.array([1, 2]))
    refused(ValueError, "past_key and nonpad_kv_seqlen are given", attention, x, x, x, **both)
    refused(ValueError, "Q has 3 axes; it then needs q_num_heads", attention, x[0], x[0], x[0], q_num_heads=2)
