#!/usr/bin/env bash
# nbval passes a cell tagged raises-exception that raises nothing: the tag says that it may, not that it must.
# nbval 0.11.0. Without the tag a cell that raises fails, as it should.
"$(dirname "$0")/in_venv" nbval==0.11.0 pytest==9.2.0 ipykernel==7.4.0 << 'EOF'
import subprocess
import sys
from importlib.metadata import version

import nbformat
from nbformat.v4 import new_code_cell, new_notebook

passes = {}
for source, tags in (("x = 1", ["raises-exception"]), ("1 / 0", [])):
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    cells = [new_code_cell(source, metadata={"tags": tags}, execution_count=1)]
    nbformat.write(new_notebook(cells=cells, metadata={"kernelspec": kernel}), "x.ipynb")
    command = [sys.executable, "-m", "pytest", "--nbval", "-q", "x.ipynb"]
    passes[source] = subprocess.run(command, capture_output=True).returncode == 0
print(version("nbval"), passes)
assert passes == {"x = 1": True, "1 / 0": False}
EOF
