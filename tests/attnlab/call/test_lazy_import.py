"""What is imported when, in processes of their own."""

import json
import os
import subprocess
import sys

import pytest

import attnlab
from tests.support import PYTHONPATH, needs, refused

ROOMS = ["softmax", "core.dropout", "core.scores", "rotation", "cache", "paged", "linear"]
CALL = """
import numpy as np
x = np.eye(3, dtype=np.float32)
for name in attnlab.METHODS:
    out, lse = attnlab.attention(x, x, x, method=name, causal=True, dropout=0.5, seed=1, return_lse=True)
    assert out.shape == (3, 3) and lse.shape == (3,)
assert attnlab.safe_softmax(x).shape == (3, 3)
assert attnlab.merge(out, lse, out, lse)[0].shape == (3, 3)
assert attnlab.dropout_mask(1, (3, 3), 0.5).shape == (3, 3)
assert attnlab.rotary(x[:, :2]).shape == (3, 2)
from attnlab.linear import linear_attention
assert linear_attention(x, x, x, causal=True).shape == (3, 3)
from attnlab.cache import KVCache, RollingCache
for cache in (KVCache.empty(x, x, capacity=3), RollingCache.empty(x, x, window=2, sinks=1)):
    assert cache.attend(x, x, x)[0].shape == (3, 3)
from attnlab.paged import PagedCache
cache = PagedCache.empty(x[None], x[None], blocks=2, block_size=2)
cache.manager.add("a")
cache = cache.write(cache.manager.append("a", 3).slots, x[None], x[None])
assert cache.attend(x[None, None], ["a"]).shape == (1, 1, 3, 3)
from attnlab.ring import Cluster, ring_attention, shard, tree_attention
cluster = Cluster(2)
for attend in (ring_attention, tree_attention):
    outs = cluster.run(lambda rank, x: attend(x, x, x, group=rank), [x, x])
    assert [out.shape for out in outs] == [(3, 3)] * 2
assert len(shard(x, 2)) == 2
"""


