"""Show the package's own source in a notebook, read from its files and never pasted."""

import inspect
from pathlib import Path

import attnlab

LIBRARIES = {"numpy": "NumPy", "jax": "JAX", "torch": "PyTorch"}


def source(path: str) -> str:
    """The text of a file of the package, such as "naive/numpy.py", without its leading imports."""
    text = (Path(inspect.getfile(attnlab)).parent / path).read_text(encoding="utf-8")
    return text.strip()


def core(algorithm: str, library: str) -> str:
    """The core of an algorithm as its file has it: from the decorator to the end of the file."""
    text = source(f"{algorithm}/{library}.py")
    return text[text.index("@implements") :]


def backends(algorithm: str, unfold: str = "numpy") -> None:
    """Display an algorithm in three libraries: one open, the others folded."""
    from IPython.display import Markdown, display

    parts = []
    for library, name in LIBRARIES.items():
        code = f"```python\n{core(algorithm, library)}\n```"
        file = f"`attnlab/{algorithm}/{library}.py`"
        opened = " open" if library == unfold else ""
        parts.append(f"<details{opened}><summary><b>{name}</b> &nbsp; {file}</summary>\n\n{code}\n\n</details>")
    display(Markdown("\n\n".join(parts)))
