#!/usr/bin/env bash
# Triton's interpreter adds bfloat16 by its bits: 1 + 1 is 1.7·10³⁸, and 1,024 ones sum to 0, without a warning.
# triton 3.8.0 with TRITON_INTERPRET=1. Converted to float32 first they sum to 1,024.
"$(dirname "$0")/in_venv" triton==3.8.0 torch==2.13.0 numpy==2.3.5 << 'EOF'
import os

os.environ["TRITON_INTERPRET"] = "1"
import torch
import triton
import triton.language as tl


@triton.jit
def sums(x, out, N: tl.constexpr):
    a = tl.load(x + tl.arange(0, N))
    tl.store(out, tl.max(a + a))
    tl.store(out + 1, tl.sum(a))
    tl.store(out + 2, tl.sum(a.to(tl.float32)))


out = torch.zeros(3)
sums[(1,)](torch.ones(1024, dtype=torch.bfloat16), out, 1024)
print(triton.__version__, out.tolist())
assert 1.6e38 < out[0] < 1.8e38
assert out[1:].tolist() == [0, 1024]
EOF
