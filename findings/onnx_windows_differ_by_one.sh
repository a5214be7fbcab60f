#!/usr/bin/env bash
# A window of 2 shows three keys by ONNX's left_window_size, and two by ONNX Runtime's local_window_size.
# onnx 1.23.2 (opset 25, reference) counts keys besides a query's own; onnxruntime 1.31.1 (GroupQueryAttention) with it.
"$(dirname "$0")/in_venv" onnxruntime==1.31.1 onnx==1.23.2 numpy==2.3.5 << 'EOF'
import numpy as np
import onnx
import onnxruntime
from onnx import helper
from onnx.reference import ReferenceEvaluator

zeros, one = np.zeros((1, 6, 8), np.float32), np.eye(6, 8, dtype=np.float32)[None]


def model(op, feeds, outputs, opset, **options):
    inputs = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
              for name, x in feeds.items()]
    made = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph([helper.make_node(op, list(feeds), outputs, **options)], "g", inputs, made)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


feeds = {"Q": zeros, "K": zeros, "V": one}
standard = model("Attention", feeds, ["Y"], 25, left_window_size=2, is_causal=1, q_num_heads=1, kv_num_heads=1)
seen = [(ReferenceEvaluator(standard).run(None, feeds)[0][0, -1] > 0).sum().item()]
past = np.zeros((1, 1, 0, 8), np.float32)
feeds |= {"past_key": past, "past_value": past, "seqlens_k": np.array([5], np.int32), "total": np.array(6, np.int32)}
own = model("GroupQueryAttention", feeds, ["Y", "PK", "PV"], 21, local_window_size=2, num_heads=1, kv_num_heads=1,
            domain="com.microsoft")
session = onnxruntime.InferenceSession(own.SerializeToString(), providers=["CPUExecutionProvider"])
seen.append((session.run(None, feeds)[0][0, -1] > 1e-6).sum().item())
print(onnx.__version__, onnxruntime.__version__, seen)
assert seen == [3, 2]
EOF
