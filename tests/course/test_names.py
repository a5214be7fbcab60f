"""No name of a class has two meanings in the course and what it stands on."""

import attnlab_course

import attnlab
from tests.attnlab.call.test_names import with_two_meanings


def test_no_class_is_named_like_another_one():
    assert with_two_meanings(attnlab, attnlab_course) == {}
