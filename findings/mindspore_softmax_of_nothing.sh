#!/usr/bin/env bash
# MindSpore's softmax of [−∞, −∞] is [0, 0]; NumPy's formula, PyTorch, JAX and TensorFlow give NaN.
# MindSpore 2.10.0 on a CPU.
"$(dirname "$0")/in_venv" mindspore==2.10.0 numpy==1.26.4 << 'EOF'
import mindspore
import numpy as np

mindspore.set_context(device_target="CPU")
out = mindspore.ops.softmax(mindspore.Tensor(np.full(2, -np.inf, np.float32))).asnumpy()
print(mindspore.__version__, out)
assert out.tolist() == [0, 0]
EOF
