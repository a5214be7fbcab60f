"""The tests; tests.typechecker is loaded here because the import hook of jaxtyping looks it up on this package."""

from tests import typechecker

__all__ = ["typechecker"]
