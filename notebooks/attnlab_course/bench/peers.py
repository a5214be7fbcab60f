"""The fused attention of runtimes for stored graphs, on a CPU: ONNX Runtime's and OpenVINO's, where they're installed.

Both take NumPy arrays of float32 and have neither a window nor a gradient; their causal is top-left.
"""

import importlib.util
import sys
from collections.abc import Callable
from typing import Any

from attnlab_course.bench.setting import Setting

NEEDS = {"onnxruntime": ("onnxruntime", "onnx"), "openvino": ("openvino",)}


def list_installed() -> list[str]:
    """The runtimes that are installed, with what writes their graphs."""
    return [name for name, packages in NEEDS.items() if all(map(importlib.util.find_spec, packages))]


def explain_refusal(setting: Setting) -> str | None:
    """What the runtimes' functions do, where the setting is something else."""
    if setting.dtype == "float32" and setting.heads == setting.kv_heads and not (setting.dense or setting.gradient):
        return None
    return "left out: float32, forward, a key head for each query head, causal for as many queries as keys, no window"


def make_onnxruntime(setting: Setting) -> Callable:
    """MultiHeadAttention of ONNX Runtime's own operators, of arrays (batch, length, heads, size)."""
    import onnxruntime
    from onnx import TensorProto, helper

    names = "query", "key", "value"
    node = helper.make_node("MultiHeadAttention", names, ["out"], domain="com.microsoft", num_heads=setting.heads,
                            unidirectional=int(setting.causal))  # fmt: skip
    given, out = ([helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * 3) for name in some]
                  for some in (names, ["out"]))  # fmt: skip
    versions = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_model(helper.make_graph([node], "attention", given, out), opset_imports=versions, ir_version=10)
    session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])

    def run(*arrays: Any) -> Any:
        rows = {name: x.reshape(*x.shape[:2], -1) for name, x in zip(names, arrays)}
        return session.run(None, rows)[0].reshape(arrays[0].shape)

    return run


def make_openvino(setting: Setting) -> Callable:
    """OpenVINO's scaled_dot_product_attention, compiled for the setting's shapes."""
    sys.modules.setdefault("openvino_telemetry", None)  # else the import forks, beside JAX's threads, to report itself
    import openvino
    from openvino import opset13

    sizes = [[setting.batch, setting.heads, length, setting.d] for length in (setting.n, setting.keys, setting.keys)]
    given = [opset13.parameter(size, openvino.Type.f32) for size in sizes]
    out = opset13.scaled_dot_product_attention(*given, causal=setting.causal)
    options = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    request = openvino.Core().compile_model(openvino.Model([out], given), "CPU", options).create_infer_request()

    def run(*arrays: Any) -> Any:
        for at, x in enumerate(arrays):
            request.set_input_tensor(at, openvino.Tensor(x, shared_memory=True))
        request.infer()
        return request.get_output_tensor(0).data

    return run


MAKERS = {"onnxruntime": make_onnxruntime, "openvino": make_openvino}
