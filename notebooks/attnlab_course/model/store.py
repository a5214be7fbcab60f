"""What the package holds of the trained models: weights, how they were trained, and a text to evaluate them on."""

import json
from importlib import resources
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
    if library == "torch":
        from torch import from_numpy as array
    elif library == "jax":
        import jax
        from jax.numpy import asarray as array

        if dtype == "float64" and not jax.config.jax_enable_x64:
            raise ValueError("dtype is 'float64'; JAX keeps it only where jax_enable_x64 is set")
    else:
        array = np.asarray
    return Model(config, {key: array(x) for key, x in arrays.items()})


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
