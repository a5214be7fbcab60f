#!/usr/bin/env bash
# jupytext gives the cells of a MyST notebook other ids whenever it reads it: nothing that refers to them survives.
# jupytext 1.19.6: two reads of the same text, two ids.
"$(dirname "$0")/in_venv" jupytext==1.19.6 << 'EOF'
import jupytext

text = "# Title\n\n```{code-cell}\n1 + 1\n```\n"
ids = [[cell.id for cell in jupytext.reads(text, "md:myst").cells] for _ in range(2)]
print(jupytext.__version__, ids)
assert len(ids[0]) == 2
assert not {*ids[0]} & {*ids[1]}
EOF
