"""The kernels for GPUs, in their interpreters, on a GPU where there is one, and compiled."""
