"""The text that the model is trained on: sources and topics of the standard library, which every Python carries."""

import hashlib
import importlib
import sysconfig
from pathlib import Path

HELD_OUT = ("contextlib.py", "fractions.py", "heapq.py", "shlex.py", "textwrap.py")
"""Files that are never trained on; the excerpt is made of them."""

LEFT_OUT = {"site-packages", "test", "tests", "encodings", "idlelib", "lib2to3", "distutils", "pydoc_data", "tkinter",
            "turtledemo", "__phello__"}  # fmt: skip


def sources() -> list[Path]:
    """The files that are read, in sorted order."""
    library = Path(sysconfig.get_path("stdlib"))
    found = sorted(path.relative_to(library) for path in library.rglob("*.py"))
    return [library / path for path in found if not any(map(left_out, path.parts)) and str(path) not in HELD_OUT]


def left_out(part: str) -> bool:
    """Folders and files of tests, tables, old tools, and what was built for one machine."""
    return part in LEFT_OUT or part.startswith(("config-", "_sysconfigdata"))


def read() -> bytes:
    """The text for training, some 8 MB: the sources but for those held out, then the topics of ``help``."""
    topics = importlib.import_module("pydoc_data.topics").topics
    return b"\n".join([*(path.read_bytes() for path in sources()), *(topics[name].encode() for name in sorted(topics))])


def digest(text: bytes) -> str:
    """SHA-256 of a text, in hexadecimal digits."""
    return hashlib.sha256(text).hexdigest()