def run(code, *blocked):
    """Standard output of Python code in a fresh process in which some modules cannot be imported."""
    if "import torch" in code:
        needs("torch")
    block = f"import sys\nsys.modules.update(dict.fromkeys({blocked!r}))\n"
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH}
    command = [sys.executable, "-W", "error", "-c", block + code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


HEAVY = ["numpy", "jax", "torch", "matplotlib", "scipy", "ml_dtypes", "torch._dynamo", "torch._inductor"]
PROGRAMS = {  # and what they load of those
    "the package": ("import attnlab\n", {"numpy"}),
    "a call in NumPy": (f"import attnlab{CALL}", {"numpy"}),
    "calls in PyTorch, and a gradient": (  # chunked attention's asks torch.func, which loads the compiler
        "import torch, attnlab\nx = torch.eye(3, requires_grad=True)\n"
        "for name in attnlab.METHODS:\n    out = attnlab.attention(x, x, x, method=name)\n"
        "assert name == 'tiled'\nout.sum().backward()\n"
        "assert not {'attnlab.tiled.jax', 'attnlab.tiled.numpy'} & sys.modules.keys()\n",
        {"numpy", "torch"}),
    "a measured call": (  # torch.profiler would load the compiler, which takes seconds
        "import torch\nfrom attnlab.measure import extra_bytes\nx = torch.ones(256)\n"
        "assert extra_bytes(lambda x: (x + 1) * 2, x) >= 1024\n", {"numpy", "torch"}),
    "a module of the name of PyTorch": (
        "import torch, attnlab.tiled.torch as t\nassert t.torch is torch and 'site-packages' in torch.__file__\n",
        {"numpy", "torch"}),
}  # fmt: skip


@pytest.mark.thin(5)
@pytest.mark.parametrize("what", PROGRAMS)
def test_what_is_loaded(what):
    code, most = PROGRAMS[what]
    loaded = json.loads(run(f"{code}import json\nprint(json.dumps([x for x in {HEAVY} if sys.modules.get(x)]))"))
    assert "numpy" in loaded
    assert set(loaded) <= most


def test_rooms_are_loaded_at_first_use():
    """As attributes, without an import of their own; a typing error stays one, and a missing library no crash."""
    code = (
        "import attnlab\nbefore = [room for room in attnlab.ROOMS if f'attnlab.{room}' in sys.modules]\n"
        "print(before, set(attnlab.ROOMS) <= set(dir(attnlab)), hasattr(attnlab, 'cash'), hasattr(attnlab, 'compat'),\n"
        "      attnlab.cache.KVCache.__name__, attnlab.ring.positions(4, 2, 'striped'))"
    )
    assert run(code, "torch") == "[] True False False KVCache [[0, 2], [1, 3]]"


def test_every_room_is_one():
    """All that is public and no function; each can be loaded, and none has the name of a function."""
    for room in attnlab.ROOMS:
        assert getattr(attnlab, room).__name__ == f"attnlab.{room}"
    assert not set(attnlab.ROOMS) & set(attnlab.__all__)
    assert set(dir(attnlab)) >= {*attnlab.__all__, *attnlab.ROOMS}
    assert not set(dir(attnlab)) & set(attnlab.OF_COURSE)


@pytest.mark.parametrize("name", attnlab.OF_COURSE)
def test_what_the_course_has_is_refused_in_one_sentence(name):
    """However it is asked for; tests/course/test_lazy_import.py does what the sentence says."""
    for ask, error in ((f"from attnlab import {name}", ImportError), (f"attnlab.{name}", AttributeError)):
        refused(error, f"^{sentence(name)}$", exec, ask, {"attnlab": attnlab})
    assert not hasattr(attnlab, name)


def sentence(name):
    """The words, with the import as a group."""
    return rf"{name} is in attnlab_course: pip install attnlab-course; (from attnlab_course[.\w]* import {name})"


@pytest.mark.parametrize(("library", "blocked"), [
    ("numpy", ("jax", "torch", "jaxtyping", "ml_dtypes")), ("jax", ("torch",)), ("torch", ("jax",)),
])  # fmt: skip
def test_one_library_is_enough(library, blocked):
    needs(library)
    own = {"jax": "import jax.numpy as jnp\nx = jnp.eye(3)\n", "torch": "import torch\nx = torch.eye(3)\n"}
    call = own[library] + "assert attnlab.tiled_attention(x, x, x).shape == (3, 3)\n" if library in own else CALL
    assert run(f"import attnlab\n{call}print('fine')", *blocked) == "fine"


@pytest.mark.full
@pytest.mark.parametrize("library", ["jax", "torch"])
@pytest.mark.parametrize("module", [*attnlab.METHODS, *ROOMS])
def test_a_missing_library_names_its_extra(library, module):
    code = (
        f"try:\n    import attnlab.{module}.{library}\n"
        "except ModuleNotFoundError as error:\n    print(type(error).__name__, error.name, error)"
    )
    text = run(code, library)
    assert text.startswith(f"ModuleNotFoundError {library} ")
    assert f"pip install 'attnlab[{library}]'" in text


@pytest.mark.full
@pytest.mark.parametrize(("adapter", "library"), [
    ("transformers", "torch"), ("transformers", "transformers"), ("flax", "jax"), ("equinox", "jax"),
    ("equinox", "equinox"),
])  # fmt: skip
def test_an_adapter_names_what_is_missing(adapter, library):
    if adapter == library:
        needs({"transformers": "torch", "equinox": "jax"}[adapter])  # which it asks for first
    code = f"try:\n    import attnlab.adapters.{adapter}\nexcept ModuleNotFoundError as error:\n    print(error)"
    assert run(code, library).endswith(f"pip install 'attnlab[{library}]'")
