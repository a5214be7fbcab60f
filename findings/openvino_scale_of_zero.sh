#!/usr/bin/env bash
# OpenVINO takes scale = 0 of ONNX's Attention for "not given"; ONNX's reference gives every key the same weight.
# OpenVINO 2026.4.1, onnx 1.23.2: weights of keys with q·k = 4 and 0 are 0.88 and 0.12, instead of 0.5 and 0.5.
"$(dirname "$0")/in_venv" openvino==2026.4.1 onnx==1.23.2 numpy==2.3.5 << 'EOF'
import numpy as np
import onnx
import openvino
from onnx import helper
from onnx.reference import ReferenceEvaluator

node = helper.make_node("Attention", ["Q", "K", "V"], ["Y"], scale=0.0)
shapes = {"Q": (1, 1, 1, 4), "K": (1, 1, 2, 4), "V": (1, 1, 2, 2), "Y": (1, 1, 1, 2)}
kinds = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in shapes.items()]
graph = helper.make_graph([node], "g", kinds[:3], kinds[3:])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
key = np.array([1, 0], np.float32)[:, None].repeat(4, 1)[None, None]
feeds = {"Q": key[:, :, :1], "K": key, "V": np.eye(2, dtype=np.float32)[None, None]}
reference = ReferenceEvaluator(model).run(None, feeds)[0].ravel().tolist()
core = openvino.Core()
found = core.compile_model(core.read_model(model=model.SerializeToString()), "CPU")(feeds)[0].ravel().round(2)
print(openvino.__version__, onnx.__version__, found, reference)
assert reference == [0.5, 0.5]
assert found.tolist() == [np.float32(0.88), np.float32(0.12)]
EOF
