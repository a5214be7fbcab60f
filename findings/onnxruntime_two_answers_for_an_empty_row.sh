#!/usr/bin/env bash
# Two attention operators of one runtime: a row that sees nothing is 0 in ai.onnx's, and the mean in com.microsoft's.
# onnxruntime 1.31.1 on a CPU: Attention (opset 23) with a mask of False, MultiHeadAttention with a key mask of 0.
"$(dirname "$0")/in_venv" onnxruntime==1.31.1 onnx==1.23.2 numpy==2.3.5 << 'EOF'
import numpy as np
import onnx
import onnxruntime
from onnx import helper

zeros, one = np.zeros((1, 4, 4), np.float32), np.eye(4, dtype=np.float32)[None]


def row(op, names, mask, **options):
    feeds = dict(zip([name for name in names if name], (zeros, zeros, one, mask)))
    node = helper.make_node(op, names, ["Y"], **options)
    inputs = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
              for name, x in feeds.items()]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("Y", onnx.TensorProto.FLOAT, None)])
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feeds)[0][0, 0].tolist()


standard = row("Attention", ["Q", "K", "V", "mask"], np.zeros((4, 4), bool), q_num_heads=1, kv_num_heads=1)
own = row("MultiHeadAttention", ["Q", "K", "V", "", "mask"], np.zeros((1, 4), np.int32), num_heads=1,
          domain="com.microsoft")
print(onnxruntime.__version__, standard, own)
assert standard == [0, 0, 0, 0]
assert own == [0.25, 0.25, 0.25, 0.25]
EOF
