"""What of the course is imported when, in processes of their own."""

import re

import pytest

import attnlab
from tests.attnlab.call.test_lazy_import import run, sentence

CALL = """
from attnlab_course import model
from attnlab_course.serve import Engine
assert model.load().logits(model.tokens("ab")).shape == (3, 257)
engine = Engine(model.load(), blocks=2, block_size=4, budget=4)
engine.submit("ab", max_tokens=2)
assert len(engine.run()[0].outputs[0]) == 2
"""


@pytest.mark.parametrize("name", attnlab.OF_COURSE)
def test_what_was_elsewhere_is_where_the_error_says(name):
    with pytest.raises(AttributeError) as error:
        getattr(attnlab, name)
    found = {}
    exec(re.fullmatch(sentence(name), str(error.value))[1], found)
    assert found[name].__name__.startswith("attnlab_course.")


def test_the_model_and_its_server_load_no_other_library():
    assert run(CALL + "print([name for name in ('jax', 'torch') if name in sys.modules])") == "[]"


@pytest.mark.parametrize("blocked", [("jax", "torch"), ("jaxtyping",), ("jax", "torch", "jaxtyping", "ml_dtypes")])
def test_numpy_alone_is_enough(blocked):
    assert run(CALL + "print('fine')", *blocked) == "fine"


@pytest.mark.parametrize("library", ["jax", "torch"])
def test_a_missing_library_names_its_extra(library):
    load = f"from attnlab_course import model\n    model.load(library={library!r})"
    code = f"try:\n    {load}\nexcept ModuleNotFoundError as error:\n    print(error)"
    assert f"pip install 'attnlab[{library}]'" in run(code, library)
