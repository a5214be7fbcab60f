#!/bin/sh
# What needs a GPU, in six minutes at most: the kernels' answers and gradients beside the loops', then their time beside
# PyTorch's flash attention and compiled FlexAttention. Wants PyTorch, Triton, JAX with CUDA, pytest and attnlab_course.
#     PYTHON=python3 tests/gpu.sh
cd "$(dirname "$0")/.." || exit 1
PYTHON=${PYTHON:-.venv/bin/python}
PYTHONPATH=$PWD:$PWD/notebooks
export PYTHONPATH
if ! "$PYTHON" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then
    echo "skipped: PyTorch finds no GPU on this machine, and the kernels' speed can't be seen without one"
    exit 0
fi
failed=
timeout 150 "$PYTHON" -m pytest -q -n 4 tests/attnlab/kernels || failed=1
for d in 64 128; do
    timeout 75 "$PYTHON" -m attnlab_course.bench --device cuda --dtype bfloat16 --d $d --n 1024 4096 16384 --causal both \
        --methods triton sdpa-flash flex --libraries torch --seconds 1 --no-memory || failed=1
done
timeout 45 "$PYTHON" -m attnlab_course.bench --device cuda --dtype bfloat16 --paged --seconds 2 || failed=1
exit ${failed:-0}
