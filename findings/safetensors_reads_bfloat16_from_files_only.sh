#!/usr/bin/env bash
# safetensors.numpy saves bfloat16 to bytes that its own load refuses; load_file reads the same from a file.
# safetensors 0.8.0 with ml_dtypes 0.6.0: load raises KeyError 'BF16'.
"$(dirname "$0")/in_venv" safetensors==0.8.0 ml_dtypes==0.6.0 numpy==2.3.5 << 'EOF'
from pathlib import Path

import ml_dtypes
import numpy as np
import safetensors
from safetensors.numpy import load, load_file, save

saved = save({"x": np.ones(3, ml_dtypes.bfloat16)})
Path("x.safetensors").write_bytes(saved)
try:
    refused = ""
    load(saved)
except KeyError as error:
    refused = error.args[0]
print(safetensors.__version__, refused, load_file("x.safetensors"))
assert refused == "BF16"
assert load_file("x.safetensors")["x"].dtype == ml_dtypes.bfloat16
EOF
