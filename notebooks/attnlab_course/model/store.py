"""What the package holds of the trained models: weights, how they were trained, and a text to evaluate them on."""

import json
from importlib import import_module, resources
from typing import Any

from attnlab.core.arguments import LIBRARIES, check_choice
from attnlab_course.model.config import Config
from attnlab_course.model.language import Model

import numpy as np

NAMES = ("base", "no_first", "learned_sink")
"""base; a twin without the first token; a twin whose heads have a learned sink."""

DTYPES = ("float32", "float64")


def load(name: str = "base", library: str = "numpy", dtype: str = "float32") -> Model:
    """A trained model, its float16 weights widened to ``dtype`` ("float32" or "float64", in JAX where x64 is enabled).

    ``name``: one of ``NAMES``. ``library``: "numpy", "jax" or "torch". Raises ValueError for an unknown one.
    """
    check_choice("library", library, LIBRARIES)
    check_choice("dtype", dtype, DTYPES)
    config = Config(**training(name)["config"])
    with (data() / f"{name}.npz").open("rb") as file, np.load(file) as stored:
        arrays = {key: stored[key].astype(dtype) for key in config.shapes}
    import_module(f"attnlab.core.arrays.{library}")  # an error says how to install what is missing
    xp = import_module({"jax": "jax.numpy"}.get(library, library))
    parameters = {key: xp.asarray(x) for key, x in arrays.items()}
    if dtype not in str(parameters["norm"].dtype):
        raise ValueError("dtype is 'float64'; JAX keeps it only where jax_enable_x64 is set")
    return Model(config, parameters)


def training(name: str = "base") -> dict[str, Any]:
    """How a model was trained: its config, the seed, the text's length and hash, the curve of losses in bits a byte."""
    check_choice("name", name, NAMES)
    return json.loads((data() / f"{name}.json").read_text(encoding="utf-8"))


def excerpt() -> bytes:
    """Text that no model was trained on: five modules of Python 3.11's standard library, 112,328 bytes.

    Copyright Python Software Foundation, under the PSF License Agreement, which lies beside it in the package.
    """
    return (data() / "excerpt.txt").read_bytes()


def data() -> Any:
    """The folder of weights."""
    return resources.files("attnlab_course.model") / "weights"
