#!/usr/bin/env bash
# Mode 0 of ONNX's qk_matmul_output_mode holds capped scores in ONNX's reference; in ONNX Runtime, those before the cap.
# onnx 1.23.2, onnxruntime 1.31.1: a scaled score of 2 with softcap = 3 is 1.75 and 2; in mode 1 both give 1.75.
"$(dirname "$0")/in_venv" onnxruntime==1.31.1 onnx==1.23.2 numpy==2.3.5 << 'EOF'
import numpy as np
import onnx
import onnxruntime
from onnx import helper
from onnx.reference import ReferenceEvaluator

x = np.ones((1, 1, 1, 4), np.float32)


def scores(mode):
    options = {"scale": 0.5, "softcap": 3.0, "qk_matmul_output_mode": mode}
    node = helper.make_node("Attention", ["Q", "K", "V"], ["Y", "", "", "scores"], **options)
    kinds = {n: helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None if n in ("Y", "scores") else x.shape)
             for n in ("Q", "K", "V", "Y", "scores")}
    graph = helper.make_graph([node], "g", [kinds[n] for n in "QKV"], [kinds["Y"], kinds["scores"]])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    both = [run.run(None, {"Q": x, "K": x, "V": x})[1].item() for run in (ReferenceEvaluator(model), session)]
    return np.round(both, 2).tolist()


print(onnx.__version__, onnxruntime.__version__, scores(0), scores(1))
assert scores(0) == [1.75, 2]
assert scores(1) == [1.75, 1.75]
EOF
