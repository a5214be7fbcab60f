#!/usr/bin/env bash
# PyTorch's SDPA is said to raise where attn_mask and is_causal are both given. On a CPU it combines them, or raises.
# torch 2.13.0: the default path combines them in silence; the math path, and values of another size, raise.
"$(dirname "$0")/in_venv" torch==2.13.0 numpy==2.3.5 << 'EOF'
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

sdpa = torch.nn.functional.scaled_dot_product_attention
zeros, one = torch.zeros(1, 1, 4, 4), torch.eye(4)[None, None]
options = {"attn_mask": torch.arange(4).expand(4, 4) > 0, "is_causal": True}  # hides key 0


def raises(value):
    try:
        sdpa(zeros, zeros, value, **options)
    except RuntimeError:
        return True
    return False


weights = sdpa(zeros, zeros, one, **options)[0, 0]
with sdpa_kernel(SDPBackend.MATH):
    math = raises(one)
print(torch.__version__, weights[2], "raises:", math, raises(one[..., :3]))
assert "An error is thrown if both attn_mask and is_causal are set" in " ".join(sdpa.__doc__.split())
assert weights[2].tolist() == [0, 0.5, 0.5, 0]
assert math and raises(one[..., :3])
EOF
