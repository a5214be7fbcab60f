"""Show the package's own source in a notebook, read from its files and never pasted."""

import importlib
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
    fold({library: (f"{algorithm}/{library}.py", core(algorithm, library)) for library in LIBRARIES}, unfold)


def functions(package: str, *names: str, unfold: str = "numpy") -> None:
    """Display functions of a package such as "softmax" in three libraries: one open, the others folded."""
    listings = {}
    for library in LIBRARIES:
        module = importlib.import_module(f"attnlab.{package}.{library}")
        code = "\n\n".join(inspect.getsource(getattr(module, name)) for name in names)
        listings[library] = f"{package}/{library}.py", code.strip()
    fold(listings, unfold)


def fold(listings: dict[str, tuple[str, str]], unfold: str) -> None:
    """Display listings, each with the file that it is from, under the name of their library."""
    from IPython.display import Markdown, display

    parts = []
    for library, (file, code) in listings.items():
        opened = " open" if library == unfold else ""
        head = f"<details{opened}><summary><b>{LIBRARIES[library]}</b> &nbsp; `attnlab/{file}`</summary>"
        parts.append(f"{head}\n\n```python\n{code}\n```\n\n</details>")
    display(Markdown("\n\n".join(parts)))
