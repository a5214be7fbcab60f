"""What is imported when, in processes of their own."""

import os
import subprocess
import sys

import pytest

import attnlab
from tests.support import PYTHONPATH, needs

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


def test_import_loads_numpy_only():
    code = "import attnlab\nprint(sorted({name.partition('.')[0] for name, m in sys.modules.items() if m}))"
    loaded = run(code)
    assert "'numpy'" in loaded
    for heavy in ("jax", "jaxlib", "torch", "matplotlib", "scipy", "ml_dtypes"):
        assert f"'{heavy}'" not in loaded


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


def test_dir_lists_the_functions_and_the_rooms():
    assert set(dir(attnlab)) >= {*attnlab.__all__, *attnlab.ROOMS}
    assert not set(dir(attnlab)) & set(attnlab.OF_COURSE)


@pytest.mark.parametrize("name", attnlab.OF_COURSE)
def test_what_the_course_has_is_refused_in_one_sentence(name):
    """However it is asked for; tests/course/test_lazy_import.py does what the sentence says."""
    for ask in (f"from attnlab import {name}", f"attnlab.{name}"):
        with pytest.raises(ImportError, match=f"^{sentence(name)}$"):
            exec(ask, {"attnlab": attnlab})


def sentence(name):
    """The words, with the import as a group."""
    return rf"{name} is in attnlab_course: pip install attnlab-course; (from attnlab_course[.\w]* import {name})"


def test_a_numpy_call_loads_no_other_library():
    code = "import attnlab" + CALL + "print([name for name in ('jax', 'torch') if name in sys.modules])"
    assert run(code) == "[]"


def test_a_call_loads_one_backend():
    code = (
        "import torch, attnlab\nx = torch.eye(3)\nattnlab.tiled_attention(x, x, x)\n"
        "print('jax' in sys.modules, sorted(name for name in sys.modules if name.startswith('attnlab.tiled.')))"
    )
    assert run(code) == "False ['attnlab.tiled.torch', 'attnlab.tiled.torch_grad']"


def test_a_call_does_not_load_the_compiler():
    code = (
        "import torch, attnlab\nx = torch.eye(3, requires_grad=True)\n"
        "for name in attnlab.METHODS:\n    out = attnlab.attention(x, x, x, method=name)\n"
        "assert list(attnlab.METHODS)[-1] == 'tiled'\nout.sum().backward()\n"  # chunked's asks torch.func, which does
        "print('torch._dynamo' in sys.modules)"
    )
    assert run(code) == "False"


def test_measuring_does_not_load_the_compiler():
    """torch.profiler would, which takes seconds."""
    code = (
        "import torch, sys\nfrom attnlab.measure import extra_bytes\nx = torch.ones(256)\n"
        "assert extra_bytes(lambda x: (x + 1) * 2, x) >= 1024\nprint('torch._inductor' in sys.modules)"
    )
    assert run(code) == "False"


@pytest.mark.thin(3)
@pytest.mark.parametrize("blocked", [("jax", "torch"), ("jaxtyping",), ("jax", "torch", "jaxtyping", "ml_dtypes")])
def test_numpy_alone_is_enough(blocked):
    assert run("import attnlab" + CALL + "print('fine')", *blocked) == "fine"


@pytest.mark.thin(6)
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


@pytest.mark.thin(3)
@pytest.mark.parametrize(("adapter", "library"), [
    ("transformers", "torch"), ("transformers", "transformers"), ("flax", "jax"), ("equinox", "jax"),
    ("equinox", "equinox"),
])  # fmt: skip
def test_an_adapter_names_what_is_missing(adapter, library):
    if adapter == library:
        needs({"transformers": "torch", "equinox": "jax"}[adapter])  # which it asks for first
    code = f"try:\n    import attnlab.adapters.{adapter}\nexcept ModuleNotFoundError as error:\n    print(error)"
    assert run(code, library).endswith(f"pip install 'attnlab[{library}]'")


@pytest.mark.parametrize("library", ["jax", "torch"])
def test_the_other_library_still_works(library):
    other = {"jax": "torch", "torch": "jax"}[library]
    make = {"torch": "import torch\nx = torch.eye(3)\n", "jax": "import jax.numpy as jnp\nx = jnp.eye(3)\n"}[other]
    code = make + "import attnlab\nprint(tuple(attnlab.tiled_attention(x, x, x).shape))"
    assert run(code, library) == "(3, 3)"


def test_a_module_run_as_a_script_folder_does_not_shadow_torch():
    """attnlab.tiled.torch imports PyTorch, not itself."""
    code = "import attnlab.tiled.torch as t\nimport torch\nprint(t.torch is torch, 'site-packages' in torch.__file__)"
    assert run(code) == "True True"
