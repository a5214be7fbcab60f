#!/usr/bin/env bash
# GGUFReader's shape of a tensor is the reverse of the array's that was written; that of its data isn't.
# gguf 0.19.0: an array (3, 5) reads as shape [5, 3], data.shape (3, 5).
"$(dirname "$0")/in_venv" gguf==0.19.0 numpy==2.3.5 << 'EOF'
import numpy as np
from gguf import GGUFReader, GGUFWriter

writer = GGUFWriter("x.gguf", "test")
writer.add_tensor("x", np.arange(15, dtype=np.float32).reshape(3, 5))
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
(tensor,) = GGUFReader("x.gguf").tensors
print(tensor.shape.tolist(), tensor.data.shape)
assert tensor.shape.tolist() == [5, 3]
assert tensor.data.shape == (3, 5)
EOF
