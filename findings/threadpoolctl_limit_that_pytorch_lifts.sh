#!/usr/bin/env bash
# threadpoolctl's limit of one thread is gone once PyTorch is used inside the block, if set_num_threads came before.
# threadpoolctl 3.8.0 with torch 2.13.0: in threadpool_limits(1), torch.get_num_threads() says 2, and OpenMP then has 2.
"$(dirname "$0")/in_venv" threadpoolctl==3.8.0 torch==2.13.0 numpy==2.3.5 << 'EOF'
import threadpoolctl
import torch


def of_openmp():
    return {pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "openmp"}


torch.set_num_threads(2)
with threadpoolctl.threadpool_limits(1):
    before, said, after = of_openmp(), torch.get_num_threads(), of_openmp()
print(threadpoolctl.__version__, torch.__version__, before, said, after)
assert before == {1}
assert said == 2
assert 2 in after
EOF
