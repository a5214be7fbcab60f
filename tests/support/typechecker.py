"""The checker of shapes and types under pytest: beartype, but for functions that check their arguments themselves.

Their annotations tell the reader what to pass; what happens otherwise is the contract's business, and is tested.
"""

from pathlib import Path

import jaxtyping
import pytest
from beartype import beartype

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / "attnlab", ROOT / "notebooks" / "attnlab_course"
OF_COURSE = "check", "checker", "games", "instruments.clock", "instruments.machine", "lessons"
WITHOUT_SHAPES = {"attnlab.core.other_names", "attnlab.core.torch_operator"}
WITHOUT_SHAPES |= {f"attnlab_course.{room}" for room in OF_COURSE}
"""Not checked: the tests call some a million times."""
PUBLIC = {"adapters", "cache", "compat", "linear", "model", "paged", "ring", "serve"}
"""Rooms whose public functions check what they are given: there only the files of one library each are checked."""
GRADIENTS = {"tiled_attention_backward", "ring_attention_backward"}


def modules() -> list[str]:
    """The modules whose annotations are checked; with a package all that it holds, so none that holds an exception."""
    found = []
    for package in PACKAGES:
        for path in sorted(package.rglob("*.py")):
            name = ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")
            above = {name, *(name[:at] for at, letter in enumerate(name) if letter == ".")}
            without = above & WITHOUT_SHAPES or any(other.startswith(f"{name}.") for other in WITHOUT_SHAPES)
            of_one_library = path.stem.partition("_")[0] in ("numpy", "jax", "torch")
            if "." in name and not without and (of_one_library or name.split(".")[1] not in PUBLIC):
                found.append(name)
    return found


def check(function):
    """Called by jaxtyping on every function of the package."""
    signature = function.__qualname__ == f"{function.__module__.removeprefix('attnlab.')}_attention"
    return function if signature or function.__qualname__ in GRADIENTS else beartype(function)


@pytest.fixture(scope="module", autouse=True)
def unchecked():
    """For tests of answers to exercises, which call the package as a learner's notebook does: nothing is checked."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
