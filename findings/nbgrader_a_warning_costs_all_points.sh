#!/usr/bin/env bash
# nbgrader gives a test cell that passes 0 points if it writes anything to stderr: a warning is enough.
# nbgrader 0.9.6: of 3 points a cell that does nothing gets 3, one that warns 0; one that ends in -1 or in True gets 3.
"$(dirname "$0")/in_venv" nbgrader==0.9.6 << 'EOF'
from importlib.metadata import version

from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook
from nbgrader.utils import determine_grade

SOURCES = {"nothing": "x = 1", "warns": "import warnings; warnings.warn('slow')", "two": "2", "minus one": "-1",
           "True": "True"}
cells = []
for name, source in SOURCES.items():
    rules = dict(grade=True, grade_id=name, locked=True, points=3, schema_version=3, solution=False, task=False)
    cells.append(new_code_cell(source, metadata={"nbgrader": rules | {"cell_type": "code"}}))
notebook = NotebookClient(new_notebook(cells=cells), kernel_name="python3").execute()
points = dict(zip(SOURCES, (determine_grade(cell)[0] for cell in notebook.cells)))
print(version("nbgrader"), points)
assert points == {"nothing": 3, "warns": 0, "two": 2, "minus one": 3, "True": 3}
EOF
