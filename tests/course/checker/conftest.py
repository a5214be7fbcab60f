"""Exercises and their answers run as they do for a learner."""

from tests.support.typechecker import unchecked  # noqa: F401
