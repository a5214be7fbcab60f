#!/usr/bin/env bash
# ONNX's Attention aligns is_causal in three ways, by which inputs are there.
# onnx 1.23.2, its reference, 2 queries and 4 keys: query 0 sees 1 key; with 2 of the keys given as past it sees 3;
# with nonpad_kv_seqlen = 3 it sees 2.
"$(dirname "$0")/in_venv" onnx==1.23.2 numpy==2.3.5 << 'EOF'
import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

NAMES = ["Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen"]


def seen(**given):
    """How many keys query 0 sees."""
    last = max(NAMES.index(name) for name in given) + 1
    outputs = ["Y", "present_key", "present_value"] if "past_key" in given else ["Y"]
    node = helper.make_node("Attention", [n if n in given else "" for n in NAMES[:last]], outputs, is_causal=1)
    kinds = {name: helper.np_dtype_to_tensor_dtype(x.dtype) for name, x in given.items()}
    inputs = [helper.make_tensor_value_info(name, kinds[name], x.shape) for name, x in given.items()]
    result = helper.make_tensor_value_info("Y", onnx.TensorProto.FLOAT, None)
    model = helper.make_model(helper.make_graph([node], "g", inputs, [result]), opset_imports=[helper.make_opsetid("", 24)])
    return int((ReferenceEvaluator(model).run(None, given)[0][0, 0, 0] > 0).sum())


zeros, one = np.zeros((1, 1, 4, 4), np.float32), np.eye(4, dtype=np.float32)[None, None]
query = zeros[:, :, :2]
counts = [
    seen(Q=query, K=zeros, V=one),
    seen(Q=query, K=query, V=one[:, :, 2:], past_key=query, past_value=one[:, :, :2]),
    seen(Q=query, K=zeros, V=one, nonpad_kv_seqlen=np.array([3])),
]
print(onnx.__version__, counts)
assert counts == [1, 3, 2]
EOF
