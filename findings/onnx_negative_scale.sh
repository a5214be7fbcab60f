#!/usr/bin/env bash
# ONNX's reference gives NaN for a scale below 0: it multiplies queries and keys by the root of it.
# onnx 1.23.2. The operator's text doesn't forbid such a scale.
"$(dirname "$0")/in_venv" onnx==1.23.2 numpy==2.3.5 << 'EOF'
import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

node = helper.make_node("Attention", ["Q", "K", "V"], ["Y"], scale=-0.5)
kinds = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (1, 1, 2, 4)) for name in "QKVY"]
model = helper.make_model(helper.make_graph([node], "g", kinds[:3], kinds[3:]), opset_imports=[helper.make_opsetid("", 23)])
x = np.ones((1, 1, 2, 4), np.float32)
out = ReferenceEvaluator(model).run(None, dict(Q=x, K=x, V=x))[0]
print(onnx.__version__, out[0, 0, 0])
assert np.isnan(out).all()
EOF
