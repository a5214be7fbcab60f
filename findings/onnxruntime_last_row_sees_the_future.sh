#!/usr/bin/env bash
# ONNX Runtime's own MultiHeadAttention, causal, with more keys than queries: all rows start at the top left, but the
# last query sees every key.
# onnxruntime 1.31.1 on a CPU, 3 queries and 5 keys: they see 1, 2 and 5.
"$(dirname "$0")/in_venv" onnxruntime==1.31.1 onnx==1.23.2 numpy==2.3.5 << 'EOF'
import numpy as np
import onnx
import onnxruntime
from onnx import helper

node = helper.make_node("MultiHeadAttention", ["q", "k", "v"], ["y"], domain="com.microsoft", num_heads=1, unidirectional=1)
shapes = {"q": (1, 3, 8), "k": (1, 5, 8), "v": (1, 5, 8), "y": (1, 3, 8)}
kinds = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in shapes.items()]
opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
model = helper.make_model(helper.make_graph([node], "g", kinds[:3], kinds[3:]), opset_imports=opsets, ir_version=10)
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
zeros, one = np.zeros((1, 5, 8), np.float32), np.eye(5, 8, dtype=np.float32)[None]
out = session.run(None, {"q": zeros[:, :3], "k": zeros, "v": one})[0][0]
counts = (out > 1e-6).sum(1).tolist()
print(onnxruntime.__version__, counts)
assert counts == [1, 2, 5]
EOF
