#!/usr/bin/env bash
# NumPy's mean of a thousand ones in bfloat16 is 0.256: the running sum stops at 256.
# NumPy 2.3.5 with ml_dtypes 0.6.0: sum 256, mean 0.2559. For float16 NumPy widens in mean; for this dtype it doesn't.
"$(dirname "$0")/in_venv" ml_dtypes==0.6.0 numpy==2.3.5 << 'EOF'
import ml_dtypes
import numpy as np

ones = np.ones(1000, ml_dtypes.bfloat16)
print(np.__version__, ones.sum(), ones.mean(), (ones @ ones).item())
assert ones.sum() == 256
assert 0.25 < float(ones.mean()) < 0.26
assert float(ones @ ones) == 1000
assert np.ones(5000, np.float16).mean() == 1
EOF
