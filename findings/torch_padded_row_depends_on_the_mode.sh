#!/usr/bin/env bash
# In PyTorch's nn.MultiheadAttention an example that is all padding gives numbers or NaN, by mode and by need_weights.
# torch 2.13.0 on a CPU: no NaN in training without weights; NaN with weights, and in eval under no_grad.
"$(dirname "$0")/in_venv" torch==2.13.0 numpy==2.3.5 << 'EOF'
import torch

layer, x = torch.nn.MultiheadAttention(4, 2, batch_first=True), torch.ones(1, 3, 4)


def spoiled(need_weights):
    padding = torch.ones(1, 3, dtype=torch.bool)  # True is hidden
    return layer(x, x, x, key_padding_mask=padding, need_weights=need_weights)[0].isnan().any().item()


train = {need: spoiled(need) for need in (False, True)}
layer.eval()
with torch.no_grad():
    fast = spoiled(False)
print(torch.__version__, "NaN in training, by need_weights:", train, "in eval:", fast)
assert train == {False: False, True: True}
assert fast
EOF
